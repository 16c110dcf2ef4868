// Step programs: a parsed program prints to the same bytes; a checked one compiles, is priced, and can be
// evaluated without reading outside an earlier value; cut into parts, it gives the bits of the whole.

#include "dgx/program/program.h"

#include "captured_mlp.h"
#include "dgx/kernels/evaluate.h"
#include "dgx/lowering/lower.h"
#include "dgx/program/check.h"
#include "dgx/program/cost.h"
#include "dgx/program/experts.h"
#include "dgx/program/line.h"
#include "dgx/program/pieces.h"
#include "in_parts.h"
#include "target.h"

using namespace dgx;
using namespace dgx::lowering;
using namespace dgx::program;

namespace {

/// Most operations, elements and bytes of a step that is evaluated whole.
constexpr std::int64_t kLittle = 4096;

/// Invented numbers for elements that exist; reading any other is the crash we look for.
class Watcher final : public kernels::ValueSource {
 public:
  Watcher(const Program& program, kernels::ValueIndex line) : program_(program), line_(line) {}

  kernels::Number element(kernels::ValueIndex value, std::int64_t index) override {
    fuzz::require(program_.values.contains(value) && value < line_, "a line reads earlier values only");
    const kernels::Primitive& read = program_.values[value];
    fuzz::require(index >= 0 && index < *element_count(read.shape), "a line reads elements that exist");
    const std::uint64_t bits = (static_cast<std::uint64_t>(index) + 1) * 0x9e3779b97f4a7c15 + state_++;
    if (read.dtype == DType::kF32) {
      return kernels::Number::of(
          kernels::canonical_nan(std::bit_cast<float>(static_cast<std::uint32_t>(bits >> 32))));
    }
    if (read.dtype == DType::kU8) return kernels::Number::of(static_cast<std::int64_t>(bits & 255));
    return kernels::Number::of(static_cast<std::int64_t>(bits) >> (bits & 63));
  }

 private:
  const Program& program_;
  kernels::ValueIndex line_;
  std::uint64_t state_ = 0;
};

/// Evaluates the first, middle and last element if that is little work.
void evaluate(const Program& program, kernels::ValueIndex line, const kernels::CompiledPrimitive& compiled) {
  constexpr std::int64_t kMuch = 1 << 12;
  const auto steps = static_cast<std::int64_t>(1 + compiled.steps.steps.size() + compiled.when.steps.size());
  if (compiled.fold_count > kMuch / steps) return;
  for (const std::int64_t element : {std::int64_t{0}, compiled.count / 2, compiled.count - 1}) {
    Watcher source(program, line);
    static_cast<void>(kernels::evaluate_element(compiled, source, element));
  }
}

/// True if a step is little work, and its values few bytes.
bool is_little(const Program& program, const Cost& cost) {
  std::int64_t work = cost.total_operations;
  for (const kernels::Primitive& line : program.values) {
    const std::int64_t elements = *element_count(line.shape), positions = *element_count(line.fold);
    if (elements > kLittle || positions > kLittle) return false;
    work += elements * positions;
  }
  return work <= kLittle && cost.value_bytes <= kLittle;
}

/// A piece is refused only where it would exceed a cap: of a line or of all lines, or those of a program.
void check_refusal(const Error& error) {
  const bool of_lines = error.code == ErrorCode::kUsage && error.message.find("be cut") != std::string::npos;
  const bool of_program =
      error.code == ErrorCode::kMalformed && error.message.find("together exceed") != std::string::npos;
  fuzz::require(of_lines || of_program, "a piece is refused by a cap alone");
}

void check_piece(const Result<Piece>& piece) {
  if (!piece.ok()) return check_refusal(piece.error());
  const std::string text = print_program(piece->program);
  const auto again = parse_program(text);
  fuzz::require(again.ok() && again->values == piece->program.values, "a piece prints to itself");
  fuzz::require(check_program(piece->program, ProgramRole::kPiece).ok(), "a piece is a checked program");
}

/// Gives experts their homes, if there are any, and makes the step on ranks that have them.
void place(const Program& program, Classes classes, const std::vector<std::int64_t>& bounds,
           const kernels::ByValue<Tensor>& inputs, const kernels::ByValue<Tensor>& whole) {
  const int ranks = static_cast<int>(bounds.size()) - 1;
  if (!place_experts(program, ranks, {}, classes).ok()) return;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    check_piece(tail_program(program, classes, rank));
    check_piece(local_program(program, classes, {bounds[r], bounds[r + 1]}, rank));
  }
  const auto parts = test::evaluate_in_parts(program, classes, bounds, inputs);
  if (!parts.ok()) return check_refusal(parts.error());
  fuzz::require(test::first_difference(whole, *parts) == kernels::kNoValue,
                "ranks that have experts give the step's bits");
}

/// Cuts the batch into its samples, and makes parts of them: the texts are pieces, and if that is little
/// work, their numbers those of the whole.
void cut(const Program& program, const Cost& cost) {
  const auto samples = batch_samples(program);
  if (!samples.ok()) return;
  for (const std::int64_t slices : {*samples, *samples % 2 == 0 ? *samples / 2 : std::int64_t{1}}) {
    const auto classes = classify(program, slices);
    fuzz::require(classes.ok(), "a batch has as many slices as samples, or half as many");
    const std::int64_t at = (slices + 1) / 3;
    check_piece(tail_program(program, *classes));
    check_piece(local_program(program, *classes, {at, slices}));
    if (at > 0) check_piece(local_program(program, *classes, {0, at}));
    if (at == 0 || !is_little(program, cost)) continue;
    const auto inputs = test::invented_inputs(program, 1);
    const auto parts = test::evaluate_in_parts(program, *classes, {0, at, slices}, inputs);
    if (!parts.ok()) {
      check_refusal(parts.error());
      continue;
    }
    const auto whole = test::evaluate_whole(program, inputs);
    fuzz::require(whole.ok(), "a checked step can be evaluated");
    fuzz::require(test::first_difference(*whole, *parts) == kernels::kNoValue, "parts give the step's bits");
    place(program, *classes, {0, at, slices}, inputs, *whole);
  }
}

void use(const Program& program) {
  kernels::ByValue<kernels::ValueType> table;
  for (const kernels::ValueIndex line : program.values.indices()) {
    const kernels::Primitive& value = program.values[line];
    if (value.kind != kernels::Kind::kInput) {
      const auto compiled = kernels::compile(value, table);
      fuzz::require(compiled.ok(), "a checked line compiles");
      evaluate(program, line, *compiled);
    }
    table.push_back({value.dtype, value.shape});
  }
  const Cost cost = cost_of(program);
  fuzz::require(cost.total_operations >= 0 && cost.value_bytes >= 0, "a checked program has a cost");
  cut(program, cost);
}

Program lowered(Activation activation, const char* optimizer, LossKind loss) {
  const std::int64_t batch = 3;
  const bool labels = loss == LossKind::kCrossEntropy;
  const DatasetField y = labels ? DatasetField{DType::kI64, {}} : DatasetField{DType::kF32, {2}};
  const TrainingRecipe recipe{{{"x", {DType::kF32, {4}}}, {"y", y}}, 0.5F, 1, batch, loss,
                              *parse_optimizer_spec(optimizer),      1.0};
  return *lower_training_step(test::captured_mlp({4, 3, 2}, batch, activation), recipe);
}

}  // namespace

namespace {

/// A step of two experts and their gradients, of which one is for a momentum.
std::string step_of_experts(const std::string& head) {
  return head +
         R"({"do":["f32 x0","mul t0 x1"],"k":"map","s":[4,2,2],"t":"f32","v":5,"x":["1[i0]","0[i0,i1+i2]"]})" +
         "\n" + R"({"do":["add x0 1"],"k":"map","s":[],"t":"i64","v":6,"x":["4[]"]})" + "\n" +
         R"({"k":"input","next":19,"s":[2,2],"src":"state model/a","t":"f32","v":7})" + "\n" +
         R"({"k":"input","next":17,"s":[2,2],"src":"state model/b","t":"f32","v":8})" + "\n" +
         R"({"k":"input","next":18,"s":[2,2],"src":"state optimizer/a","t":"f32","v":9})" + "\n" +
         R"({"k":"map","s":[4,1,2],"t":"f32","v":10,"x":["5[i0,$1,i2]?0x0p0","1@4.1[i0,i1]"]})" + "\n" +
         R"({"k":"map","s":[4,1,2],"t":"f32","v":11,"x":["5[i0,$1,1-i2]?0x0p0","1@4.1[i0,i1]"]})" + "\n" +
         R"({"f":[2],"k":"dot","s":[4,2],"t":"f32","v":12,"x":["10@4.2[i0,k0]","7[i1,k0]"]})" + "\n" +
         R"({"f":[2],"k":"dot","s":[4,2],"t":"f32","v":13,"x":["11@4.2[i0,k0]","8[i1,k0]"]})" + "\n" +
         R"({"do":["add x0 x1"],"k":"map","s":[4,2],"t":"f32","v":14,"x":["12[i0,i1]","13[i0,i1]"]})" + "\n" +
         R"({"f":[4],"k":"dot","s":[2,2],"t":"f32","v":15,"x":["12[k0,i0]","10@4.2[k0,i1]"]})" + "\n" +
         R"({"f":[4],"k":"dot","s":[2,2],"t":"f32","v":16,"x":["13[k0,i0]","11@4.2[k0,i1]"]})" + "\n" +
         R"({"do":["sub x0 x1"],"k":"map","s":[2,2],"t":"f32","v":17,"x":["8[i0,i1]","16[i0,i1]"]})" + "\n" +
         R"({"do":["add x0 x1"],"k":"map","s":[2,2],"t":"f32","v":18,"x":["9[i0,i1]","15[i0,i1]"]})" + "\n" +
         R"({"do":["sub x0 x1"],"k":"map","s":[2,2],"t":"f32","v":19,"x":["7[i0,i1]","18[i0,i1]"]})" + "\n" +
         R"({"f":[4,2],"k":"dot","s":[1],"t":"f32","v":20,"x":["14[k0,k1]","14[k0,1-k1]"]})" + "\n";
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  const std::string head = R"({"k":"input","next":0,"s":[4,6],"src":"state model/w","t":"f32","v":0})"
                           "\n"
                           R"({"k":"input","s":[4],"src":"batch mask_2","t":"i64","v":1})"
                           "\n"
                           R"({"k":"input","of":["lr","-lr"],"s":[2],"src":"schedule","t":"f32","v":2})"
                           "\n"
                           R"({"k":"input","next":3,"s":[],"src":"state loss","t":"f32","v":3})"
                           "\n"
                           R"({"k":"input","next":6,"s":[],"src":"state step","t":"i64","v":4})"
                           "\n";
  std::vector<std::string> out = {
      print_program(lowered(Activation::kRelu, "sgd:lr=0.1,momentum=0.9", LossKind::kCrossEntropy)),
      print_program(lowered(Activation::kGelu, "adamw:lr=1e-3", LossKind::kMeanSquaredError))};
  for (const char* line :
       {R"({"k":"map","s":[4,6],"t":"f32","v":5,"x":["0[3-i0,5-i1]"]})",
        R"({"k":"map","s":[4,6],"t":"f32","v":5,"x":["0[i0//2,2*i1]?0x0p0"]})",
        R"({"k":"map","s":[4],"t":"f32","v":5,"x":["0[$1,0]?0x1p0","1[i0]"]})",
        R"({"f":[6],"k":"sum","s":[4],"t":"f32","v":5,"x":["0@24[6*i0+k0]"]})",
        R"({"f":[6],"k":"argmax","s":[4],"t":"i64","v":5,"x":["0[i0,k0]"]})",
        R"({"f":[6],"k":"dot","s":[4,4],"t":"f32","v":5,"x":["0[i0,k0]","0[i1,k0]"]})",
        R"({"do":["f32 i0","add t0 x0"],"k":"map","s":[4,6],"t":"f32","v":5,"x":["0[$1,i1]?0x0p0","1[i0]"]})",
        R"({"do":["f32 k0","add acc t0"],"f":[4],"init":"x1","k":"chain","s":[6],"t":"f32","v":5,)"
        R"("when":["ne x0 i0"],"x":["1[k0]","0[0,i0]"]})",
        R"({"do":["select i0 x0 x1","add acc t0"],"f":[6],"init":"x2","k":"chain","s":[4],"t":"f32","v":5,)"
        R"("x":["0[i0,k0]","0[3-i0,k0]","0[$3,0]?0x0p0","1[i0]"]})"}) {
    const std::string after = R"({"do":["add x0 1"],"k":"map","s":[],"t":"i64","v":6,"x":["4[]"]})";
    out.push_back(head + line + "\n" + after + "\n");
  }
  // A step of which every class has lines: rows, a fold over samples that is waited for, two that are not.
  out.push_back(
      head + R"({"do":["f32 x0","sub t0 x1"],"k":"map","s":[4,6],"t":"f32","v":5,"x":["1[i0]","0[i0,i1]"]})" +
      "\n" + R"({"do":["add x0 1"],"k":"map","s":[],"t":"i64","v":6,"x":["4[]"]})" + "\n" +
      R"({"f":[4],"k":"max","s":[6],"t":"f32","v":7,"x":["5[k0,i0]"]})" + "\n" +
      R"({"do":["mul x0 x1"],"k":"map","s":[4,6],"t":"f32","v":8,"x":["5[i0,i1]","7[i1]"]})" + "\n" +
      R"({"f":[4],"k":"dot","s":[6,6],"t":"f32","v":9,"x":["5[k0,i0]","8[k0,i1]"]})" + "\n" +
      R"({"do":["add acc x1"],"f":[4],"init":"0x0p0","k":"chain","s":[4,6],"t":"f32","v":10,)" +
      R"("when":["eq x0 i0"],"x":["1[k0]","8@24[6*k0+i1]"]})" + "\n" +
      R"({"do":["add x0 x1"],"k":"map","s":[4],"t":"f32","v":11,"x":["8[i0,i0]","5[3-i0,0]"]})" + "\n" +
      R"({"f":[4],"k":"dot","s":[1],"t":"f32","v":12,"x":["8[k0,k0+1]","11[k0]"]})" + "\n");
  out.push_back(step_of_experts(head));
  return out;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  if (const auto line = parse_line(text, kernels::ValueIndex{5}); line.ok()) {
    fuzz::require(print_line(*line, kernels::ValueIndex{5}) == text, "an accepted line prints to itself");
  }
  const auto program = parse_program(text);
  if (!program.ok()) return 0;
  fuzz::require(print_program(*program) == text, "an accepted program prints to itself");
  fuzz::require(program_root(*program) == program_root(text), "text and program have one root");
  for (const ProgramRole role : {ProgramRole::kTraining, ProgramRole::kEvaluation}) {
    if (check_program(*program, role).ok()) use(*program);
  }
  return 0;
}
