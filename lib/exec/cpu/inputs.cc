#include "cpu/inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "dgx/kernels/cpu/dispatch.h"
#include "dgx/program/cut_spec.h"
#include "dgx/program/initial.h"
#include "dgx/program/specs.h"

namespace dgx::exec {
namespace {

/// One number in its text form (dgx-program(5), "Numbers").
void store_constant(const std::string& text, DType dtype, std::uint8_t* to) {
  if (dtype == DType::kF32) {
    const float value = std::strtof(text.c_str(), nullptr);
    std::memcpy(to, &value, sizeof value);
  } else {
    const std::int64_t value = std::strtoll(text.c_str(), nullptr, 10);
    std::memcpy(to, &value, size_of(dtype));  // little-endian: the low byte of a u8
  }
}

/// The numbers of a dataset's samples, 0, 1, 2 …, i64 [samples], which lie nowhere.
class SampleNumbers final : public RowSource {
 public:
  explicit SampleNumbers(std::int64_t samples) : shape_{samples} {}
  [[nodiscard]] DType dtype() const override { return DType::kI64; }
  [[nodiscard]] const Shape& shape() const override { return shape_; }
  [[nodiscard]] Status copy(std::int64_t row, std::span<std::uint8_t> out) const override {
    std::memcpy(out.data(), &row, sizeof row);
    return {};
  }
  void expect(std::int64_t /*row*/) const override {}
  [[nodiscard]] bool in_memory() const override { return true; }

 private:
  Shape shape_;
};

/// The rows that a batch input takes; nullopt: there are none of its name.
std::optional<RowView> rows_of(const std::string& name, const StepInputs& inputs) {
  if (const auto field = inputs.fields.find(name); field != inputs.fields.end()) return field->second;
  if (name == program::kSampleNumbers) return RowView(std::make_shared<SampleNumbers>(samples_of(inputs)));
  return std::nullopt;
}

}  // namespace

std::optional<std::size_t> first_not_finite(const TensorView& tensor) {
  const auto numbers = tensor.as<float>();
  const auto found = std::find_if(numbers.begin(), numbers.end(), [](float x) { return !std::isfinite(x); });
  if (found == numbers.end()) return std::nullopt;
  return static_cast<std::size_t>(found - numbers.begin());
}

std::int64_t samples_of(const StepInputs& inputs) {
  const auto x = inputs.fields.find("x");
  return x == inputs.fields.end() || x->second.shape().empty() ? 0 : x->second.shape()[0];
}

Result<RowView> batch_field(const kernels::Primitive& input, const StepInputs& inputs) {
  const std::optional<RowView> found = rows_of(input.source.name, inputs);
  if (!found) return malformed("the program's `batch " + input.source.name + "` is no field of the dataset");
  const RowView& data = *found;
  Shape expected = data.shape();
  const bool is_complete = !expected.empty() && expected[0] == samples_of(inputs);
  if (is_complete) expected[0] = inputs.batch;
  if (is_complete && data.dtype() == input.dtype && expected == input.shape) return data;
  return malformed("the program's `batch " + input.source.name + "` is " + std::string(name_of(input.dtype)) +
                   to_string(input.shape) + ", the dataset gives " + std::string(name_of(data.dtype())) +
                   to_string(expected));
}

Result<std::int64_t> check_loadable(const program::Program& program, const State& state) {
  DGX_CHECK(program::check_state(program, state));
  DGX_TRY(const std::int64_t step, step_of(state));
  if (step < 0 || step > program::kMostTaskSteps)
    return malformed(fmt::format("state: step is {}, must be 0 to {}", step, program::kMostTaskSteps));
  for (const Entry& entry : state) {
    const auto bad =
        entry.tensor.dtype() == DType::kF32 ? first_not_finite(entry.tensor.view()) : std::nullopt;
    if (bad) return malformed("entry " + entry.name + " is not finite at element " + std::to_string(*bad));
  }
  return step;
}

Error not_finite(std::int64_t step, std::string_view entry, std::size_t element) {
  return malformed("step " + std::to_string(step) + ": entry " + std::string(entry) +
                       " is not finite at element " + std::to_string(element),
                   "a smaller learning rate or --clip-norm keeps training finite");
}

Tensor constant_tensor(const kernels::Primitive& input) {
  Tensor tensor(input.dtype, input.shape);
  const std::size_t size = size_of(input.dtype);
  for (std::size_t i = 0; i < input.source.of.size(); ++i) {
    store_constant(input.source.of[i], input.dtype, tensor.bytes().data() + i * size);
  }
  return tensor;
}

Status check_float_mode(ThreadTeam& team) {
  std::vector<Status> modes(static_cast<std::size_t>(team.size()));
  team.run([&](int member) { modes[static_cast<std::size_t>(member)] = kernels::cpu::check_float_mode(); });
  for (Status& mode : modes) DGX_CHECK(std::move(mode));
  return {};
}

}  // namespace dgx::exec
