#include "dgx/jobs/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <tuple>
#include <utility>

#include "dgx/core/files.h"
#include "dgx/exchange/ranks.h"
#include "dgx/placement/pipeline.h"
#include "dgx/program/experts.h"
#include "placement/read_machines.h"

namespace dgx::jobs {

Result<placement::Machines> read_machines(const std::string& path) {
  DGX_TRY(const std::string text, read_file(path, placement::kMaxMachinesBytes));
  auto machines = placement::parse_machines(text);
  if (!machines.ok()) return within(path, std::move(machines).error());
  return machines;
}

std::string machine_of_host(const std::string& host) {
  std::string out;
  for (const char c : host.substr(0, 48)) out += c > ' ' && c <= '~' ? c : '_';
  return out.empty() ? "host" : out;
}

std::string misplaced_rank(const placement::Plan& plan, const exchange::Exchange& ranks) {
  std::vector<std::string> hosts, planned;
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    hosts.push_back(machine_of_host(ranks.host_of(static_cast<int>(r))));
    planned.push_back(plan.ranks[r].machine.substr(0, plan.ranks[r].machine.find(':')));
  }
  const auto is_host = [&](const std::string& name) { return std::ranges::find(hosts, name) != hosts.end(); };
  if (!std::ranges::any_of(planned, is_host)) return {};
  const auto [host, machine] = std::ranges::mismatch(hosts, planned);
  if (host == hosts.end()) return {};
  return fmt::format(
      "{} runs on another machine than the plan's, '{}': dgx-plan show --hosts has their order",
      exchange::name_of(ranks, static_cast<int>(host - hosts.begin())), *machine);
}

namespace {

/// A task's step, as plans foretell it.
struct Foretold {
  const TaskFiles& files;
  program::Classes classes;

  static Result<Foretold> of(const TaskFiles& files) {
    DGX_TRY(program::Classes classes, program::classify(*files.program, slices_of(files.body())));
    return Foretold{files, std::move(classes)};
  }
  /// The work of ranks that share the slices.
  [[nodiscard]] Result<placement::StepWork> work_on(std::size_t ranks, exec::ExpertsAt experts) const {
    const program::OptimizerSpec& optimizer = files.body().optimizer;
    const bool is_dgc = optimizer.kind == program::OptimizerSpec::Kind::kDgc;
    program::Classes placed = classes;
    if (experts == exec::ExpertsAt::kHome)
      DGX_CHECK(program::place_experts(*files.program, static_cast<int>(ranks), {}, placed));
    return placement::work_of(*files.program, placed, is_dgc ? optimizer.density : 1);
  }
  [[nodiscard]] bool has_experts() const {
    return !program::find_experts(*files.program, classes).all.empty();
  }
};

}  // namespace

Result<placement::Forecast> forecast_of(const placement::Plan& plan, const TaskFiles& files,
                                        std::span<const std::int64_t> operations_per_second,
                                        const exchange::Network& network) {
  DGX_TRY(const Foretold step, Foretold::of(files));
  if (!plan.pipeline) {
    DGX_TRY(const placement::StepWork work, step.work_on(plan.ranks.size(), sharing_of(plan).experts));
    return placement::forecast(work, plan.bounds(), operations_per_second, network);
  }
  const program::PipelineCut cut{
      plan.pipeline->cuts, plan.pipeline->parts, {}, static_cast<std::int64_t>(plan.pipelines())};
  DGX_TRY(const program::Stages stages, program::stages_of(*files.program, step.classes, cut));
  DGX_TRY(const placement::PipelineWork work,
          placement::work_of_stages(*files.program, step.classes, stages, cut));
  std::vector<std::int64_t> bounds = {0};
  for (std::size_t r = 0; r < plan.ranks.size(); r += plan.pipeline->stages())
    bounds.push_back(bounds.back() + plan.ranks[r].slices);
  return placement::forecast(work, operations_per_second, network, bounds);
}

namespace {

double operations_of(const placement::StepWork& work, std::size_t ranks) {
  double shared = 0, repeated = 0;
  const auto add = [&](const placement::Stretch& stretch) {
    shared += std::reduce(stretch.at_home.begin(), stretch.at_home.end(), stretch.of_slices);
    repeated += stretch.whole;
  };
  add(work.tail);
  for (const placement::StepWork::Phase& phase : work.phases) std::ranges::for_each(phase.stretches, add);
  return shared + repeated * static_cast<double>(ranks);
}

/// A field of the task's dataset, of which the type and the shape are known.
class DescribedField final : public RowSource {
 public:
  DescribedField(const manifest::DatasetField& field, std::int64_t samples)
      : dtype_(field.dtype), shape_(field.shape) {
    shape_.insert(shape_.begin(), samples);
  }
  [[nodiscard]] DType dtype() const override { return dtype_; }
  [[nodiscard]] const Shape& shape() const override { return shape_; }
  [[nodiscard]] Status copy(std::int64_t, std::span<std::uint8_t>) const override {
    return internal_error("a described field has no rows");
  }
  void expect(std::int64_t) const override {}

 private:
  DType dtype_;
  Shape shape_;
};

/// By rank, how many experts of each block are at home there.
std::vector<std::vector<int>> experts_at_home(const Foretold& step, const placement::Plan& plan) {
  std::vector<std::vector<int>> out(plan.ranks.size());
  if (!plan.experts) return out;
  const program::Experts experts = program::find_experts(*step.files.program, step.classes);
  for (std::vector<int>& of_rank : out) of_rank.resize(experts.of_block.size());
  for (const program::Experts::Expert& expert : experts.all) {
    const int home = experts.home(expert, static_cast<int>(plan.ranks.size()));
    ++out[static_cast<std::size_t>(home)][expert.block];
  }
  return out;
}

/// Bytes that each rank takes: of those of a stage with as many slices, and as many experts of each block,
/// what the first does. With experts at home, rank 0 alone also has what it gives the others.
Result<std::vector<std::int64_t>> memory_of(const Foretold& step, const placement::Plan& plan, int threads) {
  const TaskFiles& files = step.files;
  FieldRows fields;
  for (const auto& [name, field] : files.body().dataset.fields)
    fields.emplace(name, std::make_shared<DescribedField>(field, files.body().dataset.samples));
  const std::vector<std::vector<int>> at_home = experts_at_home(step, plan);
  std::map<std::tuple<std::size_t, std::int64_t, std::vector<int>, bool>, std::int64_t> known;
  std::vector<std::int64_t> out;
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    const std::size_t stage = plan.pipeline ? r % plan.pipeline->stages() : 0;
    const std::tuple kind(stage, plan.ranks[r].slices, at_home[r], plan.experts && r == 0);
    const auto found = known.find(kind);
    if (found != known.end()) {
      out.push_back(found->second);
      continue;
    }
    DGX_TRY(const std::int64_t bytes,
            memory_of_rank(files, fields, threads, static_cast<int>(r), sharing_of(plan)));
    known.emplace(kind, bytes);
    out.push_back(bytes);
  }
  return out;
}

/// Advice for a rank that takes too much memory.
const char* hint_for_memory(const PlacementResult& result) {
  if (result.choice.plan.pipeline) return "leave that machine out, or take more --stages or --parts";
  if (result.seconds_with_experts)
    return "leave that machine out, or take --experts, so that each has fewer weights, or more --ranks";
  return "leave that machine out, or take more --ranks, so that each has fewer samples";
}

/// kUsage, with both numbers, unless every rank fits the memory of its machine.
Status check_memory(const PlacementResult& result) {
  for (std::size_t r = 0; r < result.machines.size(); ++r) {
    const placement::Machine& machine = result.machines[r];
    if (result.memory_bytes[r] <= machine.memory_bytes) continue;
    return usage_error(fmt::format("rank {} would take {} bytes of memory, its machine '{}' has {}", r,
                                   result.memory_bytes[r], machine.name, machine.memory_bytes),
                       hint_for_memory(result));
  }
  return {};
}

/// The places in the file of the machines of all ranks.
Result<std::vector<std::size_t>> places_of(const placement::Machines& machines,
                                           const std::optional<placement::Plan>& plan, int ranks) {
  std::vector<std::size_t> out;
  for (std::size_t n = 0; n < static_cast<std::size_t>(ranks); ++n) {
    if (!plan) {
      out.push_back(n);
      continue;
    }
    const auto found =
        std::ranges::find(machines.machines, plan->ranks[n].machine, &placement::Machine::name);
    if (found == machines.machines.end())
      return usage_error(fmt::format("has no machine '{}', which has rank {}", plan->ranks[n].machine, n));
    out.push_back(static_cast<std::size_t>(found - machines.machines.begin()));
  }
  if (out.size() > machines.machines.size())
    return usage_error(fmt::format("has {} machines, for {} ranks", machines.machines.size(), ranks));
  return out;
}

}  // namespace

std::int64_t slices_of(const manifest::Task& task) {
  return task.update.workers > 1 ? task.update.workers : task.batch;
}

Result<placement::Plan> read_placement(const std::string& path) {
  DGX_TRY(const std::string text, read_file(path, placement::kMaxPlanBytes));
  auto plan = placement::parse_plan(text);
  if (!plan.ok()) return within(path, std::move(plan).error());
  return plan;
}

Sharing sharing_of(const placement::Plan& plan) {
  Sharing out{plan.bounds(), std::nullopt, static_cast<int>(plan.ranks.size())};
  if (plan.pipeline) out.cuts = plan.pipeline->cuts;
  if (plan.experts) out.experts = exec::ExpertsAt::kHome;
  return out;
}

Status check_placement(const placement::Plan& plan, const TaskFiles& files) {
  if (plan.task != files.task.id)
    return usage_error(
        fmt::format("the plan is for the task {}, this is {}", plan.task.brief(), files.task.id.brief()));
  if (plan.program != files.body().program.root || plan.slices != slices_of(files.body()))
    return usage_error("the plan names the task, but another program or batch than its");
  return {};
}

Status check_ranks(const placement::Plan& plan, int ranks) {
  if (plan.ranks.size() == static_cast<std::size_t>(ranks)) return {};
  return usage_error(fmt::format("the plan is for {} ranks, these are {}", plan.ranks.size(), ranks),
                     fmt::format("mpirun -n {}", plan.ranks.size()));
}

namespace {

exec::ExpertsAt experts_of(const PlacementOptions& options) {
  return options.experts ? exec::ExpertsAt::kHome : exec::ExpertsAt::kEveryRank;
}

/// The best plan, which is no task's yet.
Result<placement::Choice> choose(const placement::Machines& machines, const Foretold& step,
                                 const PlacementOptions& options) {
  if (options.stages > 0) {
    DGX_TRY(const placement::StepWork alone, step.work_on(1, exec::ExpertsAt::kEveryRank));
    return placement::choose_pipeline(machines, *step.files.program, step.classes, alone,
                                      {options.stages, options.parts, options.seed, options.pipelines});
  }
  const auto work_on = [&](std::size_t ranks) { return step.work_on(ranks, experts_of(options)); };
  DGX_TRY(placement::Choice choice, placement::choose_plan(machines, work_on, {options.ranks, options.seed}));
  choice.plan.experts = options.experts;
  return choice;
}

/// The seconds of a step of a mixture that is planned without experts at home, if it were planned with them.
Result<std::optional<double>> seconds_with_experts(const placement::Machines& machines, const Foretold& step,
                                                   PlacementOptions options) {
  if (options.experts || options.stages > 0 || !step.has_experts()) return std::optional<double>();
  options.experts = true;
  DGX_TRY(const placement::Choice choice, choose(machines, step, options));
  return std::optional(choice.forecast.seconds);
}

}  // namespace

Result<PlacementResult> plan_placement(const PlacementOptions& options, const JobContext& context) {
  DGX_TRY(Output output, Output::claim(options.output, context.clobber));
  DGX_TRY(const TaskFiles files, open_task(options.task, options.program, context.trust));
  DGX_TRY(const placement::Machines machines, read_machines(options.machines));
  DGX_TRY(const Foretold step, Foretold::of(files));
  DGX_TRY(const placement::StepWork alone, step.work_on(1, experts_of(options)));
  auto choice = choose(machines, step, options);
  if (!choice.ok()) return within(options.machines, std::move(choice).error());
  PlacementResult out{*std::move(choice), 0, {}, machines.machines.size(), {}, {}, {}};
  out.choice.plan.task = files.task.id;
  out.choice.plan.program = files.body().program.root;
  out.operations =
      operations_of(alone, options.stages == 0 ? out.choice.plan.ranks.size() : options.pipelines);
  for (const placement::Seat& seat : out.choice.plan.ranks)
    out.machines.push_back(*std::ranges::find(machines.machines, seat.machine, &placement::Machine::name));
  DGX_TRY(out.seconds_with_experts, seconds_with_experts(machines, step, options));
  DGX_TRY(out.memory_bytes, memory_of(step, out.choice.plan, context.threads));
  DGX_CHECK(check_memory(out));
  if (options.against) {
    DGX_TRY(const placement::Machines others, read_machines(*options.against));
    PlacementOptions as_many = options;
    as_many.ranks = out.choice.plan.ranks.size();
    auto other = choose(others, step, as_many);
    if (!other.ok()) return within(*options.against, std::move(other).error());
    out.seconds_against = other->forecast.seconds;
  }
  DGX_CHECK(output.write(placement::print_plan(out.choice.plan)));
  return out;
}

Result<exchange::Network> read_network(const std::string& machines,
                                       const std::optional<placement::Plan>& plan, int ranks) {
  DGX_TRY(const placement::Machines found, read_machines(machines));
  const auto network = [&]() -> Result<exchange::Network> {
    DGX_TRY(const std::vector<std::size_t> places, places_of(found, plan, ranks));
    return placement::network_of(found, places);
  }();
  if (!network.ok()) return within(machines, network.error());
  return network;
}

}  // namespace dgx::jobs
