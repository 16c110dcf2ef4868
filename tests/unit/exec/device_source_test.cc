#include "device/device_source.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "device/device_operations.h"
#include "dgx/kernels/evaluate.h"
#include "dgx/program/program.h"
#include "emulated_device.h"

// Generated kernels, form by form, against kernels/ref: all are in one source, which is compiled once.
namespace dgx::exec {
namespace {

using kernels::Kind;
using kernels::ValueIndex;
namespace cuda = kernels::cuda;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Lines of a program over some inputs, each computed by a kernel of its own.
class Bench {
 public:
  Bench() {
    const std::vector<float> hard = {0,
                                     -0.0F,
                                     1,
                                     -1,
                                     0.5F,
                                     1.5F,
                                     2.5F,
                                     -2.5F,
                                     3.9999F,
                                     -88.5F,
                                     0x1p-149F,
                                     -0x1p-149F,
                                     0x1p-126F,
                                     0x1.8p-127F,
                                     0x1p63F,
                                     -0x1p63F,
                                     0x1.fffffep127F,
                                     -0x1.fffffep127F,
                                     kInfinity,
                                     -kInfinity,
                                     std::nanf("")};
    reals_ =
        input(DType::kF32, {static_cast<std::int64_t>(hard.size())}, [&](std::size_t n) { return hard[n]; });
    const std::vector<std::int64_t> whole = {
        0, 1, -1, 2, -2, 7, -7, 255, 256, -300, std::int64_t{1} << 40, INT64_MAX, INT64_MIN, INT64_MIN + 1};
    integers_ = input(DType::kI64, {static_cast<std::int64_t>(whole.size())},
                      [&](std::size_t n) { return whole[n]; });
    bytes_ = input(DType::kU8, {7}, [](std::size_t n) { return n * 42; });
    const auto number = [](std::size_t n) {
      return std::ldexp(static_cast<float>((n * 2654435761U) % 4001) - 2000, static_cast<int>(n % 30) - 20);
    };
    rows_ = input(DType::kF32, {5, 4096}, number);
    ties_ = input(DType::kF32, {5, 4096}, [](std::size_t n) {
      return n % 701 == 700 ? std::nanf("") : n % 3 == 0 ? -0.0F : n % 3 == 1 ? 0.0F : -kInfinity;
    });
    least_rows_ = input(DType::kF32, {2, 2049}, [](std::size_t) { return -kInfinity; });
    whole_rows_ = input(DType::kI64, {5, 4096}, [](std::size_t n) {
      return static_cast<std::int64_t>(n * 0x9e3779b97f4a7c15ULL) >> 3;
    });
    byte_rows_ = input(DType::kU8, {5, 4096}, [](std::size_t n) { return n * 7; });
    matrix_ = input(DType::kF32, {24, 32}, number);
    whole_matrix_ =
        input(DType::kI64, {24, 32}, [](std::size_t n) { return static_cast<std::int64_t>(n % 40) - 8; });
    byte_matrix_ = input(DType::kU8, {24, 32}, [](std::size_t n) { return n; });
    places_ = input(DType::kI64, {12}, [](std::size_t n) { return static_cast<std::int64_t>(n * 5) - 9; });
    long_rows_ = input(DType::kF32, {2, 70001}, number);
  }

  ValueIndex reals_, integers_, bytes_, rows_, ties_, least_rows_, whole_rows_, byte_rows_, matrix_,
      whole_matrix_, byte_matrix_, places_, long_rows_;

  /// Adds a line, and its kernels to the source.
  void add(const std::string& kind, const std::string& dtype, const std::string& shape,
           const std::string& accesses, const std::string& more = "", const std::string& when = "") {
    text_ += fmt::format(R"({{{}"k":"{}","s":{},"t":"{}","v":{},{}"x":{}}})", more, kind, shape, dtype,
                         inputs_.size() + lines_++, when, accesses) +
             "\n";
  }
  static std::string steps(const std::string& text) { return R"("do":[)" + text + "],"; }

  void check(const KernelOptions& options) {
    auto program = program::parse_program(text_);
    if (!program.ok()) FAIL(program.error().message);
    kernels::ByValue<kernels::ValueType> types;
    Plan plan;
    for (const kernels::Primitive& value : program->values) {
      plan.compiled.push_back({});
      if (value.kind != Kind::kInput) {
        auto compiled = kernels::compile(value, types);
        if (!compiled.ok()) FAIL(compiled.error().message);
        plan.compiled.back() = *compiled;
      }
      types.push_back({value.dtype, value.shape});
    }
    plan_ = &plan;
    plan.checked.assign(types.size(), true);
    const KernelWriter writer(plan, options);
    KernelText text;
    Kernels kernels(types.size());
    for (const ValueIndex v : types.indices(inputs_.next())) {
      for (const DeviceKernel& kernel : kernels_of(writer, v))
        kernels[v].emplace_back(text.add(kernel), kernel);
    }
    for (const char* order : {"", "order=reversed", "order=shuffled", "functions=pairs"}) {
      const auto device = test::emulated_device(order);
      const auto first = device->compile(text.text(device->info().functions_by_pairs), text.count());
      if (!first.ok()) FAIL(first.error().message);
      run(*device, *program, kernels, *first);
    }
  }

 private:
  template <class Number>
  ValueIndex input(DType dtype, const Shape& shape, Number number) {
    Tensor tensor(dtype, shape);
    for (std::size_t n = 0; n < static_cast<std::size_t>(tensor.count()); ++n) {
      if (dtype == DType::kF32) tensor.as<float>()[n] = static_cast<float>(number(n));
      if (dtype == DType::kI64) tensor.as<std::int64_t>()[n] = static_cast<std::int64_t>(number(n));
      if (dtype == DType::kU8) tensor.as<std::uint8_t>()[n] = static_cast<std::uint8_t>(number(n));
    }
    text_ += fmt::format(R"({{"k":"input","next":{0},"s":[{1}],"src":"state model/{0}","t":"{2}","v":{0}}})",
                         inputs_.size(), fmt::join(shape, ","),
                         dtype == DType::kF32   ? "f32"
                         : dtype == DType::kI64 ? "i64"
                                                : "u8") +
             "\n";
    inputs_.push_back(std::move(tensor));
    return inputs_.last();
  }

  [[nodiscard]] DeviceOperation work_of(ValueIndex v) const {
    const auto& compiled = plan_->compiled[v];
    return recognise_on_device(v, compiled, strip_accesses(compiled));
  }
  /// The kernels of a value alone. Dots are not made in tiles.
  [[nodiscard]] std::vector<DeviceKernel> kernels_of(const KernelWriter& writer, ValueIndex v) const {
    const auto& compiled = plan_->compiled[v];
    const std::vector<ValueIndex> alone = {v};
    if (compiled.kind == Kind::kMap) return {writer.maps({alone, {}, {}}, alone)};
    const DeviceOperation work = work_of(v);
    if (const auto* fold = std::get_if<TeamFold>(&work)) return writer.fold(*fold);
    if (const auto* chain = std::get_if<KeyedChain>(&work)) return {writer.chain(*chain)};
    return {writer.value({v, compiled.count})};
  }

  static void* there(cuda::Device& device, const void* from, std::size_t size) {
    const auto memory = device.allocate(static_cast<std::int64_t>(size));
    REQUIRE(memory.ok());
    if (from != nullptr) REQUIRE(device.upload(*memory, from, static_cast<std::int64_t>(size)).ok());
    return *memory;
  }

  /// A value's kernels, with their numbers in the source.
  using Kernels = kernels::ByValue<std::vector<std::pair<std::int32_t, DeviceKernel>>>;

  void run(cuda::Device& device, const program::Program& program, const Kernels& kernels,
           std::int32_t first) {
    kernels::ByValue<void*> values;
    kernels::ByValue<TensorView> views;
    for (const Tensor& tensor : inputs_) {
      values.push_back(there(device, tensor.bytes().data(), tensor.bytes().size()));
      views.push_back(tensor.view());
    }
    for (const ValueIndex v : kernels.indices(inputs_.next())) {
      const auto& compiled = plan_->compiled[v];
      Tensor expected(compiled.dtype, compiled.shape);
      REQUIRE(kernels::evaluate_all(compiled, views, expected, 0, expected.count()).ok());
      void* const out = there(device, nullptr, expected.bytes().size());
      const DeviceOperation work = work_of(v);
      const auto* const fold = std::get_if<TeamFold>(&work);
      void* const scratch =
          there(device, nullptr, fold == nullptr ? 0 : static_cast<std::size_t>(fold->scratch_bytes()));
      const std::int32_t none = 0;
      void* const flag = there(device, &none, sizeof none);
      for (const auto& [number, kernel] : kernels[v]) {
        cuda::Generated launch{first + number, kernel.threads, kernel.blocks, {}};
        for (const KernelArgument& argument : kernel.arguments) {
          const bool is_out = argument.value == v;
          launch.addresses.push_back(argument.what == KernelArgument::What::kFlag      ? flag
                                     : argument.what == KernelArgument::What::kScratch ? scratch
                                     : is_out                                          ? out
                                              : values[argument.value]);
        }
        const Status launched = device.launch(launch);
        INFO(kernel.body);
        REQUIRE(launched.ok());
      }
      compare(device, program, v, expected, out, flag, kernels[v]);
    }
  }

  void compare(cuda::Device& device, const program::Program& program, ValueIndex v, const Tensor& expected,
               const void* out, const void* flag,
               const std::vector<std::pair<std::int32_t, DeviceKernel>>& kernels) const {
    Tensor got(expected.dtype(), expected.shape());
    std::int32_t raised = 0;
    REQUIRE(device.download(got.bytes().data(), out, static_cast<std::int64_t>(got.bytes().size())).ok());
    REQUIRE(device.download(&raised, flag, sizeof raised).ok());
    bool finite = true;
    if (expected.dtype() == DType::kF32) {
      for (const float x : expected.as<float>()) finite = finite && std::isfinite(x);
    }
    INFO("line " << to_number(v) << ", " << name_of(program.values[v].kind) << "\n"
                 << (kernels.empty() ? "" : kernels.front().second.body));
    CHECK(std::ranges::equal(got.bytes(), expected.bytes()));
    if (expected.dtype() == DType::kF32 && expected.count() > 0) CHECK(raised == (finite ? 0 : 1));
  }

  std::string text_;
  kernels::ByValue<Tensor> inputs_;
  std::size_t lines_ = 0;
  const Plan* plan_ = nullptr;
};

void add_scalars(Bench& bench) {
  const auto pairs = [](ValueIndex a, ValueIndex b) { return fmt::format(R"(["{}[i0]","{}[i1]"])", a, b); };
  for (const char* op : {"add", "sub", "mul", "div", "max", "min"})
    bench.add("map", "f32", "[21,21]", pairs(bench.reals_, bench.reals_),
              Bench::steps(fmt::format(R"("{} x0 x1")", op)));
  for (const char* op : {"eq", "ne", "lt", "le", "gt", "ge"}) {
    bench.add("map", "i64", "[21,21]", pairs(bench.reals_, bench.reals_),
              Bench::steps(fmt::format(R"("{} x0 x1")", op)));
    bench.add("map", "u8", "[14,14]", pairs(bench.integers_, bench.integers_),
              Bench::steps(fmt::format(R"("{} x0 x1")", op)));
  }
  bench.add("map", "f32", "[21,21]", pairs(bench.reals_, bench.reals_), Bench::steps(R"("fma x0 x1 x0")"));
  for (const char* op : {"sqrt", "neg", "abs", "floor", "trunc", "rint", "exp", "expm1", "log", "log1p",
                         "sin", "cos", "tanh", "erf"}) {
    bench.add("map", "f32", "[21]", fmt::format(R"(["{}[i0]"])", bench.reals_),
              Bench::steps(fmt::format(R"("{} x0")", op)));
  }
  for (const char* op : {"add", "sub", "mul", "max", "min", "and", "or", "idiv", "imod"})
    bench.add("map", "i64", "[14,14]", pairs(bench.integers_, bench.integers_),
              Bench::steps(fmt::format(R"("{} x0 x1")", op)));
  for (const char* op : {"neg", "abs", "not", "i64", "u8"})
    bench.add("map", "i64", "[14]", fmt::format(R"(["{}[i0]"])", bench.integers_),
              Bench::steps(fmt::format(R"("{} x0")", op)));
  for (const char* op : {"i64", "u8"})
    bench.add("map", "i64", "[21]", fmt::format(R"(["{}[i0]"])", bench.reals_),
              Bench::steps(fmt::format(R"("{} x0")", op)));
  bench.add("map", "f32", "[14]", fmt::format(R"(["{}[i0]"])", bench.integers_), Bench::steps(R"("f32 x0")"));
  bench.add("map", "u8", "[14]", fmt::format(R"(["{}[i0]"])", bench.integers_));
  bench.add("map", "i64", "[7]", fmt::format(R"(["{}[i0]"])", bench.bytes_));
  bench.add(
      "map", "f32", "[21,7]", pairs(bench.reals_, bench.bytes_),
      Bench::steps(R"("gt x1 100","mul x0 0x1.8p0","select t0 t1 -0x1p-149","exp t2","select x1 t3 x0")"));
}

/// Adds copies, broadcasts, padding and gathers, for every type and four at a time.
void add_accesses(Bench& bench) {
  for (const auto& [v, dtype] : {std::pair{bench.matrix_, "f32"}, std::pair{bench.whole_matrix_, "i64"},
                                 std::pair{bench.byte_matrix_, "u8"}}) {
    for (const char* access : {"i0,i1", "i0,31-i1", "23-i0,i1", "i0,0", "0,i1", "3,5"})
      bench.add("map", dtype, "[24,32]", fmt::format(R"(["{}[{}]"])", v, access));
    bench.add("map", dtype, "[32,24]", fmt::format(R"(["{}[i1,i0]"])", v));
    bench.add("map", dtype, "[6,4,8,4]", fmt::format(R"(["{}[4*i0+i1,4*i2+i3]"])", v));
    const char* const fill = std::string(dtype) == "f32" ? "-0x1.8p1" : "7";
    for (const char* access : {"i0-2,i1+1", "i0/2,i1", "i0//2,(i1-12)//3", "(i0-3)/3,(31-i1)/2", "2*i0,i1"}) {
      bench.add("map", dtype, "[24,32]", fmt::format(R"(["{}[{}]?{}"])", v, access, fill));
    }
    bench.add("map", dtype, "[12,12]", fmt::format(R"(["{}[$1,i1]?{}","{}[i0]"])", v, fill, bench.places_),
              Bench::steps(R"("max x0 x0")"));
    bench.add(
        "map", dtype, "[12,12]",
        fmt::format(R"(["{}[i1+$1,3*$2]?{}","{}[i0]","{}[i1-1]?2"])", v, fill, bench.places_, bench.places_),
        Bench::steps(R"("max x0 x0")"));
  }
  bench.add("map", "i64", "[24,32]",
            fmt::format(R"(["{}[i0,i1]","{}[i0,i1]"])", bench.whole_matrix_, bench.byte_matrix_),
            Bench::steps(R"("add x0 x1","mul i0 1000","add t0 t1","add t2 i1")"));
  bench.add("map", "f32", "[24,32]", fmt::format(R"(["{}[i0,i1]"])", bench.matrix_),
            Bench::steps(R"("le i1 i0","select t0 x0 -0x1.fffffep127")"));
}

void add_folds(Bench& bench) {
  for (const std::int64_t count : {1, 31, 32, 33, 64, 2047, 2048, 2049, 4096}) {
    const std::string fold = fmt::format(R"("f":[{}],)", count);
    for (const ValueIndex v : {bench.rows_, bench.ties_}) {
      for (const char* kind : {"sum", "max"})
        bench.add(kind, "f32", "[5]", fmt::format(R"(["{}[i0,k0]"])", v), fold);
      bench.add("argmax", "i64", "[5]", fmt::format(R"(["{}[i0,k0]"])", v), fold);
    }
    for (const char* kind : {"sum", "max", "argmax"})
      bench.add(kind, "i64", "[5]", fmt::format(R"(["{}[i0,k0]"])", bench.whole_rows_), fold);
    for (const char* kind : {"sum", "max"})
      bench.add(kind, "u8", "[5]", fmt::format(R"(["{}[i0,k0]"])", bench.byte_rows_), fold);
  }
  for (const std::int64_t count : {31, 2049}) {
    const std::string fold = fmt::format(R"("f":[{}],)", count);
    bench.add("max", "f32", "[2]", fmt::format(R"(["{}[i0,k0]"])", bench.least_rows_), fold);
    bench.add("argmax", "i64", "[2]", fmt::format(R"(["{}[i0,k0]"])", bench.least_rows_), fold);
  }
  for (const char* outputs : {"1", "3"}) {
    bench.add("sum", "f32", fmt::format("[{}]", outputs), fmt::format(R"(["{}[i0,k0]"])", bench.rows_),
              R"("f":[4096],)");
  }
  // More than 2,048 blocks of 2,048: three levels.
  const char* const three = R"("f":[2,2048,1025],)";
  bench.add("sum", "f32", "[1]", fmt::format(R"(["{}[i0+k0,4*k1+3*k2]"])", bench.long_rows_), three);
  bench.add("argmax", "i64", "[1]", fmt::format(R"(["{}[i0+k0,4*k1+3*k2]"])", bench.long_rows_), three);
  for (const char* kind : {"sum", "max"})
    bench.add(kind, "f32", "[2]", fmt::format(R"(["{}[i0,k0]"])", bench.long_rows_), R"("f":[70001],)");
  bench.add("argmax", "i64", "[2]", fmt::format(R"(["{}[i0,k0]"])", bench.long_rows_), R"("f":[70001],)");
  // Down the columns, with strides, over two dimensions, padded.
  bench.add("sum", "f32", "[70]", fmt::format(R"(["{}[k0,i0+1000*k1]"])", bench.long_rows_),
            R"("f":[2,60],)");
  bench.add("argmax", "i64", "[2049]", fmt::format(R"(["{}[k0,i0]"])", bench.ties_), R"("f":[5],)");
  bench.add("sum", "f32", "[24]", fmt::format(R"(["{}[i0,k0]","{}[0,k0]"])", bench.matrix_, bench.matrix_),
            R"("do":["sub x0 x1","mul t0 t0"],"f":[32],)");
  bench.add("max", "f32", "[24]", fmt::format(R"(["{}[i0+k1-1,k0]?-0x1p9"])", bench.matrix_),
            R"("f":[32,3],)");
  for (const std::int64_t count : {1, 255, 256, 257, 5000}) {
    bench.add("dot", "f32", "[2]", fmt::format(R"(["{0}[i0,k0]","{0}[1-i0,k0+7]"])", bench.long_rows_),
              fmt::format(R"("f":[{}],)", count));
  }
}

void add_chains(Bench& bench) {
  bench.add("chain", "f32", "[24]", fmt::format(R"(["{}[i0,k0]"])", bench.matrix_),
            R"("do":["fma acc 0x1p-1 x0"],"f":[32],"init":"0x1p0",)");
  bench.add("chain", "i64", "[24]",
            fmt::format(R"(["{}[i0,k0]","{}[i0,0]"])", bench.whole_matrix_, bench.whole_matrix_),
            R"("do":["sub x0 acc"],"f":[32],"init":"x1",)", R"("when":["gt x0 3"],)");
  // Adds up a table's rows by an index of the position, which 32 neighbours share, or fewer.
  bench.add("chain", "f32", "[40,32]", fmt::format(R"(["{}[k0,i1]","{}[k0]"])", bench.matrix_, bench.places_),
            R"("do":["add acc x0"],"f":[12],"init":"0x0p0",)", R"("when":["eq x1 i0"],)");
  bench.add("chain", "f32", "[40,8]", fmt::format(R"(["{}[k0,i1]","{}[k0]"])", bench.matrix_, bench.places_),
            R"("do":["add acc x0"],"f":[12],"init":"0x0p0",)", R"("when":["eq x1 i0"],)");
  // The same by an index that lies in another order.
  bench.add("chain", "f32", "[40,32]",
            fmt::format(R"(["{}[4*k0+k1,i1]","{}[k0+3*k1]"])", bench.matrix_, bench.places_),
            R"("do":["add acc x0"],"f":[3,4],"init":"0x0p0",)", R"("when":["eq x1 i0"],)");
}

TEST_CASE("what is generated for a value gives the bits of the definition", "[device][generated]") {
  for (const std::int64_t least_wide : {std::int64_t{1}, std::int64_t{1} << 40}) {
    Bench bench;
    add_accesses(bench);
    if (least_wide > 1) {
      add_scalars(bench);
      add_folds(bench);
      add_chains(bench);
    }
    bench.check({least_wide});
  }
}

}  // namespace
}  // namespace dgx::exec
