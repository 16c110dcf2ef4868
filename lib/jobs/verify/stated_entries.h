#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dgx/bundle/state.h"
#include "dgx/core/json.h"
#include "dgx/core/result.h"

namespace dgx::jobs {

/// The metadata of an exported model that has the state's entries (dgx-inspect(1), "export").
inline constexpr std::string_view kEntriesKey = "dgx.entries";
/// The beginning of the names of a model's parameters and buffers among a state's entries.
inline constexpr std::string_view kModelPrefix = "model/";

/// The metadata that says that a file has averages where there are any, instead of parameters.
inline constexpr std::string_view kWeightsKey = "dgx.weights";
inline constexpr std::string_view kAveragedWeights = "ema";

/// An entry of a state as a file states it. Name and digest are what the state's digest follows from; type
/// and shape are the file's word, until the digest is recomputed from numbers.
struct StatedEntry {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  Digest digest;  ///< the tensor's
};

/// The entry of this name, among entries in ascending order; or nullptr.
[[nodiscard]] const StatedEntry* find_stated(const std::vector<StatedEntry>& stated, std::string_view name);
/// The name of the entry of a state that an exported model has as `name`: that one, or the average of it that
/// the state has.
[[nodiscard]] std::string exported_entry(const std::vector<StatedEntry>& stated, const std::string& name,
                                         bool averages);
/// True if a file's metadata say that it has averages.
[[nodiscard]] bool has_averages(const json::Object& metadata);

/// A stored state's entries, in its order.
[[nodiscard]] std::vector<StatedEntry> stated_entries(const bundle::StoredState& stored);
/// The canonical JSON {"NAME":["f32",[2,3],"64 hex digits"], …}.
[[nodiscard]] std::string print_entries(const std::vector<StatedEntry>& entries);
/// The entries that print_entries() printed, in ascending order; kMalformed, naming the entry.
[[nodiscard]] Result<std::vector<StatedEntry>> parse_entries(std::string_view text);
/// The digest of the state that has exactly these entries. kMalformed as merkle::check_names.
[[nodiscard]] Result<Digest> state_of(const std::vector<StatedEntry>& entries);

}  // namespace dgx::jobs
