#include "device/device_source.h"

#include <fmt/format.h>

#include <map>

#include "device/kernel_arguments.h"

namespace dgx::exec {

using kernels::CompiledPrimitive;
using kernels::ValueIndex;

namespace {

constexpr std::uint32_t kThreads = 128;
constexpr std::int64_t kFour = 4;

/// The kernel of fused maps: each thread makes one element of every member or, where the innermost dimension
/// and the size allow it, four neighbours, read and written as one vector.
class MapKernel final : public NumberReader {
 public:
  MapKernel(const Plan& plan, std::span<const ValueIndex> members, std::span<const ValueIndex> stored,
            const KernelOptions& options)
      : plan_(plan),
        members_(members),
        stored_(stored),
        loops_("i", {{"e", first().iteration}}, forms()),
        is_wide_(loops_.inner_extent() % kFour == 0 && first().count >= options.least_wide) {}

  DeviceKernel write() {
    Lines lines("n"), stores;
    const std::int64_t threads = is_wide_ ? first().count / kFour : first().count;
    const bool is_long = first().count > 0x7fffffff;
    begin(lines, threads, is_long);
    loops_.declare(lines, 0);
    if (is_wide_) loops_.step_by("j");
    make();
    finish(stores);
    Lines body;
    arguments_.declare(body);
    body.append(lines);
    body.append(reads_);
    if (is_wide_) {
      for (std::size_t n = 0; n < stored_.size(); ++n)
        body.add(fmt::format("Four<{}> y{};", memory_type(compiled(stored_[n]).dtype), n));
      body.open("DGX_UNROLL for (int j = 0; j < 4; ++j)");
    }
    body.append(numbers_);
    if (is_wide_) body.close();
    body.append(stores);
    return {body.text(), arguments_.all(), kThreads, (threads + kThreads - 1) / kThreads};
  }

  std::string inside(ValueIndex value, DType dtype, const Form& form) override {
    if (const auto made = made_.find(value); made != made_.end()) return made->second;
    const std::string array = arguments_.read(value, dtype);
    if (is_wide_ && loops_.inner_stride(form) == 1 && loops_.is_aligned(form, kFour)) {
      loops_.step_by("");
      const std::string four = reads_.constant("Four<" + memory_type(dtype) + ">",
                                               "four(" + array + " + (" + loops_.text(form) + "))");
      loops_.step_by("j");
      return number(dtype, four + ".of[j]");
    }
    return number(dtype, array + "[" + loops_.text(form) + "]");
  }

  std::string at(ValueIndex value, DType dtype, const std::string& place) override {
    if (const auto made = made_.find(value); made != made_.end()) return made->second;
    const std::string element = arguments_.read(value, dtype) + "[" + place + "]";
    return dtype == DType::kF32 ? element : "integer(" + element + ")";
  }

 private:
  [[nodiscard]] const CompiledPrimitive& compiled(ValueIndex v) const { return plan_.compiled[v]; }
  [[nodiscard]] const CompiledPrimitive& first() const { return compiled(members_.front()); }

  std::string number(DType dtype, const std::string& element) {
    return dtype == DType::kF32 ? numbers_.constant("float", element)
                                : numbers_.constant("std::int64_t", "integer(" + element + ")");
  }

  /// The forms that the members' texts ask the loops for.
  [[nodiscard]] std::vector<Form> forms() const {
    std::vector<Form> all;
    for (const ValueIndex v : members_) {
      const std::vector<Form> own = reads_of(compiled(v)).forms;
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }

  /// Writes all members' numbers.
  void make() {
    for (const ValueIndex v : members_) {
      ElementWriter writer(compiled(v), loops_, *this, numbers_);
      const std::string result = writer.run(compiled(v).steps);
      made_[v] = compiled(v).dtype == DType::kU8 ? numbers_.constant("std::int64_t", "to_u8(" + result + ")")
                                                 : result;
    }
  }

  /// Writes the thread's first element, `e`.
  void begin(Lines& lines, std::int64_t threads, bool is_long) const {
    const char* const type = is_long ? "std::uint64_t" : "std::uint32_t";
    lines.add(
        fmt::format("const {} t = static_cast<{}>(blockIdx.x) * {}U + threadIdx.x;", type, type, kThreads));
    lines.add(fmt::format("if (t >= {}ULL) return;", threads));
    lines.add(fmt::format("const {} e = {}t;", type, is_wide_ ? "4U * " : ""));
  }

  /// Writes the stored numbers to memory: at once, or four by four in `stores`.
  void finish(Lines& stores) {
    for (std::size_t n = 0; n < stored_.size(); ++n) {
      const ValueIndex v = stored_[n];
      const DType dtype = compiled(v).dtype;
      const std::string result = fmt::format("as_{}({})", type_name(dtype), made_.at(v)),
                        name = "y" + std::to_string(n);
      const std::string array = arguments_.written(v, dtype);
      const bool has_flag = plan_.checked[v];
      if (is_wide_) {
        numbers_.add(name + ".of[j] = " + result + ";");
        stores.add(fmt::format("store({} + e, {});", array, name));
        if (has_flag) stores.add(fmt::format("if (!are_finite({})) *{} = 1;", name, arguments_.flag(v)));
      } else {
        numbers_.add(fmt::format("const {} {} = {};", memory_type(dtype), name, result));
        stores.add(fmt::format("{}[e] = {};", array, name));
        if (has_flag) stores.add(fmt::format("if (!is_finite({})) *{} = 1;", name, arguments_.flag(v)));
      }
    }
  }

  const Plan& plan_;
  std::span<const ValueIndex> members_, stored_;
  Loops loops_;
  const bool is_wide_;  // a thread makes four neighbours
  KernelArguments arguments_;
  Lines reads_{"x"}, numbers_;
  std::map<ValueIndex, std::string> made_;
};

}  // namespace

DeviceKernel KernelWriter::maps(const Maps& maps, std::span<const ValueIndex> stored) const {
  return MapKernel(plan_, maps.members, stored, options_).write();
}

std::int32_t KernelText::add(const DeviceKernel& kernel) {
  std::string text = fmt::format("{}, {}) {{\n{}}}\n", kernel.threads, kernel.arguments.size(), kernel.body);
  const auto found = std::find(kernels_.begin(), kernels_.end(), text);
  if (found != kernels_.end()) return static_cast<std::int32_t>(found - kernels_.begin());
  kernels_.push_back(std::move(text));
  return count() - 1;
}

std::string KernelText::text(bool functions_by_pairs) const {
  std::string out = fmt::format(
      "#include \"generated.cuh\"\n\nnamespace dgx::kernels::cuda "
      "{{\n\nDGX_FUNCTIONS(formula::{}Functions)\n",
      functions_by_pairs ? "Pair" : "Defined");
  for (std::size_t n = 0; n < kernels_.size(); ++n)
    out += fmt::format("\nDGX_KERNEL(k{}, {}", n, kernels_[n]);
  return out + "\n}  // namespace dgx::kernels::cuda\n";
}

}  // namespace dgx::exec
