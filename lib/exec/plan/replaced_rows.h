#pragma once

#include <map>

#include "plan/operation_graph.h"

namespace dgx::exec {

/// The updates, by their values, of entries of which a step replaces the rows that its batch names, as of
/// `optimizer/message/N` (dgx-lowerings(7), "AQ-SGD"). A map over all rows would read and write all of the
/// entry.
///
/// A chain over the batch, from -1, says for each row which position names it, the last one. The update is a
/// select: where that is at least 0 any number, else the entry's own element. So a row that no position names
/// stays what it is, and the operation visits the positions, not the rows. Empty unless the plan is fused
/// and for the CPU.
[[nodiscard]] std::map<kernels::ValueIndex, ReplacedRows> recognise_replaced_rows(
    const OperationGraph& graph);

}  // namespace dgx::exec
