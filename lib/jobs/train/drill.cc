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
  if (!complete || *op > std::numeric_limits<std::int32_t>::max() || *bit > 63) {
    return usage_error("drill: '" + std::string(text) + "' has neither form", std::string(kForms));
  }
  drill.step = *step;
  drill.fault = {kernels::ValueIndex(*op), *element, static_cast<int>(*bit)};
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

Result<std::optional<Drill>> drill_of(const bundle::RunHeader& header) {
  if (header.drill.empty()) return std::optional<Drill>();
  DGX_TRY(Drill drill, parse_drill(header.drill));
  return std::optional<Drill>(drill);
}

Status DrilledExecutor::load(const State& state) {
  segment_start_.clear();
  return executor_.load(state);
}

bool DrilledExecutor::lazy_now() const {
  if (!drill_ || !drill_->lazy() || *drill_->segment >= files_.segments.count()) return false;
  const protocol::Segment segment = files_.segments[*drill_->segment];
  return position() >= segment.first && position() < segment.end;
}

Result<State> DrilledExecutor::claimed_after(std::int64_t steps) {
  if (segment_start_.empty()) {
    DGX_TRY(segment_start_, executor_.state());
  }
  return lazy_state(segment_start_, position() + steps - files_.segments[*drill_->segment].first);
}

Status DrilledExecutor::idle(std::int64_t steps) {
  DGX_TRY(const State claimed, claimed_after(steps));
  return executor_.load(claimed);
}

Status DrilledExecutor::step() {
  if (lazy_now()) return idle(1);
  return faulty_now() ? executor_.trace(drill_->fault, {}) : executor_.step();
}

Status DrilledExecutor::trace(const program::ValueVisitor& visit) {
  if (faulty_now()) return executor_.trace(drill_->fault, visit);
  if (!lazy_now()) return executor_.trace(visit);
  DGX_TRY(const State claimed, claimed_after(1));
  kernels::ByValue<const Tensor*> becomes(files_.program->values.size(), nullptr);
  for (const kernels::Primitive& input : files_.program->values) {
    if (!input.next) continue;
    const Entry* entry = find_entry(claimed, input.source.name);
    if (entry != nullptr) becomes[*input.next] = &entry->tensor;
  }
  DGX_CHECK(executor_.trace([&](kernels::ValueIndex value, const TensorView& numbers) -> Status {
    const Tensor* entry = becomes[value];
    return visit(value, entry != nullptr ? entry->view() : numbers);
  }));
  return executor_.load(claimed);
}

}  // namespace dgx::jobs
