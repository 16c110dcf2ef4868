#include "sources.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "dgx/core/text.h"

namespace dgx::torch_bridge {

using lowering::ExportedInput;

namespace {

/// Most tensors of one member: each is compared with all before it.
constexpr std::size_t kMostInMember = 4096;

}  // namespace

Result<std::vector<Source>> sources_of(const Archive& archive) {
  std::vector<Source> sources;
  std::map<std::string, std::vector<std::size_t>, std::less<>> by_member;
  for (const ExportedInput& input : archive.program().inputs) {
    if (input.kind == ExportedInput::Kind::kUser || input.kind == ExportedInput::Kind::kFixed) continue;
    DGX_TRY(Archive::Stored place, archive.find(input));
    Source source{&input, std::move(place), sources.size()};
    std::vector<std::size_t>& beside = by_member[source.place.member];
    if (beside.size() == kMostInMember)
      return usage_error(
          fmt::format("{} holds more than {} tensors", printable(source.place.member), kMostInMember),
          "give them numbers of their own, by clone(), before the model is exported");
    for (const std::size_t n : beside) {
      const Source& other = sources[n];
      const bool is_same = source.place.is_tied_to(other.place);
      const bool is_apart =
          !source.place.overlaps(other.place) || (!is_same && !source.may_change() && !other.may_change());
      if (is_apart) continue;
      if (!is_same || source.is_trained() != other.is_trained()) {
        return usage_error(fmt::format("{} and {} share numbers in the file, {}",
                                       printable(other.input->title), printable(input.title),
                                       is_same ? "and only one of them is trained" : "in different forms"),
                           "give one of them numbers of its own, by clone(), before the model is exported");
      }
      source.first = std::min(source.first, other.first);
    }
    beside.push_back(sources.size());
    sources.push_back(std::move(source));
  }
  return sources;
}

}  // namespace dgx::torch_bridge
