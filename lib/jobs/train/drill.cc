#include "dgx/jobs/drill.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <string>

namespace dgx::jobs {
namespace {

constexpr std::string_view kForms =
    "a drill is step=S,op=O,element=E,bit=B, also with ,position=P; or segment=N,lazy; or, of ranks, "
    "step=S,rank=R,carry=V,element=E,bit=B, also with gather or broadcast for carry";

/// Parses "a=1,b=2,word" into key → number; a bare word has no number.
Result<std::map<std::string, std::optional<std::int64_t>>> parse_words(std::string_view text) {
  std::map<std::string, std::optional<std::int64_t>> words;
  if (text.ends_with(','))
    return usage_error("drill: '" + std::string(text) + "' ends with a comma", std::string(kForms));
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
        return usage_error("drill: '" + std::string(word) + "' is no number from 0 to 2^63 - 1",
                           std::string(kForms));
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
  std::size_t known = 0;
  const auto number = [&](const char* key) -> std::optional<std::int64_t> {
    const auto found = words.find(key);
    if (found == words.end() || !found->second) return std::nullopt;
    ++known;
    return found->second;
  };
  Drill drill;
  const bool lazy = words.size() == 2 && words.contains("lazy") && !words.at("lazy");
  if (lazy && (drill.segment = number("segment"))) return drill;
  const auto step = number("step"), element = number("element"), bit = number("bit"), rank = number("rank");
  std::optional<std::int64_t> value;
  exec::RankLie lie;
  if (rank) {
    for (const auto& [key, in] : {std::pair("carry", exec::RankLie::In::kCarry),
                                  {"gather", exec::RankLie::In::kGather},
                                  {"broadcast", exec::RankLie::In::kBroadcast}}) {
      const auto found = number(key);
      if (found) lie.in = in, value = found;
    }
  } else {
    value = number("op");
    drill.fault.position = number("position");
  }
  const std::size_t wanted = rank ? 5 : drill.fault.position ? 5 : 4;
  const bool complete = step && element && bit && value && known == wanted && words.size() == wanted;
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  if (!complete || *value > kMax || *bit > 63 || rank.value_or(0) > kMax)
    return usage_error("drill: '" + std::string(text) + "' has none of the forms", std::string(kForms));
  drill.step = *step;
  drill.fault.value = kernels::ValueIndex(*value);
  drill.fault.element = *element;
  drill.fault.bit = static_cast<int>(*bit);
  if (!rank) return drill;
  lie.rank = static_cast<int>(*rank);
  lie.value = drill.fault.value;
  lie.element = drill.fault.element;
  lie.bit = drill.fault.bit;
  drill.lie = lie;
  return drill;
}

std::string print_drill(const Drill& drill) {
  const exec::Fault& fault = drill.fault;
  std::string out =
      fmt::format("step={},op={},element={},bit={}", drill.step, fault.value, fault.element, fault.bit);
  if (fault.position) out += fmt::format(",position={}", *fault.position);
  return out;
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
  if (drill.lie) return malformed("the run's drill is the lie of a rank, where a fault is noted");
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
