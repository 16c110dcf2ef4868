#include "dgx/program/update_spec.h"

#include <fmt/format.h>

#include <algorithm>

#include "spec_text.h"

namespace dgx::program {
namespace {

constexpr std::string_view kRank = "rank<";

bool is_rank(std::string_view pattern) { return pattern.starts_with(kRank); }

/// A glob by one place to return to, that of the last star: no input takes more than the product of both
/// lengths.
bool matches_glob(std::string_view pattern, std::string_view name) {
  std::size_t p = 0, n = 0, after_star = std::string_view::npos, resumed = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      after_star = ++p;
      resumed = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (after_star != std::string_view::npos) {
      p = after_star;
      n = ++resumed;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

ParameterGroup read_group(const json::Value& value, const std::string& where, json::Fields& task) {
  json::Fields in(value, where);
  ParameterGroup out;
  out.match = in.string("match", kMaxPatternBytes);
  if (const Status good = check_pattern(out.match); !good) in.fail("match", good.error().message);
  out.rate = read_double(in, "lr", 0, kMostNumber);
  if (out.rate == 0) in.fail("lr", "must be above 0");
  if (in.has("weight_decay")) out.weight_decay = read_double(in, "weight_decay", 0, kMostNumber);
  if (const Status status = in.finish(); !status) task.fail("groups", status.error().message);
  return out;
}

}  // namespace

Status check_pattern(std::string_view pattern) {
  const auto is_printable = [](char c) { return c > ' ' && c <= '~'; };
  if (pattern.empty() || pattern.size() > kMaxPatternBytes || !std::ranges::all_of(pattern, is_printable)) {
    return usage_error(fmt::format("'{}' is not a pattern", printable(pattern.substr(0, kMaxPatternBytes))),
                       fmt::format("1 to {} printable characters without space", kMaxPatternBytes));
  }
  const bool is_number = pattern.size() == kRank.size() + 1 && pattern.back() >= '1' && pattern.back() <= '9';
  if (is_rank(pattern) && !is_number)
    return usage_error(fmt::format("'{}' is not a pattern", pattern), "rank<2 means biases and norms");
  return {};
}

bool matches(std::string_view pattern, std::string_view name, std::size_t rank) {
  if (is_rank(pattern)) return rank < static_cast<std::size_t>(pattern.back() - '0');
  return matches_glob(pattern, name);
}

Result<ParameterGroup> parse_group(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    return usage_error(fmt::format("group '{}': says nothing about its parameters", printable(text)),
                       "for example 'head.*:lr=0.1x,weight-decay=0'");
  }
  ParameterGroup out;
  out.match = text.substr(0, colon);
  DGX_CHECK(check_pattern(out.match));
  const std::string fields = fmt::format("group{}", text.substr(colon));
  SpecReader in(fields);
  if (const auto factor = in.text("lr")) {
    const bool is_factor = factor->ends_with('x');
    const auto number = parse_number<double>(factor->substr(0, factor->size() - (is_factor ? 1 : 0)));
    if (!is_factor) {
      in.fail(fmt::format("lr: '{}' is not a factor of the optimizer's rate", printable(*factor)),
              "lr=0.1x is a tenth of it");
    } else if (!number || !(*number > 0 && *number <= kMostNumber)) {
      in.fail(fmt::format("lr: '{}' is not above 0 and at most 1e30", printable(*factor)),
              "--freeze keeps parameters as they are");
    } else {
      out.rate = *number;
    }
  }
  double decay = -1;
  in.number("weight-decay", decay, 0.0, kMostNumber);
  if (decay >= 0) out.weight_decay = decay;
  if (Status status = in.finish(); !status) return within(out.match, std::move(status).error());
  return out;
}

void add_json(json::Object& task, const UpdateSpec& spec) {
  json::Array groups;
  for (const ParameterGroup& group : spec.groups) {
    json::Object out{{"lr", hex_float(group.rate)}, {"match", group.match}};
    if (group.weight_decay) out.emplace("weight_decay", hex_float(*group.weight_decay));
    groups.emplace_back(std::move(out));
  }
  if (!groups.empty()) task.emplace("groups", std::move(groups));
  if (spec.ema) task.emplace("ema", hex_float(*spec.ema));
  if (spec.accumulate != 1) task.emplace("accumulate", spec.accumulate);
  if (spec.workers != 1) task.emplace("workers", spec.workers);
  if (!spec.frozen.empty()) task.emplace("freeze", json::Array(spec.frozen.begin(), spec.frozen.end()));
}

UpdateSpec read_update(json::Fields& task) {
  UpdateSpec out;
  if (task.has("groups")) {
    for (const json::Value& group : task.array("groups", kMaxGroups))
      out.groups.push_back(read_group(group, fmt::format("{}", out.groups.size()), task));
    if (out.groups.empty()) task.fail("groups", "is empty");
  }
  if (task.has("freeze")) {
    for (const json::Value& item : task.array("freeze", kMaxGroups)) {
      const std::string* pattern = item.as_string();
      out.frozen.push_back(pattern == nullptr ? std::string() : *pattern);
      if (const Status good = check_pattern(out.frozen.back()); !good)
        task.fail("freeze", good.error().message);
    }
    if (out.frozen.empty()) task.fail("freeze", "is empty");
  }
  if (task.has("ema")) {
    out.ema = read_double(task, "ema", 0, 1);
    if (!is_ema(*out.ema)) task.fail("ema", "must be above 0 and below 1");
  }
  if (task.has("accumulate")) out.accumulate = task.integer("accumulate", 2, kMaxAccumulate);
  if (task.has("workers")) out.workers = task.integer("workers", 2, kMaxWorkers);
  return out;
}

}  // namespace dgx::program
