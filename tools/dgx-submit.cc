// dgx-submit: turn a model, a dataset and hyperparameters into a signed task. dgx-submit(1).
#include "dgx/cli/tool.h"
#include "dgx/core/time_text.h"
#include "dgx/jobs/key.h"
#include "dgx/jobs/quote.h"
#include "dgx/jobs/submit.h"
#include "dgx/protocol/split.h"

namespace {

using namespace dgx;

/// Options about what is trained, and how. `need`: kRequired for a task; for an estimate, which accepts a
/// finished task instead, these options may be omitted.
void declare_training(cli::Command& command, jobs::SubmitOptions& options, cli::Need need) {
  const auto add = [&](std::string_view name, std::string value, auto& variable, std::string help) {
    if (need == cli::Need::kRequired) {
      command.required(name, std::move(value), variable, std::move(help));
    } else {
      command.option(name, std::move(value), variable, std::move(help));
    }
  };
  add("--data", "DATA.h5", options.data, "dataset bundle, from dgx-pack");
  add("--model", "SPEC|FILE", options.model,
      "mlp:784-256-128-10 | resnet20 | gpt:layers=6,width=384,heads=6 | switch:experts=4,capacity=1.25, or a "
      "file: torch.export (.pt2) or TorchScript (.pt)");
  command.suggest(
      {"mlp:784-256-128-10", "resnet20", "gpt:layers=6,width=384,heads=6", "switch:experts=4,capacity=1.25"});
  command.option("--eval-model", "FILE.pt2", options.evaluation_model,
                 "the same model, exported after model.eval(): how it computes in evaluation");
  add("--loss", "LOSS", options.loss,
      "cross-entropy[:label-smoothing=0.1,ignore=255,weights=1/2/0.5] | bce[:pos-weights=1/2.5] | mse | l1 | "
      "huber[:delta=1] | output[=NAME], the model's own");
  command.suggest({"cross-entropy", "bce", "mse", "l1", "huber", "output"});
  add("--optimizer", "SPEC", options.optimizer,
      "sgd:lr=0.1,momentum=0.9 | adam:lr=1e-3 | adamw:lr=3e-4 | lion:lr=1e-4 | rmsprop:lr=1e-2 | "
      "adagrad:lr=1e-2 | dgc:lr=0.1,density=0.001,warmup=400, which --workers send few numbers of");
  command.suggest({"sgd:lr=0.1,momentum=0.9", "adam:lr=1e-3", "adamw:lr=3e-4", "lion:lr=1e-4",
                   "rmsprop:lr=1e-2", "adagrad:lr=1e-2", "dgc:lr=0.1,density=0.001,warmup=400"});
  add("--batch", "N", options.batch, "samples per step");
  command.option("--epochs", "N", options.epochs, "passes over the data");
  command.option("--steps", "N", options.steps, "number of steps, instead of epochs");
  need == cli::Need::kRequired ? command.exactly_one({"--epochs", "--steps"})
                               : command.at_most_one({"--epochs", "--steps"});
  command.option("--seed", "N", options.seed, "seed of initial weights and data order");
  command.option("--schedule", "SPEC", options.schedule,
                 "constant | step:every=30,gamma=0.1 | cosine:warmup=5%,min=0 | linear:warmup=100 | "
                 "polynomial:power=2 | inverse-sqrt:warmup=100 | wsd:decay=10% | one-cycle:up=0.3 | "
                 "plateau:every=100");
  command.option("--clip-norm", "X", options.clip_norm, "bound on the gradients' global norm");
  command.option(
      "--group", "PATTERN:FIELDS", options.groups,
      "parameters that train otherwise, 'head.*:lr=0.1x' or 'rank<2:weight-decay=0'; the first that "
      "matches counts");
  command.option("--freeze", "PATTERN", options.frozen,
                 "parameters that keep their values, a glob on names or rank<2");
  command.option("--accumulate", "N", options.accumulate,
                 "update the parameters every N steps, by the mean of their gradients");
  command.option(
      "--workers", "K", options.workers,
      "add up the gradients of K equal parts of the batch, which K processes can make side by side");
  command.option(
      "--cut", "BLOCK:FIELDS", options.cut,
      "send few bits behind a block of the model, 3:forward=2,backward=8,first=469, so that its two "
      "sides can be far apart");
  command.option("--ema", "DECAY", options.ema,
                 "keep a moving average of the parameters, too, for dgx-inspect export --ema: 0.999");
}

/// All options of a task: those of the training, and of what surrounds it.
void declare_task(cli::Command& command, jobs::SubmitOptions& options, cli::Need need) {
  declare_training(command, options, need);
  command.option("--checkpoint-every", "N", options.checkpoint_every,
                 "steps per segment (default: at least 100 segments, if that adds at most 1 % to the work)");
  command.option("--inputs", "INPUT=FIELD,...", options.inputs,
                 "what the inputs of a model file take: input_ids=x,attention_mask=mask,labels=y");
  command.option("--input", "TYPE|FIELD=TYPE,...", options.input,
                 "in which type a TorchScript file takes x, or the fields: auto, bool, f32, i64, u8");
  command.suggest({"auto", "bool", "f32", "i64", "u8"});
  command.option("--model-output", "NAME|N", options.model_output, "which of several outputs the loss is of");
  command.option("--init", "STATE", options.init,
                 "start from these weights: a run, a checkpoint or a .safetensors file");
  command.option("--parent", "PROOF.json", options.parent, "continue a proved run (a later version)");
  command.option("--numerics", "exact|native", options.numerics, "arithmetic of the steps");
  command.option("--policy", "FILE", options.policy, "the market's rules: a JSON object or a signed policy");
  command.option("--ledger", "ID|FILE", options.ledger,
                 "the market: its id, LEDGER.jsonl (then with its policy), a receipt or a head; without it "
                 "no ledger takes the task");
  command.option("--price", "N", options.price, "base units per 10^9 weighted operations");
  command.option("--max-milliseconds", "N", options.max_milliseconds,
                 "time that a run may take, as information for solvers");
}

json::Value operations_of(const program::Cost& cost) {
  json::Object object;
  for (std::size_t op = 0; op < cost.operations.size(); ++op) {
    if (cost.operations[op] == 0) continue;
    object[std::string(kernels::name_of(static_cast<kernels::ScalarOp>(op)))] = cost.operations[op];
  }
  return object;
}

json::Value roles_of(const program::Cost& cost) {
  json::Object object;
  for (std::size_t role = 0; role < cost.by_role.size(); ++role) {
    if (cost.by_role[role] == 0) continue;
    object[std::string(program::name_of(static_cast<program::WorkRole>(role)))] = cost.by_role[role];
  }
  return object;
}

void print_groups(cli::Out& out, const jobs::SubmitResult& result) {
  json::Array groups;
  for (const jobs::GroupSize& group : result.groups) {
    groups.emplace_back(
        json::Object{{"match", group.match}, {"numbers", group.numbers}, {"parameters", group.parameters}});
  }
  if (!groups.empty()) out.field("groups", groups);
  if (result.frozen) out.field("frozen", *result.frozen);
}

void print_work(cli::Out& out, const jobs::SubmitResult& result) {
  const manifest::Task& task = result.task;
  out.field("parameters", result.parameters);
  print_groups(out, result);
  out.field("steps", task.steps);
  out.field("segments", result.segments);
  out.field("checkpoint_every", task.checkpoint_every);
  out.field("state_bytes", result.cost.state_bytes);
  out.field("matrix_product_flop", result.cost.matrix_product_flop);
  out.field("matrix_product_flop_per_sample", result.cost.matrix_product_flop / task.batch);
}

void print_estimate(cli::Out& out, const jobs::SubmitResult& result) {
  const manifest::Estimate& estimate = result.task.estimate;
  out.field("step_operations", estimate.step_operations);
  out.field("operations", operations_of(result.cost));
  out.field("roles", roles_of(result.cost));
  out.field("train", estimate.train);
  out.field("prove", estimate.prove);
  out.field("verify", estimate.verify);
  out.field("reward", estimate.reward);
  out.field("fee", estimate.fee);
  out.field("escrow", estimate.escrow);
  const manifest::Caps& caps = result.task.caps;
  json::Object bounds{{"bytes", caps.bytes}, {"milliseconds", caps.milliseconds}, {"steps", caps.steps}};
  if (caps.constant_bytes > 0) bounds.emplace("constant_bytes", caps.constant_bytes);
  out.field("caps", std::move(bounds));
}

void print_quote(cli::Out& out, const jobs::Quote& quote) {
  out.field("currency", quote.currency);
  out.field("escrow_in_currency", quote.escrow);
  out.field("reward_in_currency", quote.reward);
  cli::Table machines{{"name", "milliseconds", "charge"}};
  for (const jobs::Quote::Machine& machine : quote.machines) {
    machines.rows.push_back(
        {machine.name, cli::Cell(json::Output(machine.milliseconds), duration_text(machine.milliseconds)),
         machine.charge});
  }
  out.field("machines", std::move(machines));
}

using SplitColumn = std::pair<const char*, std::int64_t (*)(const protocol::Split::Part&)>;

constexpr SplitColumn kSplitColumns[] = {
    {"steps", [](const auto& part) { return part.steps; }},
    {"segments", [](const auto& part) { return part.segments; }},
    {"sampled", [](const auto& part) { return part.sampled; }},
    {"train", [](const auto& part) { return part.estimate.train; }},
    {"prove", [](const auto& part) { return part.estimate.prove; }},
    {"verify", [](const auto& part) { return part.estimate.verify; }},
    {"reward", [](const auto& part) { return part.estimate.reward; }},
    {"fee", [](const auto& part) { return part.estimate.fee; }},
    {"tax", [](const auto& part) { return part.estimate.tax; }},
    {"treasury", [](const auto& part) { return part.estimate.treasury; }},
    {"margin", [](const auto& part) { return part.estimate.margin; }},
    {"escrow", [](const auto& part) { return part.estimate.escrow; }},
};

void print_split(cli::Out& out, const protocol::Split& split) {
  cli::Table parts;
  for (const auto& [name, number] : kSplitColumns) parts.columns.emplace_back(name);
  for (const protocol::Split::Part& part : split.parts) {
    std::vector<cli::Cell>& row = parts.rows.emplace_back();
    for (const auto& [name, number] : kSplitColumns) row.emplace_back(number(part));
  }
  const auto object = [](const protocol::Split::Part& part) {
    json::Object made;
    for (const auto& [name, number] : kSplitColumns) made.emplace(name, number(part));
    return made;
  };
  out.field("parts", std::move(parts));
  out.field("sum", object(split.sum));
  out.field("more", object(split.more));
}

struct Submit {
  jobs::SubmitOptions options;

  void declare(cli::Command& command) {
    declare_task(command, options, cli::Need::kRequired);
    command.key(options.key.path, options.key.passphrase_file);
    command.output(options.output, "TASK.json", cli::Need::kRequired,
                   "the task; TASK.program.jsonl and TASK.eval.jsonl go next to it");
    command.skip_existing(options.skip_existing);
  }
  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_TRY(const jobs::SubmitResult result, jobs::submit(options, out.brief_job()));
    out.detail("as TrainingArguments: " + jobs::trainer_words(result.task));
    if (result.existed) out.note_skipped(options.output);
    out.field("task", result.id);
    out.field("program", result.task.program.root);
    out.field("initial_state", result.task.initial.digest);
    print_work(out, result);
    out.field("escrow", result.task.estimate.escrow);
    return cli::Verdict::kDone;
  }
};

struct Estimate {
  jobs::SubmitOptions options;
  std::optional<std::string> task;
  std::optional<std::string> prices_path;
  std::optional<std::int64_t> parts;

  void declare(cli::Command& command) {
    command.positional("TASK.json", task, "an existing task, instead of the options of a new one");
    declare_task(command, options, cli::Need::kOptional);
    std::vector<std::string> of_new_task;
    for (const cli::OptionRow& row : command.rows())
      if (!row.positional()) of_new_task.push_back(row.title());
    command.not_with(std::move(of_new_task), {"TASK.json"});
    command.option("--prices", "PRICES.json", prices_path,
                   "what money and machines cost: print the task in a currency, and what each machine would "
                   "charge");
    command.option("--split", "K", parts, "also print what the task would cost as K consecutive parts");
  }
  Result<jobs::SubmitResult> estimate(const JobContext& context) const {
    if (task) return jobs::estimate_task(*task, context);
    for (const auto& [name, value] :
         {std::pair{"--data", &options.data}, std::pair{"--model", &options.model},
          std::pair{"--loss", &options.loss}, std::pair{"--optimizer", &options.optimizer}}) {
      if (value->empty())
        return usage_error(std::string("estimate needs TASK.json, or the options of a new task: ") + name +
                           " is required");
    }
    return jobs::estimate(options, context);
  }
  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_TRY(const jobs::SubmitResult result, estimate(out.brief_job()));
    out.detail("as TrainingArguments: " + jobs::trainer_words(result.task));
    print_work(out, result);
    print_estimate(out, result);
    if (prices_path) {
      DGX_TRY(const jobs::Quote quote, jobs::quote_by(*prices_path, result.task.estimate));
      print_quote(out, quote);
    }
    if (parts) {
      DGX_TRY(const protocol::Split split, protocol::split(result.task, *parts));
      print_split(out, split);
    }
    return cli::Verdict::kDone;
  }
};

}  // namespace

int main(int argc, char** argv) {
  cli::Tool tool("dgx-submit", "turn a model, a dataset and hyperparameters into a signed task");
  tool.names(jobs::names_of_trust);
  tool.add<Submit>("", "capture one training step and write the task");
  tool.add<Estimate>("estimate", "print work by kind and by role, caps and escrow; train and write nothing");
  return tool.run(argc, argv);
}
