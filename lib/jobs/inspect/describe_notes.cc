#include <filesystem>
#include <set>

#include "inspect/describe.h"

// A folder of a dispute's notes, dgx-bisect(1), FILES.
namespace dgx::jobs {
namespace {

/// The names in a folder of notes, sorted.
struct Notes {
  std::set<std::string> moves;
  std::set<std::string> segments;
};

Notes notes_in(const std::string& folder) {
  Notes out;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with("moves-") && name.ends_with(".jsonl")) out.moves.insert(name);
    if (name.starts_with("segment-")) out.segments.insert(name);
  }
  return out;
}

}  // namespace

bool is_notes(const std::string& folder) {
  const Notes notes = notes_in(folder);
  return !notes.moves.empty() || !notes.segments.empty();
}

Result<Description> describe_notes(const std::string& folder) {
  const Notes notes = notes_in(folder);
  return Description{"notes",
                     {{"moves", json::Array(notes.moves.begin(), notes.moves.end())},
                      {"segments", json::Array(notes.segments.begin(), notes.segments.end())}},
                     {},
                     {}};
}

}  // namespace dgx::jobs
