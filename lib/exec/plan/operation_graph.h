#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

#include "plan/linear.h"
#include "plan/plan.h"

namespace dgx::exec {

/// The processor that a plan is for: the CPU, or a device (kernels/cuda/device.h).
enum class Backend : std::uint8_t { kCpu, kDevice };

/// A step program on its way to a plan: the plan as far as it is made, and what is known of every value.
///
/// Operations are the nodes. An edge leads from the operation that makes a value to each that reads it; it is
/// not stored, but follows from the program's accesses and from `operation_of`. Operations stand in an order
/// in which every value is made before it is read; a pass may change it only so that this stays true, and so
/// that nothing overwrites a state entry before its last reader.
///
/// make_plan() in plan.cc lists the passes in order. Each is a free function that reads all of the graph and
/// changes only what its contract says. Rewrites of the program come first, since everything by value depends
/// on its lines. Then operations are formed, of which fused maps are at first mere lists of members, so that
/// passes can move and join them; then compiled; and only when all operations and their order are final do
/// values get places in memory.
struct OperationGraph {
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  Fusion fusion = Fusion::kFused;
  Backend backend = Backend::kCpu;
  int threads = 1;
  std::vector<kernels::ValueIndex> keep;  ///< must be in memory when the step ends, as next values must
  Plan plan;
  std::vector<kernels::ValueIndex> resumed = {};  ///< dots that go on with a running state
  Channels channels = Channels::kMayMove;
  // One element per value each:
  kernels::ByValue<kernels::ValueType> types = {};
  kernels::ByValue<std::optional<std::vector<LinearAccess>>> linear = {};  ///< linear_accesses()
  kernels::ByValue<std::optional<std::vector<StripAccess>>> strips = {};   ///< strip_accesses()
  kernels::ByValue<bool> becomes_state = {};                               ///< it is an entry's next value
  kernels::ByValue<bool> wanted = {};               ///< it must be in memory when the step ends
  kernels::ByValue<bool> needed = {};               ///< something that is wanted depends on it
  kernels::ByValue<bool> stored = {};               ///< it lies in memory, not only in registers
  kernels::ByValue<std::size_t> operation_of = {};  ///< the operation that makes it, or kNone

  [[nodiscard]] bool is_fused() const { return fusion == Fusion::kFused; }
  [[nodiscard]] bool is_on_device() const { return backend == Backend::kDevice; }
  [[nodiscard]] bool is_resumed(kernels::ValueIndex v) const {
    return std::find(resumed.begin(), resumed.end(), v) != resumed.end();
  }
  [[nodiscard]] const kernels::Primitive& at(kernels::ValueIndex v) const { return plan.program->values[v]; }
};

/// Puts the operations into `order`, which holds their old numbers; those that it leaves out are dropped.
void reorder(OperationGraph& graph, const std::vector<std::size_t>& order);
/// Sets `operation_of` from the operations.
void number_operations(OperationGraph& graph);

// The passes, in the order of make_plan(). Those before compile_lines() are in channels_last.h,
// read_through.h and common_iteration.h.

/// Compiles every line and sets all that depends on one line alone: types, accesses, what is wanted. Every
/// layout is rows. Fails where a line cannot be compiled.
[[nodiscard]] Status compile_lines(OperationGraph& graph);

/// Sets `needed`: dead values are neither computed nor allocated. A plan of every value needs all. Before
/// operations are formed, since a dead map in a group would be computed with it.
void find_needed(OperationGraph& graph);

/// Makes an operation of each needed value, in the order of the program: the first form that a recogniser
/// knows it in, else Generic. In a fused plan maps of one iteration shape join one group, if what they read
/// of each other they read element by element. Sets `operation_of`.
void form_operations(OperationGraph& graph);

/// Moves each update after the last reader of the parameter that it replaces, to be written in place. Before
/// find_stored(), which asks what no other operation reads.
void sink_updates(OperationGraph& graph);

/// Sets `stored`: a value that only its own operation reads stays in registers.
void find_stored(OperationGraph& graph);

/// Chooses each value's layout, and has products read and write theirs. Packs state that the step changes if
/// every use of it, and of what must share its layout, allows this: as the right side of products, all of one
/// orientation; as the output of products; element by element. Groups must be final, as each lies alike.
void choose_layouts(OperationGraph& graph);

/// Joins a packed product with the group of maps that alone reads it: block by block the maps follow it,
/// and the product is no longer stored. After choose_layouts(), which says which values are packed.
void follow_products(OperationGraph& graph);

/// Compiles the strip program of every group of maps, which needs its members, layouts and `stored` final,
/// and adds its cost.
void compile_maps(OperationGraph& graph);

/// Sets what every operation reads and writes. All passes after it are about these, not about accesses.
void note_uses(OperationGraph& graph);

/// Fuses neighbouring operations (maps, sums and maxima) over the same rows into one Rows. Of each other they
/// may read a row's number at the column where it is made, or one number of the row. Softmax, layer norm and
/// cross entropy are such, forward and backward. Intermediates that stay in a row need no memory. After
/// note_uses(), by which it knows who else reads them.
void join_rows(OperationGraph& graph);

/// Exchanges neighbours so that memory is freed sooner: of two of which the second does not wait for the
/// first, one that frees much (1 MiB) goes before one that takes much. Operations that make next state stay
/// after the readers of what they replace. Before slices, which are runs of neighbours.
void free_sooner(OperationGraph& graph);

/// Finds neighbouring operations that can run slice by slice: their outputs divide into the same number of
/// slices along the leading dimensions, and a slice of one reads only the same slice of the others, as with
/// attention heads and the rows of a normalisation. A thread takes a slice through all of them while it is in
/// the nearest caches, and values that only they read take the memory of a few slices.
void cut_slices(OperationGraph& graph);

/// Divides the operations into sections by their cost and by slices: small ones are not worth sharing.
void divide_into_sections(OperationGraph& graph);

/// Decides where every value lies: placements, entries, and the sizes of arena and slice memory. A value's
/// place in the arena is reused after the last operation that reads it, unless it is kept. In a fused plan an
/// update may overwrite the entry that it becomes if no later operation reads the old value, and a map a
/// value that it is the last to read. After slices, whose operations all run at the same time.
void plan_memory(OperationGraph& graph);

/// Sizes the scratch memory of one thread: registers, folds and windows. Last, as nothing asks for it.
void plan_scratch(OperationGraph& graph);

}  // namespace dgx::exec
