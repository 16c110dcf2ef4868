#include "sources.h"

#include <c10/core/ScalarType.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "dgx/core/text.h"

namespace dgx::torch_bridge {

using lowering::ExportedInput;

namespace {

/// Most tensors of one member: each is compared with all before it.
constexpr std::size_t kMostInMember = 4096;

/// Bytes of tensors beside those that the archive has. What is made of a place is dense and of its own: where
/// tensors lie on the same numbers, or one repeats them, a few bytes of a file ask for as many as they like.
class Repeated {
 public:
  /// kMalformed if with this tensor they are more than Archive::kMaxRepeatedBytes. Sums cannot overflow: a
  /// tensor adds at most that or its member's bytes.
  Status add(const Source& source) {
    const Archive::Stored& place = source.place;
    Member& member = members_[place.member];
    ++member.tensors;
    member.made += place.count() * static_cast<std::int64_t>(c10::elementSize(place.type));
    const std::int64_t beside = std::max(std::int64_t{0}, member.made - place.member_bytes);
    all_ += beside - member.beside;
    member.beside = beside;
    if (all_ <= Archive::kMaxRepeatedBytes) return {};
    return malformed(
        fmt::format("{}: {} of {}, which has {} bytes, take {}; beside the bytes of their members tensors "
                    "take {}, at most {} are made",
                    printable(source.input->title),
                    member.tensors == 1 ? "the numbers" : fmt::format("{} tensors", member.tensors),
                    printable(place.member), place.member_bytes, member.made, all_,
                    Archive::kMaxRepeatedBytes),
        "give them numbers of their own, by clone(), before the model is exported");
  }

 private:
  struct Member {
    std::int64_t tensors = 0;
    std::int64_t made = 0;    ///< bytes of its tensors, tied ones counted once
    std::int64_t beside = 0;  ///< how many more these are than its own
  };
  std::map<std::string, Member, std::less<>> members_;
  std::int64_t all_ = 0;
};

}  // namespace

Result<std::vector<Source>> sources_of(const Archive& archive) {
  std::vector<Source> sources;
  Repeated repeated;
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
    if (source.first == sources.size()) DGX_CHECK(repeated.add(source));
    beside.push_back(sources.size());
    sources.push_back(std::move(source));
  }
  return sources;
}

}  // namespace dgx::torch_bridge
