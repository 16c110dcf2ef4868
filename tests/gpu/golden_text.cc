// The text that is generated for one small program per kind of kernel, so that a change of it is reviewed as
// CUDA.
//
// usage: golden_text FOLDER [--accept]
//
// Each text is FOLDER/KIND.txt: the kernels of one enumerated case of the matrix (matrix_test --print shows
// its program). Exit 1 if one differs; --accept writes them anew.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string_view>
#include <utility>

#include "../matrix/families.h"
#include "device/device_launches.h"
#include "dgx/core/files.h"

namespace dgx::matrix {
namespace {

/// Kinds of kernels, and the case that is generated for each.
constexpr std::pair<const char*, std::string_view> kKinds[] = {
    {"maps", "rows/adam/33-edges"},
    {"wide_maps", "rows/retyped/u8-f32-21888"},
    {"padded_map", "access/padded/f32/expression"},
    {"gather", "access/indirect/i64/257x9/expression"},
    {"dot", "product/two-taps"},
    {"sum_by_thread", "fold/sum/[33]-[31]/0-edges"},
    {"sum_by_teams", "fold/sum/[3]-[4096]/0-edges"},
    {"argmax_across", "fold/argmax/outer-[33]-[256]/0"},
    {"chain", "chain/running/5x31"},
    {"keyed_chain", "chain/keyed/across/7-of-5x13x32"},
    {"softmax", "rows/softmax/33x65-poisoned"},
    {"layer_norm", "rows/layer-norm/33x65-poisoned"},
    {"clipped_norm", "rows/clipped-norm/70x65"},
};

Result<Case> case_named(std::string_view name) {
  for (auto* family :
       {scalar_cases, access_cases, fold_cases, chain_cases, product_cases, window_cases, group_cases}) {
    for (Case& c : family()) {
      if (c.name == name) return std::move(c);
    }
  }
  return usage_error("no case " + std::string(name));
}

Result<std::string> text_of(std::string_view name) {
  DGX_TRY(const Case c, case_named(name));
  DGX_TRY(const auto program, program_of(c, {false, true, false}));
  DGX_TRY(const exec::Plan plan, exec::make_device_plan(program));
  const exec::DeviceMemory offsets = exec::plan_device_memory(plan);
  const auto memory = std::make_unique_for_overwrite<std::uint8_t[]>(  // never touched
      static_cast<std::size_t>(offsets.size_bytes));
  return exec::make_device_step(plan, offsets, 0, memory.get()).kernels.text(false);
}

/// Compares a kind's text with the stored one, or stores it.
Status check(const std::string& path, std::string_view name, bool accept) {
  DGX_TRY(const std::string text, text_of(name));
  if (accept) return write_file(path, text, Clobber::kReplace);
  DGX_TRY(const std::string stored, read_file(path, 1 << 20));
  if (text == stored) return {};
  return malformed(path + ": the text of " + std::string(name) + " is another:\n" + text);
}

int run(int argc, char** argv) {
  const bool accept = argc == 3 && std::string_view(argv[2]) == "--accept";
  if (argc != 2 && !accept) {
    fmt::print(stderr, "usage: golden_text FOLDER [--accept]\n");
    return 2;
  }
  int code = 0;
  for (const auto& [kind, name] : kKinds) {
    const Status checked = check(fmt::format("{}/{}.txt", argv[1], kind), name, accept);
    if (checked.ok()) continue;
    fmt::print("{}\n", checked.error().message);
    code = 1;
  }
  return code;
}

}  // namespace
}  // namespace dgx::matrix

int main(int argc, char** argv) { return dgx::matrix::run(argc, argv); }
