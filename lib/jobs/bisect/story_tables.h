#pragma once

#include <string>
#include <vector>

#include "dgx/jobs/story.h"

namespace dgx::jobs {

/// A table of a story, which text and page lay out alike.
struct StoryTable {
  struct Column {
    std::string name;
    bool is_number = false;  ///< aligned to the right
  };
  std::string caption;
  std::vector<Column> columns;  ///< empty for facts: their names stand in the rows
  std::vector<std::vector<std::string>> rows;
};

[[nodiscard]] StoryTable table_of(std::string caption, const std::vector<Fact>& facts);
[[nodiscard]] StoryTable table_of(const std::vector<Party>& parties);
[[nodiscard]] StoryTable table_of(const std::vector<Stretch>& stretches);
[[nodiscard]] StoryTable table_of(const ToldOperation& operation);
[[nodiscard]] StoryTable table_of(const std::vector<ToldMove>& moves);
[[nodiscard]] StoryTable table_of(const std::vector<Account>& accounts);
[[nodiscard]] StoryTable table_of(const std::vector<Event>& events);

}  // namespace dgx::jobs
