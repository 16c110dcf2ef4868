#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "dgx/exec/device_executor.h"
#include "dgx/program/check.h"
#include "emulated_device.h"
#include "forms.h"

// Maps, sums and maxima over the same rows become one kernel on a device, with the CPU's bits.
namespace dgx::exec {
namespace {

/// A layout of rows, given as the shapes and indices of rows and columns in a program's text.
struct Form {
  std::string row, column;  ///< shapes
  /// Indices: a row, its column, a fold's position, the one before.
  std::string of_row, of_column, along, guarded;
  const char* program = nullptr;
};

/// From a and w: the softmax of a's rows (p), the logarithm of their sums (s), and further folds of these (q,
/// t, u).
constexpr const char* kProgram = R"({"k":"input","next":0,"s":[ROW,COL],"src":"state model/a","t":"f32","v":0}
{"k":"input","next":12,"s":[ROW,COL],"src":"state model/p","t":"f32","v":1}
{"k":"input","next":16,"s":[ROW],"src":"state model/q","t":"f32","v":2}
{"k":"input","next":13,"s":[ROW],"src":"state model/s","t":"f32","v":3}
{"k":"input","next":14,"s":[ROW],"src":"state model/t","t":"f32","v":4}
{"k":"input","next":15,"s":[ROW,COL],"src":"state model/u","t":"u8","v":5}
{"k":"input","next":6,"s":[COL],"src":"state model/w","t":"f32","v":6}
{"k":"input","next":7,"s":[],"src":"state loss","t":"f32","v":7}
{"k":"input","next":17,"s":[],"src":"state step","t":"i64","v":8}
{"f":[COL],"k":"max","s":[ROW],"t":"f32","v":9,"x":["0[OFROW,ALONG]"]}
{"do":["sub x0 x1","exp t0"],"k":"map","s":[ROW,COL],"t":"f32","v":10,"x":["0[OFROW,OFCOL]","9[OFROW]"]}
{"f":[COL],"k":"sum","s":[ROW],"t":"f32","v":11,"x":["10[OFROW,ALONG]"]}
{"do":["div x0 x1"],"k":"map","s":[ROW,COL],"t":"f32","v":12,"x":["10[OFROW,OFCOL]","11[OFROW]"]}
{"do":["log x0","add t0 x1"],"k":"map","s":[ROW],"t":"f32","v":13,"x":["11[OFROW]","9[OFROW]"]}
{"do":["mul x0 x1"],"f":[COL],"k":"sum","s":[ROW],"t":"f32","v":14,"x":["12[OFROW,ALONG]","6[ALONG]"]}
{"do":["gt x0 x1"],"k":"map","s":[ROW,COL],"t":"u8","v":15,"x":["12[OFROW,OFCOL]","14[OFROW]"]}
{"do":["f32 x0","fma t0 x1 x2"],"f":[COL],"k":"sum","s":[ROW],"t":"f32","v":16,"x":["15[OFROW,ALONG]","0[OFROW,GUARDED]?0x1p0","6[ALONG]"]}
{"do":["add x0 1"],"k":"map","s":[],"t":"i64","v":17,"x":["8[]"]}
)";

/// A row's number that is read from one of its columns: only one thread holds it.
constexpr const char* kFirstColumn =
    R"({"k":"input","next":0,"s":[ROW,COL],"src":"state model/a","t":"f32","v":0}
{"k":"input","next":7,"s":[ROW,COL],"src":"state model/p","t":"f32","v":1}
{"k":"input","next":2,"s":[],"src":"state loss","t":"f32","v":2}
{"k":"input","next":8,"s":[],"src":"state step","t":"i64","v":3}
{"f":[COL],"k":"max","s":[ROW],"t":"f32","v":4,"x":["0[OFROW,ALONG]"]}
{"do":["sub x0 x1"],"k":"map","s":[ROW,COL],"t":"f32","v":5,"x":["0[OFROW,OFCOL]","4[OFROW]"]}
{"do":["exp x0"],"k":"map","s":[ROW],"t":"f32","v":6,"x":["5[OFROW,0]"]}
{"do":["mul x0 x1"],"k":"map","s":[ROW,COL],"t":"f32","v":7,"x":["5[OFROW,OFCOL]","6[OFROW]"]}
{"do":["add x0 1"],"k":"map","s":[],"t":"i64","v":8,"x":["3[]"]}
)";

std::shared_ptr<const program::Program> program_of(const Form& form) {
  std::string text = form.program;
  for (const auto& [word, by] : {std::pair{"OFROW", form.of_row},
                                 {"OFCOL", form.of_column},
                                 {"ALONG", form.along},
                                 {"GUARDED", form.guarded},
                                 {"ROW", form.row},
                                 {"COL", form.column}}) {
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word))
      text.replace(at, std::string(word).size(), by);
  }
  auto program = program::parse_program(text);
  INFO(text);
  if (!program.ok()) FAIL(program.error().message);
  if (const Status checked = program::check_program(*program); !checked.ok()) FAIL(checked.error().message);
  return std::make_shared<const program::Program>(std::move(program).value());
}

State start_of(const program::Program& program, std::mt19937& random) {
  State state;
  for (const kernels::ValueIndex v : program::state_inputs(program)) {
    const auto& input = program.values[v];
    const bool is_read = input.source.name == "model/a" || input.source.name == "model/w";
    state.push_back({input.source.name, is_read ? test::random_tensor({input.dtype, input.shape}, random)
                                                : Tensor(input.dtype, input.shape)});
  }
  return state;
}

/// Takes a step from `state` and stores the next state there; returns the error's message, or an empty
/// string.
std::string step_of(StepExecutor& executor, State& state) {
  REQUIRE(executor.load(state).ok());
  if (const Status step = executor.step(); !step.ok()) return step.error().message;
  state = executor.state().value();
  return {};
}

/// Compares the bits with the CPU's. Returns the device's plan.
std::string check_rows(const Form& form, float spoilt = 0) {
  INFO("rows " << form.row << ", columns " << form.column << ", with " << spoilt);
  const auto program = program_of(form);
  const Tensor sample(DType::kF32, {1});
  const StepInputs inputs{{}, 1, 1, {{"x", sample.view()}, {"y", sample.view()}}};
  const auto device = DeviceExecutor::create(program, inputs, test::emulated_device(), 1);
  if (!device.ok()) FAIL(device.error().message);
  const auto reference = ExactExecutor::create(program, inputs, 1);
  REQUIRE(reference.ok());
  std::mt19937 random(1);
  for (int repeat = 0; repeat < 3; ++repeat) {
    State ours = start_of(*program, random);
    const auto numbers = find_entry(ours, "model/a")->tensor.as<float>();
    for (int n = 0; spoilt != 0 && n < 20; ++n) numbers[random() % numbers.size()] = spoilt;
    State theirs = ours;
    CHECK(step_of(**device, ours) == step_of(**reference, theirs));
    for (std::size_t e = 0; e < ours.size(); ++e) {
      INFO(ours[e].name);
      CHECK(std::ranges::equal(ours[e].tensor.bytes(), theirs[e].tensor.bytes()));
    }
  }
  return (*device)->explain();
}

Form plain(int rows, int columns, const char* program = kProgram) {
  return {std::to_string(rows), std::to_string(columns), "i0", "i1", "k0", "k0-1", program};
}

TEST_CASE("rows are one kernel whatever their number and length", "[device]") {
  for (const auto& [rows, columns] :
       {std::pair{1, 2}, {3, 31}, {4, 32}, {5, 33}, {66, 64}, {2, 257}, {7, 1023}, {3, 1024}}) {
    const std::string plan = check_rows(plain(rows, columns));
    INFO(plan);
    const std::string values = rows == 1 ? "9" : "8";  // one row: the step counter joins it
    CHECK(plan.find("(" + std::to_string(rows) + " rows of " + std::to_string(columns) + ", " + values +
                    " values)") != std::string::npos);
  }
}

TEST_CASE("rows and columns may have several dimensions", "[device]") {
  check_rows({"2,3", "40", "i0,i1", "i2", "k0", "k0-1", kProgram});
  check_rows({"6", "2,20", "i0", "i1,i2", "k0,k1", "k0-1,k1", kProgram});
  check_rows({"2,1,3", "5,1,9", "i0,i1,i2", "i3,i4,i5", "k0,k1,k2", "k0,k1,k2-2", kProgram});
}

TEST_CASE("a run of rows ends where a row's number is one of its columns'", "[device]") {
  for (const auto& [rows, columns] : {std::pair{1, 35}, {6, 40}, {40, 40}})
    check_rows(plain(rows, columns, kFirstColumn));
}

TEST_CASE("rows of the greatest numbers become infinite, and stop a step, as on the CPU", "[device]") {
  for (const float number : {3e38F, -3e38F}) check_rows(plain(5, 40), number);
}

TEST_CASE("rows that are too long are folded one by one", "[device]") {
  CHECK(check_rows(plain(2, 1025)).find(" rows of ") == std::string::npos);
}

}  // namespace
}  // namespace dgx::exec
