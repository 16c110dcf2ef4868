#include "dgx/cli/expect.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace dgx::cli {
namespace {

bool contains(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// The words between commas, each of which must be one of `answers`.
Result<std::vector<std::string>> read_answers(std::string_view text,
                                              const std::vector<std::string>& answers) {
  std::vector<std::string> out;
  for (bool more = true; more;) {
    const std::size_t comma = text.find(',');
    more = comma != std::string_view::npos;
    out.emplace_back(text.substr(0, comma));
    if (more) text.remove_prefix(comma + 1);
    if (!contains(answers, out.back()))
      return usage_error(fmt::format("'{}' is not one of {}", out.back(), fmt::join(answers, ", ")));
  }
  return out;
}

}  // namespace

void Expected::declare(Command& command, std::vector<std::string> answers) {
  std::string unused;
  command.option(
      "--expect", fmt::format("{}", fmt::join(answers, "|")), unused,
      "exit 0 if this is the answer (or one of several, with commas between them), and not 0 if it "
      "is another");
  command.rows().back().store =
      [this, answers = std::move(answers)](const std::vector<std::string>& texts) -> Status {
    DGX_TRY(expected_, read_answers(texts.front(), answers));
    return {};
  };
}

Verdict Expected::judge(Out& out, std::string_view answer, Verdict usual) const {
  if (expected_.empty()) return usual;
  if (contains(expected_, answer)) return Verdict::kDone;
  out.warning(fmt::format("the answer is {}, expected was {}", answer, fmt::join(expected_, " or ")));
  return usual == Verdict::kDone ? Verdict::kRefuted : usual;
}

}  // namespace dgx::cli
