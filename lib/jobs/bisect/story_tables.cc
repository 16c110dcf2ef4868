#include "bisect/story_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "dgx/core/text.h"

namespace dgx::jobs {
namespace {

constexpr std::string_view kNoDate = "no date";

std::string date_or_none(const std::string& time) { return time.empty() ? std::string(kNoDate) : time; }

/// Takes a column of dates away if there is no date in it.
void drop_dates(StoryTable& table, std::ptrdiff_t column) {
  const auto at = static_cast<std::size_t>(column);
  if (std::any_of(table.rows.begin(), table.rows.end(), [&](const auto& row) { return row[at] != kNoDate; }))
    return;
  table.columns.erase(table.columns.begin() + column);
  for (auto& row : table.rows) row.erase(row.begin() + column);
}

/// "+1,234,567".
std::string signed_text(std::int64_t number) { return (number > 0 ? "+" : "") + grouped(number); }

}  // namespace

StoryTable table_of(std::string caption, const std::vector<Fact>& facts) {
  StoryTable out{std::move(caption), {}, {}};
  for (const Fact& fact : facts) out.rows.push_back({fact.name, fact.value});
  return out;
}

StoryTable table_of(const std::vector<Party>& parties) {
  StoryTable out{"Who signed what", {{"who"}, {"key begins with"}, {"did"}}, {}};
  for (const Party& party : parties) out.rows.push_back({party.name, party.key_id.substr(0, 12), party.did});
  return out;
}

StoryTable table_of(const std::vector<Stretch>& stretches) {
  StoryTable out{"What is known of each segment", {{"segments"}, {"what is known"}}, {}};
  for (const Stretch& stretch : stretches)
    out.rows.push_back({words_of_range(stretch), std::string(words_of(stretch.mark))});
  return out;
}

StoryTable table_of(const ToldOperation& operation) {
  StoryTable out{"The operation in decimals and, bit for bit, in hex",
                 {{"letter"}, {"number", true}, {"bits"}, {"what it is"}},
                 {}};
  const auto add = [&](const ToldNumber& number, const std::string& after = {}) {
    out.rows.push_back({number.letter, number.decimal, number.bits, number.role + after});
  };
  for (const ToldNumber& operand : operation.operands) add(operand);
  add(operation.right);
  add(operation.claimed, operation.off.empty() ? "" : ": " + operation.off);
  return out;
}

StoryTable table_of(const std::vector<ToldMove>& moves) {
  StoryTable out{
      "Every move, signed by its maker", {{"turn", true}, {"when"}, {"who"}, {"bytes", true}, {"says"}}, {}};
  for (const ToldMove& move : moves)
    out.rows.push_back(
        {std::to_string(move.turn), date_or_none(move.time), move.who, grouped(move.bytes), move.words});
  drop_dates(out, 1);
  return out;
}

StoryTable table_of(const std::vector<Account>& accounts) {
  StoryTable out{"In base units of the market's money",
                 {{"who"}, {"put in", true}, {"got", true}, {"in the end", true}},
                 {}};
  for (const Account& account : accounts)
    out.rows.push_back({account.name, grouped(account.locked), grouped(account.paid),
                        signed_text(account.paid - account.locked)});
  return out;
}

StoryTable table_of(const std::vector<Event>& events) {
  StoryTable out{"In the order in which it was logged", {{"when"}, {"who"}, {"what"}}, {}};
  for (const Event& event : events) out.rows.push_back({date_or_none(event.time), event.who, event.words});
  drop_dates(out, 0);
  return out;
}

}  // namespace dgx::jobs
