#include "run.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <functional>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

#include "counted.h"
#include "device_module.h"
#include "dgx/exchange/exchange.h"
#include "dgx/exec/device_executor.h"
#include "dgx/exec/executor.h"
#include "dgx/exec/leading_executor.h"
#include "dgx/exec/parts_executor.h"
#include "dgx/kernels/evaluate.h"
#include "dgx/kernels/order.h"
#include "dgx/kernels/scalar.h"
#include "dgx/program/check.h"

namespace dgx::matrix {

using kernels::Kind;
using kernels::Primitive;
using kernels::ValueIndex;
namespace cpu = kernels::cpu;

namespace {

/// FNV-1a, 64 bits, over type, shape and bytes. Everything is compared bit by bit on the spot; the digest
/// only carries a result to other machines, guards against accidents alone, and needs no library there.
class Fnv {
 public:
  void add(std::uint64_t word) {
    for (int shift = 0; shift < 64; shift += 8) add_byte(static_cast<std::uint8_t>(word >> shift));
  }
  void add(const Tensor& tensor) {
    add(static_cast<std::uint64_t>(tensor.dtype()));
    add(tensor.shape().size());
    for (const std::int64_t extent : tensor.shape()) add(static_cast<std::uint64_t>(extent));
    for (const std::uint8_t byte : tensor.bytes()) add_byte(byte);
  }
  [[nodiscard]] std::string text() const { return fmt::format("{:016x}", hash_); }

 private:
  void add_byte(std::uint8_t byte) { hash_ = (hash_ ^ byte) * 0x100000001b3U; }
  std::uint64_t hash_ = 0xcbf29ce484222325U;
};

/// The NaNs that a value may have. Wherever it is hashed, posted or kept only one is allowed, and bits are
/// compared as they are. Only inside an evaluation may a NaN have any payload; there each stands for the one.
enum class Nan : std::uint8_t { kOne, kAny };

std::uint64_t bits_at(const TensorView& tensor, std::size_t i) {
  if (tensor.dtype == DType::kF32) return std::bit_cast<std::uint32_t>(tensor.as<float>()[i]);
  if (tensor.dtype == DType::kI64) return static_cast<std::uint64_t>(tensor.as<std::int64_t>()[i]);
  return tensor.bytes[i];
}

std::uint64_t stored_bits_at(const TensorView& tensor, std::size_t i) {
  return tensor.dtype == DType::kF32
             ? std::bit_cast<std::uint32_t>(kernels::canonical_nan(tensor.as<float>()[i]))
             : bits_at(tensor, i);
}

/// Empty, or where and how the bits differ. The reference's bits are always taken as they are: kernels/ref
/// stores only one NaN by contract (dgx/kernels/evaluate.h, "Storing").
std::string compare(const TensorView& ours, const Tensor& reference, Nan nan = Nan::kOne) {
  if (ours.dtype != reference.dtype() || ours.bytes.size() != reference.bytes().size())
    return "another type or size";
  const auto count = static_cast<std::size_t>(reference.count());
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t a = nan == Nan::kAny ? stored_bits_at(ours, i) : bits_at(ours, i),
                        b = bits_at(reference.view(), i);
    if (a != b) return fmt::format("element {} of {} is {:#x}, the definition says {:#x}", i, count, a, b);
  }
  return {};
}

std::string compare(const State& state, const std::string& entry, const Tensor& reference) {
  const Entry* found = find_entry(state, entry);
  if (found == nullptr) return "no entry " + entry;
  const std::string difference = compare(found->tensor.view(), reference);
  return difference.empty() ? "" : "entry " + entry + ": " + difference;
}

/// Takes a step on ranks that are threads. `take` says whether the rank could begin, and what is wrong. Sets
/// `all` if all could.
std::string on_ranks(int count, bool& all,
                     const std::function<std::pair<bool, std::string>(exchange::Exchange&)>& take) {
  const auto ranks = exchange::make_local(count);
  std::vector<std::string> texts(ranks.size());
  std::atomic<int> made = 0;
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    threads.emplace_back([&, r] {
      bool could = false;
      std::tie(could, texts[r]) = take(*ranks[r]);
      made += could ? 1 : 0;
      if (!could || !texts[r].empty()) ranks[r]->give_up(1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  all = made == count;
  for (const std::string& text : texts) {
    if (!text.empty()) return text;
  }
  return made == 0 || all ? "" : "some ranks cut the step, others do not";
}

/// Row n of `tensor` as row rows[n].
Tensor rows_at(const Tensor& tensor, const std::vector<std::int64_t>& rows) {
  Tensor out(tensor.dtype(), tensor.shape());
  const std::size_t size = tensor.bytes().size() / rows.size();
  for (std::size_t n = 0; n < rows.size(); ++n)
    std::ranges::copy(tensor.bytes().subspan(n * size, size),
                      out.bytes().subspan(static_cast<std::size_t>(rows[n]) * size, size).begin());
  return out;
}

/// Runs a case in one configuration.
class Run {
 public:
  Run(const Case& c, const Reference& reference, const Configuration& configuration)
      : case_(c),
        reference_(reference),
        threads_(configuration.threads),
        device_(configuration.device),
        not_finite_(reference.first_not_finite_of_last()) {}

  std::string all() {
    if (device_.empty()) {
      if (auto text = evaluation(); !text.empty()) return "evaluated, fused: " + text;
    }
    if (auto text = steps({false, true, false}); !text.empty()) return "as a step: " + text;
    if (may_replace_input() && !not_finite_) {
      if (auto text = steps({false, false, true}); !text.empty()) return "as a step in place: " + text;
    }
    if (!device_.empty()) return {};
    std::set<std::int64_t> samples;
    for (const Input& input : case_.inputs) {
      if (input.constant.empty() && !input.shape.empty() && input.shape[0] > 1)
        samples.insert(input.shape[0]);
    }
    for (const std::int64_t n : samples) {
      if (auto text = parts({false, true, false, n}); !text.empty())
        return fmt::format("{} samples in parts: {}", n, text);
    }
    return {};
  }

  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  [[nodiscard]] bool may_replace_input() const {
    const Tensor& input = reference_.values[{}];
    const Tensor& made = reference_.values.back();
    return case_.inputs.front().constant.empty() && input.dtype() == made.dtype() &&
           input.shape() == made.shape();
  }

  [[nodiscard]] State state(const Form& form) const {
    State state;
    if (!form.evaluation) state.push_back({"loss", Tensor(DType::kF32, {})});
    for (std::size_t i = 0; i < case_.inputs.size(); ++i) {
      if (case_.inputs[i].constant.empty() && !form.is_field(case_.inputs[i]))
        state.push_back({entry_name(i), reference_.values[ValueIndex(i)]});
    }
    const Tensor& made = reference_.values.back();
    if (form.keep_last) state.push_back({"model/z", Tensor(made.dtype(), made.shape())});
    if (!form.evaluation) state.push_back({"step", Tensor(DType::kI64, {})});
    return state;
  }

  std::string evaluation() {
    const Form form{true, false, false};
    const auto program = program_of(case_, form);
    if (!program.ok()) return program.error().message;
    auto evaluator = exec::Evaluator::create(*program, threads_);
    if (!evaluator.ok()) return evaluator.error().message;
    if (const Status status = (*evaluator)->load(state(form)); !status.ok()) return status.error().message;
    for (int repeat = 0; repeat < 2; ++repeat) {  // the second run overwrites what the first left in memory
      if (const Status status = (*evaluator)->run({}); !status.ok()) return status.error().message;
      const ValueIndex kept{std::max(0, to_number(reference_.values.last()) - 2)};
      for (const ValueIndex v : reference_.values.indices(std::max(reference_.first_line, kept))) {
        const std::string difference = compare((*evaluator)->value(v), reference_.values[v], Nan::kAny);
        if (!difference.empty())
          return fmt::format("run {}, value {}: {}\n{}", repeat, v, difference, (*evaluator)->explain());
      }
    }
    return {};
  }

  /// Checks a step's status and, unless that is an error, the state it left. Returns the difference, or an
  /// empty string.
  std::string check_step(const Status& status, const State& after, const Form& form) const {
    if (not_finite_) {
      const std::string expected =
          fmt::format("step 0: entry model/z is not finite at element {}", *not_finite_);
      if (status.ok() || status.error().message != expected) {
        return "expected '" + expected + "', got '" + (status.ok() ? "no error" : status.error().message) +
               "'";
      }
      return {};
    }
    if (!status.ok()) return status.error().message;
    for (std::size_t i = form.in_place ? 1 : 0; i < case_.inputs.size(); ++i) {
      if (!case_.inputs[i].constant.empty() || form.is_field(case_.inputs[i])) continue;
      if (auto difference = compare(after, entry_name(i), reference_.values[ValueIndex(i)]);
          !difference.empty())
        return difference;
    }
    return compare(after, form.in_place ? entry_name(0) : "model/z", reference_.values.back());
  }

  Result<std::unique_ptr<exec::StepExecutor>> executor_of(
      const std::shared_ptr<const program::Program>& program) const {
    static const Tensor kSample(DType::kF32, {1});
    const exec::StepInputs inputs{{}, 1, 1, {{"x", kSample.view()}, {"y", kSample.view()}}};
    if (device_.empty()) {
      DGX_TRY(auto made, exec::ExactExecutor::create(program, inputs, threads_));
      return std::unique_ptr<exec::StepExecutor>(std::move(made));
    }
    DGX_TRY(auto device, test::open_device(device_));
    DGX_TRY(auto made, exec::DeviceExecutor::create(program, inputs, std::move(device), threads_));
    return std::unique_ptr<exec::StepExecutor>(std::move(made));
  }

  std::string steps(const Form& form) {
    const auto program = program_of(case_, form);
    if (!program.ok()) return program.error().message;
    const auto made = executor_of(*program);
    if (!made.ok()) return made.error().message;
    exec::StepExecutor& executor = **made;
    const State start = state(form);
    if (const Status status = executor.load(start); !status.ok()) return status.error().message;
    const Status stepped = executor.step();
    if (auto text = check_step(stepped, executor.state().value(), form); !text.empty())
      return "fused: " + text + "\n" + executor.explain();
    if (!device_.empty()) return {};  // a device shows no values
    if (const Status status = executor.load(start); !status.ok()) return status.error().message;
    std::string difference;
    const Status traced = executor.trace([&](ValueIndex v, const TensorView& view) -> Status {
      if (!reference_.values.contains(v) || v < reference_.first_line || !difference.empty()) return {};
      difference = compare(view, reference_.values[v]);
      if (!difference.empty()) difference = fmt::format("value {}: {}", v, difference);
      return {};
    });
    if (difference.empty()) difference = check_step(traced, executor.state().value(), form);
    return difference.empty() ? "" : "value by value: " + difference;
  }

  /// The step in as many parts as there are threads, and one more, one after another and on ranks: empty also
  /// if the program is not cut.
  std::string parts(const Form& form) {
    constexpr std::uint64_t kSeed = 1;
    const auto program = program_of(case_, form);
    if (!program.ok()) return program.error().message;
    const auto order = kernels::DataOrder::create(kSeed, form.samples, form.samples);
    if (!order.ok()) return order.error().message;
    const std::vector<std::int64_t> rows = order->batch_indices(0);
    const Tensor names_a_batch(DType::kF32, {form.samples});
    std::vector<Tensor> fields;
    exec::StepInputs inputs{{}, kSeed, form.samples, {{"x", names_a_batch.view()}}};
    fields.reserve(case_.inputs.size());
    for (std::size_t i = 0; i < case_.inputs.size(); ++i) {
      if (!form.is_field(case_.inputs[i])) continue;
      fields.push_back(rows_at(reference_.values[ValueIndex(i)], rows));
      inputs.fields.emplace(field_name(i), fields.back().view());
    }
    const std::int64_t count = std::min<std::int64_t>(form.samples, threads_ + 1);
    const auto executor = exec::PartsExecutor::create(*program, inputs, threads_, count);
    if (auto text = step_of(executor, form); !text.empty()) return fmt::format("{} in turn: {}", count, text);
    if (executor.ok()) ++counts_.in_turn;
    if (threads_ != 2) return {};
    bool all = false;
    const std::string text = on_ranks(static_cast<int>(count), all, [&](exchange::Exchange& ranks) {
      const int threads = ranks.rank() == 0 ? threads_ : 1;
      auto made = exec::PartsExecutor::create_on(ranks, *program, inputs, threads);
      if (made.ok()) return std::pair(true, step_together(ranks, std::move(*made), form));
      return std::pair(false, made.error().code == ErrorCode::kUsage ? std::string() : made.error().message);
    });
    if (all) ++counts_.on_ranks;
    return text.empty() ? "" : fmt::format("{} ranks: {}", count, text);
  }

  /// A step from the form's state: empty also if the program is not cut.
  std::string step_of(const Result<std::unique_ptr<exec::PartsExecutor>>& executor, const Form& form) const {
    if (!executor.ok()) return executor.error().code == ErrorCode::kUsage ? "" : executor.error().message;
    if (const Status status = (*executor)->load(state(form)); !status.ok()) return status.error().message;
    const Status stepped = (*executor)->step();
    const std::string text = check_step(stepped, (*executor)->state().value(), form);
    return text.empty() ? "" : fmt::format("{}\n{}", text, (*executor)->explain());
  }

  /// A step that this rank takes with the others: rank 0 says what is wrong, also with their copies.
  std::string step_together(exchange::Exchange& ranks, std::unique_ptr<exec::PartsExecutor> executor,
                            const Form& form) const {
    const auto message = [](const Status& status) { return status.ok() ? "" : status.error().message; };
    if (ranks.rank() != 0) return message(exec::follow(ranks, *executor, StopFlag()));
    const std::string plan = executor->explain();
    exec::LeadingExecutor leading(ranks, std::move(executor), {});
    if (const Status status = leading.load(state(form)); !status.ok()) return status.error().message;
    const Status stepped = leading.step();
    const auto after = leading.state();
    if (!after.ok()) return after.error().message;
    std::string text = check_step(stepped, *after, form);
    if (stepped.ok() && text.empty()) {  // a step that is not finite leaves no state behind
      const auto copies = leading.snapshot({});
      if (!copies.ok()) text = copies.error().message;
    }
    return text.empty() ? "" : fmt::format("{}\n{}", text, plan);
  }

  const Case& case_;
  const Reference& reference_;
  const int threads_;
  const std::string& device_;
  const std::optional<std::size_t> not_finite_;
  Counts counts_;
};

}  // namespace

std::optional<std::size_t> Reference::first_not_finite_of_last() const {
  if (values.back().dtype() != DType::kF32) return std::nullopt;
  const auto numbers = values.back().as<float>();
  const auto found = std::find_if(numbers.begin(), numbers.end(), [](float x) { return !std::isfinite(x); });
  if (found == numbers.end()) return std::nullopt;
  return static_cast<std::size_t>(found - numbers.begin());
}

Result<Reference> reference_of(const Case& c, std::uint64_t seed) {
  DGX_TRY(const auto program, program_of(c, {false, true, false}));
  DGX_CHECK(program::check_program(*program));
  Reference reference{input_tensors(c, seed), ValueIndex(c.inputs.size()), {}};
  kernels::ByValue<kernels::ValueType> types;
  for (const Primitive& value : program->values) types.push_back({value.dtype, value.shape});
  Fnv digest;
  for (std::size_t n = 0; n < c.lines.size(); ++n) {
    const Primitive& line = program->values[reference.values.next()];
    DGX_TRY(const auto compiled, kernels::compile(line, types));
    kernels::ByValue<TensorView> views;
    for (const Tensor& value : reference.values) views.push_back(value.view());
    Tensor out(line.dtype, line.shape);
    DGX_TRY(const auto counted, kernels::evaluate_and_count(compiled, views, out));
    const std::string fault = test::count_fault(line, compiled, counted);
    if (!fault.empty()) return internal_error(fmt::format("value {}: {}", reference.values.next(), fault));
    digest.add(out);
    reference.values.push_back(std::move(out));
  }
  reference.digest = digest.text();
  return reference;
}

std::vector<Configuration> all_configurations() {
  std::vector<Configuration> all;
  for (const auto set : cpu::available_instruction_sets()) {
    for (const int threads : {1, 2, 3}) all.push_back({set, threads});
  }
  return all;
}

std::string differences(const Case& c, std::uint64_t seed, const Reference& reference,
                        const Configuration& configuration, Counts& counts) {
  if (const Status status = cpu::force_instruction_set(configuration.set); !status.ok())
    return status.error().message;
  Run run(c, reference, configuration);
  const std::string found = run.all();
  counts.in_turn += run.counts().in_turn;
  counts.on_ranks += run.counts().on_ranks;
  if (found.empty()) return {};
  std::string text = fmt::format("{}: seed {}, {}, {} threads: {}\n", c.name, seed,
                                 name_of(configuration.set), configuration.threads, found);
  for (const std::string& line : c.lines) text += "  " + line + "\n";
  return text;
}

std::int64_t work_of(const program::Program& program) {
  std::int64_t work = 0;
  for (const Primitive& value : program.values) {
    if (value.kind == Kind::kInput) continue;
    work += *element_count(value.shape) * *element_count(value.fold) *
            static_cast<std::int64_t>(1 + value.steps.size() + value.when.size());
  }
  return work;
}

}  // namespace dgx::matrix
