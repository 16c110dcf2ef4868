#include "dgx/kernels/primitive.h"

namespace dgx::kernels {
namespace {

struct OpRow {
  std::string_view name;
  int arity;
};

// Names and numbers of operands, in the order of ScalarOp.
constexpr std::array<OpRow, kScalarOpCount> kOps = {{
    {"add", 2},    {"sub", 2}, {"mul", 2},   {"div", 2}, {"fma", 3},   {"sqrt", 1},  {"neg", 1},  {"abs", 1},
    {"max", 2},    {"min", 2}, {"eq", 2},    {"ne", 2},  {"lt", 2},    {"le", 2},    {"gt", 2},   {"ge", 2},
    {"select", 3}, {"and", 2}, {"or", 2},    {"not", 1}, {"floor", 1}, {"trunc", 1}, {"rint", 1}, {"exp", 1},
    {"expm1", 1},  {"log", 1}, {"log1p", 1}, {"sin", 1}, {"cos", 1},   {"tanh", 1},  {"erf", 1},  {"idiv", 2},
    {"imod", 2},   {"f32", 1}, {"i64", 1},   {"u8", 1},
}};

constexpr std::array<std::string_view, 7> kKinds = {"input", "map", "dot", "sum", "max", "argmax", "chain"};

}  // namespace

std::string_view name_of(ScalarOp op) { return kOps[static_cast<std::size_t>(op)].name; }

int arity_of(ScalarOp op) { return kOps[static_cast<std::size_t>(op)].arity; }

std::optional<ScalarOp> scalar_op_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kOps.size(); ++i) {
    if (kOps[i].name == name) return static_cast<ScalarOp>(i);
  }
  return std::nullopt;
}

std::string_view name_of(Kind kind) { return kKinds[static_cast<std::size_t>(kind)]; }

}  // namespace dgx::kernels
