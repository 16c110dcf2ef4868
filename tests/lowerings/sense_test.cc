// The meaning of lowerings compared with what libtorch computes: every case of the file $DGX_CASES
// (README.md).
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "captured_text.h"
#include "cases.h"
#include "dgx/exec/executor.h"
#include "dgx/kernels/cpu/dispatch.h"
#include "dgx/kernels/order.h"
#include "dgx/kernels/philox.h"
#include "dgx/lowering/lower.h"
#include "dgx/program/initial.h"
#include "eager.h"
#include "networks.h"

namespace dgx::test {
namespace {

std::vector<Case> load_cases() {
  const char* const path = std::getenv("DGX_CASES");
  if (!path) FAIL("DGX_CASES names no file of cases");
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  const auto cases = parse_cases(text.str());
  if (!cases.ok()) FAIL(path << ": " << cases.error().message);
  return *cases;
}

lowering::CaptureBackend& backend() {
  static lowering::CaptureBackend* const opened = open_capture_backend(DGX_TORCH_MODULE);
  REQUIRE(opened);
  return *opened;
}

template <class T>
T must(Result<T> result) {
  if (!result.ok()) FAIL(result.error().message);
  return std::move(result).value();
}

void must(const Status& status) {
  if (!status.ok()) FAIL(status.error().message);
}

/// The error of `ours`, relative to the largest magnitude of `theirs`; infinite if they differ where either
/// is not finite.
double distance(std::span<const float> ours, std::span<const float> theirs) {
  double largest = 1e-6, off = 0;
  for (const float number : theirs) {
    if (std::isfinite(number)) largest = std::max(largest, std::abs(static_cast<double>(number)));
  }
  for (std::size_t n = 0; n < theirs.size(); ++n) {
    if (ours[n] == theirs[n]) continue;
    const double difference = std::abs(static_cast<double>(ours[n]) - static_cast<double>(theirs[n]));
    off = std::max(off, std::isfinite(difference) ? difference : HUGE_VAL);
  }
  return off / largest;
}

/// A buffer as the state stores it: dgx-lowerings(7), "Capture", defines the stand-in for infinities.
Tensor stored(Tensor buffer, const Tensor& ours) {
  if (buffer.dtype() != DType::kF32) return buffer;
  for (std::size_t n = 0; n < buffer.as<float>().size(); ++n) {
    float& number = buffer.as<float>()[n];
    const bool stands = std::isinf(number) && std::abs(ours.as<float>()[n]) > 3.4e38F;
    if (stands) number = std::copysign(ours.as<float>()[n], number);
  }
  return buffer;
}

std::string numbers_of(const Tensor& tensor) {
  std::ostringstream text;
  for (std::size_t n = 0; n < std::min<std::size_t>(static_cast<std::size_t>(tensor.count()), 24); ++n)
    text << (n ? " " : "") << tensor.as<float>()[n];
  return text.str();
}

void require_close(const Tensor& ours, const Tensor& theirs, double tolerance, const std::string& what) {
  INFO(what);
  REQUIRE(ours.dtype() == theirs.dtype());
  REQUIRE(ours.count() == theirs.count());
  if (ours.dtype() != DType::kF32) {
    REQUIRE(std::ranges::equal(ours.bytes(), theirs.bytes()));
    return;
  }
  INFO("ours   " << numbers_of(ours));
  INFO("theirs " << numbers_of(theirs));
  REQUIRE(distance(ours.as<float>(), theirs.as<float>()) <= tolerance);
}

/// A case turned into a program, with its data.
class Subject {
 public:
  explicit Subject(const Case& of) : case_(of), x_(must(filled(of.input, kSeed))) {}

  void run() {
    const auto shape = must(must(Eager::create(case_, case_.reference, kSeed, true))->evaluate(x_)).shape();
    REQUIRE(!shape.empty());
    REQUIRE(shape[0] == case_.input.shape[0]);
    y_ = must(filled({"y", shape, {"normal"}}, kSeed));
    const auto path =
        std::filesystem::temp_directory_path() / ("dgx-lowerings-" + std::to_string(::getpid()) + ".pt");
    must(must(Eager::create(case_, case_.source, kSeed, false))->save(path.string()));
    auto training = captured(path.string(), true);
    auto evaluation = case_.evaluates ? captured(path.string(), false)
                                      : Result<lowering::CapturedGraph>(internal_error(""));
    std::filesystem::remove(path);
    if (!case_.refused.empty()) return check_refused(training, evaluation);
    const auto graph = must(std::move(training));
    INFO(captured_text(graph));
    check_training(graph);
    if (case_.evaluates) check_evaluation(graph, must(std::move(evaluation)));
  }

 private:
  Result<lowering::CapturedGraph> captured(const std::string& path, bool training) const {
    lowering::CaptureRequest request;
    request.model = path;
    request.fields = {{"x", case_.input.shape, x_.dtype()}};
    request.training = training;
    return backend().capture(request);
  }

  [[nodiscard]] lowering::TrainingRecipe recipe() const {
    lowering::TrainingRecipe recipe;
    recipe.fields["x"] = {x_.dtype(), Shape(x_.shape().begin() + 1, x_.shape().end())};
    recipe.fields["y"] = {DType::kF32, Shape(y_.shape().begin() + 1, y_.shape().end())};
    recipe.batch = x_.shape()[0];
    recipe.loss = program::LossKind::kMeanSquaredError;
    recipe.optimizer.learning_rate = case_.learning_rate;
    return recipe;
  }

  /// The error with which submission refuses one of the two captures.
  [[nodiscard]] std::string refusal(const Result<lowering::CapturedGraph>& training,
                                    const Result<lowering::CapturedGraph>& evaluation) const {
    if (!training.ok()) return training.error().message;
    const auto step = lowering::lower_training_step(*training, recipe());
    if (!step.ok()) return step.error().message;
    if (!case_.evaluates) return "nothing is refused";
    if (!evaluation.ok()) return evaluation.error().message;
    const auto forward = lowering::lower_evaluation(*evaluation, recipe());
    return forward.ok() ? "nothing is refused" : forward.error().message;
  }

  void check_refused(const Result<lowering::CapturedGraph>& training,
                     const Result<lowering::CapturedGraph>& evaluation) const {
    INFO("expected: " << case_.refused);
    const std::string message = refusal(training, evaluation);
    INFO("message:  " << message);
    REQUIRE(message.find(case_.refused) != std::string::npos);
  }

  void check_training(const lowering::CapturedGraph& graph) {
    const auto program =
        std::make_shared<const program::Program>(must(lowering::lower_training_step(graph, recipe())));
    const State start = must(lowering::initial_state(*program, graph));
    const exec::StepInputs inputs{must(program::schedule_parameters(recipe().optimizer, {}, 1000)),
                                  kSeed,
                                  recipe().batch,
                                  {{"x", x_.view()}, {"y", y_.view()}}};
    std::vector<State> states = {start};
    const auto eager = must(Eager::create(case_, case_.reference, kSeed, true));
    for (std::int64_t step = 0; step < case_.steps; ++step) {
      const auto rows =
          must(kernels::DataOrder::create(kSeed, recipe().batch, recipe().batch)).batch_indices(step);
      const StepInputs batch{pick(x_, rows), pick(y_, rows), inputs.schedule, step, kSeed};
      states.push_back(next_state(*program, states.back(), batch));
      for (const Draw& draw : case_.draws) {
        Tensor numbers(DType::kF32, draw.shape);
        kernels::fill_uniform(kSeed, {kernels::StreamKind::kDropout, draw.stream}, step, numbers);
        eager->set_buffer(draw.name, numbers);
      }
      compare(states, must(eager->train(batch.x, batch.y, case_.learning_rate)), *eager);
    }
    check_executor(program, inputs, states);
  }

  void compare(const std::vector<State>& states, const Eager::Step& theirs, const Eager& eager) const {
    const State &before = states[states.size() - 2], &after = states.back();
    const auto of = [](const State& state, const std::string& name) {
      return find_entry(state, name)->tensor;
    };
    Tensor loss(DType::kF32, {});
    loss.as<float>()[0] = theirs.loss;
    require_close(of(after, "loss"), loss, case_.tolerance, "loss");
    for (std::size_t n = 0; n < case_.parameters.size(); ++n) {
      const std::string& name = case_.parameters[n].name;
      const Entry* const found = find_entry(after, "model/" + name);
      if (!found) {
        INFO("parameter " << name << " is not in the program");
        REQUIRE_FALSE(theirs.gradients[n]);
        continue;
      }
      if (case_.steps > 1) {
        require_close(found->tensor, eager.entry(name), case_.tolerance, "parameter " + name);
        continue;
      }
      // The learning rate is large, so that the difference contains all of the gradient's bits.
      Tensor gradient = of(before, "model/" + name);
      for (std::size_t i = 0; i < static_cast<std::size_t>(gradient.count()); ++i)
        gradient.as<float>()[i] = static_cast<float>((static_cast<double>(gradient.as<float>()[i]) -
                                                      static_cast<double>(found->tensor.as<float>()[i])) /
                                                     case_.learning_rate);
      require_close(gradient,
                    theirs.gradients[n] ? *theirs.gradients[n] : Tensor(DType::kF32, gradient.shape()),
                    case_.tolerance, "gradient of " + name);
    }
    for (const Field& buffer : case_.buffers) {
      const Entry* const found = find_entry(after, "model/" + buffer.name);
      if (found)
        require_close(found->tensor, stored(eager.entry(buffer.name), found->tensor), case_.tolerance,
                      "buffer " + buffer.name);
    }
  }

  static void require_same(const State& ours, const State& reference, const std::string& when) {
    REQUIRE(ours.size() == reference.size());
    for (std::size_t e = 0; e < ours.size(); ++e) {
      INFO(when << ": entry " << ours[e].name << " is not what the definition gives");
      REQUIRE(std::ranges::equal(ours[e].tensor.bytes(), reference[e].tensor.bytes()));
    }
  }

  /// Checks that every way to run the program gives the bits of the definition.
  static void check_executor(const std::shared_ptr<const program::Program>& program,
                             const exec::StepInputs& inputs, const std::vector<State>& states) {
    const auto best = kernels::cpu::current_instruction_set();
    for (const auto set : kernels::cpu::available_instruction_sets()) {
      must(kernels::cpu::force_instruction_set(set));
      for (const int threads : {1, 2}) {
        for (const bool traced : {false, true}) {
          const auto executor = must(exec::ExactExecutor::create(program, inputs, threads));
          must(executor->load(states[0]));
          for (std::size_t s = 1; s < states.size(); ++s) {
            must(traced ? executor->trace({}) : executor->step());
            require_same(executor->state().value(), states[s],
                         std::string(name_of(set)) + ", " + std::to_string(threads) + " threads" +
                             (traced ? ", traced" : ""));
          }
        }
      }
    }
    must(kernels::cpu::force_instruction_set(best));
  }

  /// Checks an evaluation of the state from which the training starts.
  void check_evaluation(const lowering::CapturedGraph& training, lowering::CapturedGraph graph) const {
    must(lowering::match_sources(training, graph));
    INFO("evaluation: " << captured_text(graph));
    const auto program =
        std::make_shared<const program::Program>(must(lowering::lower_evaluation(graph, recipe())));
    for (lowering::AtenSource& source : graph.sources) {
      for (const lowering::AtenSource& trained : training.sources) {
        if (!source.has_numbers() && trained.kind == source.kind && trained.name == source.name)
          source.value = trained.value;
      }
    }
    const State state = must(lowering::initial_state(*program, graph));
    const auto output = must(must(Eager::create(case_, case_.reference, kSeed, true))->evaluate(x_));
    Tensor theirs(DType::kF32, {x_.shape()[0]});
    const std::size_t size = static_cast<std::size_t>(output.count() / theirs.count());
    for (std::size_t n = 0; n < static_cast<std::size_t>(output.count()); ++n) {
      const float error = output.as<float>()[n] - y_.as<float>()[n];
      theirs.as<float>()[n / size] += error * error / static_cast<float>(size);
    }
    const auto evaluator = must(exec::Evaluator::create(program, 2));
    must(evaluator->load(state));
    must(evaluator->run({{"x", x_.view()}, {"y", y_.view()}}));
    const Tensor ours = evaluator->value(program->values.last());
    require_close(ours, theirs, case_.tolerance * 10, "evaluation: loss of each sample");
    const auto values = run_program(*program, state, {x_, y_, {}, 0, kSeed});
    REQUIRE(std::ranges::equal(ours.bytes(), values.back().bytes()));
  }

  const Case& case_;
  Tensor x_, y_;
};

TEST_CASE(
    "programs mean what libtorch computes, and every way to run them gives the bits of the definition") {
  for (const Case& one : load_cases()) {
    DYNAMIC_SECTION(one.name) { Subject(one).run(); }
  }
}

}  // namespace
}  // namespace dgx::test
