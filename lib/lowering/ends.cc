#include "dgx/lowering/ends.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "dgx/core/text.h"

namespace dgx::lowering {
namespace {

constexpr std::size_t kMostNames = 12;  // of a list in a message

/// "a, b and c", at most kMostNames of them.
std::string listed(const std::vector<std::string>& names) {
  std::string out;
  for (std::size_t n = 0; n < std::min(names.size(), kMostNames); ++n) {
    const bool is_last = n > 0 && n + 1 == names.size();
    out += (n == 0 ? "" : is_last ? " and " : ", ") + printable(names[n]);
  }
  return names.size() > kMostNames ? fmt::format("{} and {} more", out, names.size() - kMostNames) : out;
}

std::vector<std::string> names_of(const std::vector<ModelArgument>& arguments) {
  std::vector<std::string> names;
  for (const ModelArgument& each : arguments) names.push_back(each.name);
  return names;
}

/// The position of a name in a list; nullopt if it is not there.
std::optional<std::size_t> find(const std::vector<std::string>& names, const std::string& name) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<std::size_t>(found - names.begin());
}

/// Gives arguments their fields, first those that the user names.
class Matching {
 public:
  Matching(const std::vector<ModelArgument>& arguments, const std::vector<std::string>& fields)
      : arguments_(arguments), fields_(fields), taken_(fields.size(), false), field_of_(arguments.size()) {}

  Status take_given(const InputMap& given) {
    const std::vector<std::string> names = names_of(arguments_);
    for (const auto& [argument, field] : given) {
      const auto to = find(names, argument);
      const auto from = find(fields_, field);
      if (!to && argument != kNoArgument)
        return usage_error(fmt::format("--inputs: forward() takes no tensor '{}'", printable(argument)),
                           hint_among(argument, names, "it takes " + listed(names)));
      if (!from)
        return usage_error(fmt::format("--inputs: the data has no field '{}'", printable(field)),
                           hint_among(field, fields_, "it has " + listed(fields_)));
      to ? take(*to, *from) : void(taken_[*from] = true);
    }
    return {};
  }

  void take_usual() {
    for (std::size_t n = 0; n < arguments_.size(); ++n) {
      const std::string& name = arguments_[n].name;
      const auto own = find(fields_, name);
      const auto field = own || name != "labels" ? own : find(fields_, "y");
      if (field) take_free(n, *field);
    }
    const auto x = find(fields_, "x");
    for (std::size_t n = 0; x && n < arguments_.size(); ++n) {
      if (!field_of_[n] && arguments_[n].name != "labels") return take_free(n, *x);
    }
  }

  [[nodiscard]] Result<std::vector<std::optional<std::size_t>>> finish(bool loss_takes_y) const {
    for (std::size_t n = 0; n < arguments_.size(); ++n) {
      if (field_of_[n] || arguments_[n].optional) continue;
      return usage_error(
          fmt::format("forward() takes {}, for which there is no field", printable(arguments_[n].name)),
          fmt::format("say --inputs {}=FIELD: the data has {}", printable(arguments_[n].name),
                      listed(fields_)));
    }
    for (std::size_t n = 0; n < fields_.size(); ++n) {
      if (taken_[n] || (loss_takes_y && fields_[n] == "y")) continue;
      return usage_error(fmt::format("no input takes the field {} of the data", printable(fields_[n])),
                         fmt::format("say --inputs INPUT={}, or None={} to leave it out: forward() takes {}",
                                     fields_[n], fields_[n], listed(names_of(arguments_))));
    }
    return field_of_;
  }

 private:
  void take(std::size_t argument, std::size_t field) {
    field_of_[argument] = field;
    taken_[field] = true;
  }
  /// By default no two arguments take one field.
  void take_free(std::size_t argument, std::size_t field) {
    if (!field_of_[argument] && !taken_[field]) take(argument, field);
  }

  const std::vector<ModelArgument>& arguments_;
  const std::vector<std::string>& fields_;
  std::vector<bool> taken_;
  std::vector<std::optional<std::size_t>> field_of_;
};

}  // namespace

Result<InputMap> parse_input_map(const std::string& text) {
  InputMap out;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == part.size())
      return usage_error(fmt::format("--inputs: '{}' is not INPUT=FIELD", printable(part)),
                         "for example --inputs input_ids=x,attention_mask=mask,labels=y");
    std::string argument = part.substr(0, equals);
    const bool again = std::ranges::any_of(out, [&](const auto& each) { return each.first == argument; });
    if (again && argument != kNoArgument)
      return usage_error(fmt::format("--inputs: '{}' is there twice", printable(argument)));
    out.emplace_back(std::move(argument), part.substr(equals + 1));
  }
  return out;
}

Result<std::vector<std::optional<std::size_t>>> match_inputs(const std::vector<ModelArgument>& arguments,
                                                             const std::vector<std::string>& fields,
                                                             const InputMap& given, bool loss_takes_y) {
  Matching matching(arguments, fields);
  DGX_CHECK(matching.take_given(given));
  matching.take_usual();
  return matching.finish(loss_takes_y);
}

Result<std::size_t> choose_result(const std::vector<ModelResult>& results, const std::string& wanted) {
  if (results.empty()) return usage_error("forward() returns no tensor");
  std::vector<std::string> names;
  for (const ModelResult& each : results) names.push_back(each.keys.empty() ? "0" : each.keys);
  if (wanted.empty()) {
    if (results.size() == 1) return std::size_t{0};
    return usage_error(fmt::format("forward() returns {} tensors: {}", results.size(), listed(names)),
                       "say which by --model-output NAME, or by --loss output=NAME if it is the loss");
  }
  if (const auto named = find(names, wanted)) return *named;
  const auto numbered = std::ranges::find(results, wanted, &ModelResult::positions);
  if (numbered != results.end()) return static_cast<std::size_t>(numbered - results.begin());
  return usage_error(fmt::format("forward() returns no tensor '{}'", printable(wanted)),
                     hint_among(wanted, names, "it returns " + listed(names)));
}

}  // namespace dgx::lowering
