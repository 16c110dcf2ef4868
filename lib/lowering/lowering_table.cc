#include <algorithm>
#include <map>

#include "dgx/lowering/lower.h"
#include "lowering.h"

namespace dgx::lowering {
namespace {

using Table = std::map<std::string_view, decltype(LoweringRow::lower)>;

/// Every ATen op that an exact program can hold.
Table table_of_rows() {
  Table table;
  for (const auto rows :
       {kActivationRows, kArithmeticRows, kConvolutionRows, kFunctionRows, kIndexingRows, kLossRows,
        kNormRows, kPaddingRows, kPatchRows, kPieceRows, kPoolingRows, kProductRows, kRandomRows,
        kReductionRows, kSortingRows, kStatisticRows, kUpsampleRows, kViewRows}) {
    for (const auto& [ops, lower] : rows) {
      for (std::size_t begin = 0; begin < ops.size();) {
        const std::size_t end = std::min(ops.find(' ', begin), ops.size());
        table.emplace(ops.substr(begin, end - begin), lower);
        begin = end + 1;
      }
    }
  }
  return table;
}

}  // namespace

decltype(LoweringRow::lower) find_lowering(std::string_view name) {
  static const Table kTable = table_of_rows();
  if (!name.starts_with("aten::")) return nullptr;
  name.remove_prefix(6);
  auto found = kTable.find(name);
  // Functionalisation writes some views as `…_copy`.
  if (found == kTable.end() && name.ends_with("_copy")) found = kTable.find(name.substr(0, name.size() - 5));
  return found == kTable.end() ? nullptr : found->second;
}

bool has_lowering(std::string_view name) { return find_lowering(name) != nullptr; }

}  // namespace dgx::lowering
