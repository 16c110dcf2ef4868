#include "dgx/jobs/story.h"

#include <fmt/format.h>

#include <algorithm>

#include "dgx/core/text.h"

namespace dgx::jobs {

void Cast::add(const Digest& key_id, std::string_view role) {
  std::string name = fmt::format("the {}", role);
  const bool taken =
      std::any_of(roles_.begin(), roles_.end(), [&](const auto& other) { return other.second == name; });
  if (taken) name += " " + key_id.brief();
  roles_.emplace(key_id, std::move(name));
}

std::string Cast::of(const Digest& key_id) const {
  if (const auto known = named_.find(key_id); known != named_.end()) return known->second;
  if (const auto known = roles_.find(key_id); known != roles_.end()) return known->second;
  return "the key " + key_id.brief();
}

std::string sentence_case(std::string text) {
  if (text.starts_with("the ")) text.front() = 'T';
  return text;
}

std::string_view words_of(Stretch::Mark mark) {
  switch (mark) {
    case Stretch::Mark::kNotReplayed: return "not replayed";
    case Stretch::Mark::kDrawn: return "drawn to be replayed";
    case Stretch::Mark::kAgrees: return "replayed, agrees";
    case Stretch::Mark::kDisagrees: return "replayed, disagrees";
    case Stretch::Mark::kFell: return "disputed, and fell";
    case Stretch::Mark::kCleared: return "disputed, and stands";
  }
  return {};
}

std::string words_of_range(const Stretch& stretch) {
  if (stretch.end - stretch.first == 1) return "segment " + grouped(stretch.first);
  return fmt::format("segments {} to {}", grouped(stretch.first), grouped(stretch.end - 1));
}

}  // namespace dgx::jobs
