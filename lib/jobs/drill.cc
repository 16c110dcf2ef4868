#include "dgx/jobs/drill.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <string>

namespace dgx::jobs {
namespace {

constexpr std::string_view kForms = "a drill is step=S,op=O,element=E,bit=B or segment=N,lazy";

/// Parses "a=1,b=2,word" into key → number; a bare word has no number.
Result<std::map<std::string, std::optional<std::int64_t>>> parse_words(std::string_view text) {
  std::map<std::string, std::optional<std::int64_t>> words;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    const std::size_t equals = word.find('=');
    std::optional<std::int64_t> number;
    if (equals != std::string_view::npos) {
      const std::string_view digits = word.substr(equals + 1);
      std::int64_t value = 0;
      const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
      if (error != std::errc() || end != digits.data() + digits.size() || value < 0) {
        return usage_error("drill: '" + std::string(word) + "' is not a number", std::string(kForms));
      }
      number = value;
    }
    if (!words.emplace(word.substr(0, equals), number).second) {
      return usage_error("drill: '" + std::string(word) + "' is given twice", std::string(kForms));
    }
  }
  return words;
}

}  // namespace

Result<Drill> parse_drill(std::string_view text) {
  DGX_TRY(const auto words, parse_words(text));
  const auto number = [&words](const char* key) -> std::optional<std::int64_t> {
    const auto found = words.find(key);
    return found == words.end() ? std::nullopt : found->second;
  };
  Drill drill;
  const bool lazy = words.size() == 2 && number("segment") && words.contains("lazy") && !words.at("lazy");
  if (lazy) {
    drill.segment = number("segment");
    return drill;
  }
  const auto step = number("step");
  const auto op = number("op");
  const auto element = number("element");
  const auto bit = number("bit");
  const bool complete = words.size() == 4 && step && op && element && bit;
  if (!complete || *op > std::numeric_limits<kernels::ValueIndex>::max() || *bit > 63) {
    return usage_error("drill: '" + std::string(text) + "' is neither form", std::string(kForms));
  }
  drill.step = *step;
  drill.fault = {static_cast<kernels::ValueIndex>(*op), *element, static_cast<int>(*bit)};
  return drill;
}

State lazy_state(const State& start, std::int64_t steps) {
  State state = start;
  for (Entry& entry : state) {
    if (entry.name == "step") entry.tensor.as<std::int64_t>()[0] += steps;
    if (!entry.name.starts_with("model/") || entry.tensor.dtype() != DType::kF32) continue;
    for (float& x : entry.tensor.as<float>()) x += x * 0x1p-20F;
  }
  return state;
}

}  // namespace dgx::jobs
