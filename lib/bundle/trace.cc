#include "dgx/bundle/trace.h"

#include <fmt/format.h>

#include "container.h"
#include "dgx/merkle/digests.h"

namespace dgx::bundle {
namespace {

constexpr std::int64_t kMaxNumber = std::int64_t{1} << 53;
constexpr std::size_t kMaxSteps = std::size_t{1} << 24;
constexpr std::size_t kMaxValues = std::size_t{1} << 24;

/// A trace's contradiction in words; empty if it has none.
std::string contradiction(const Trace& trace) {
  if (trace.segment < 0 || trace.first_step < 0) return "segment or first step is below 0";
  if (trace.states.empty()) return "has no state";
  const auto end = trace.first_step + static_cast<std::int64_t>(trace.states.size()) - 1;
  if (trace.values && (trace.values->step < trace.first_step || trace.values->step >= end)) {
    return fmt::format("values belong to step {}, which is not in {} to {}", trace.values->step,
                       trace.first_step, end);
  }
  if (!trace.numbers) return {};
  if (!trace.values) return "has numbers of a value, but no values";
  const std::int64_t value = trace.numbers->value;
  if (value < 0 || value >= static_cast<std::int64_t>(trace.values->digests.size())) {
    return fmt::format("numbers belong to value {} of {}", value, trace.values->digests.size());
  }
  return {};
}

Result<Trace> read_parts(const Reader& reader, const Effort& effort) {
  DGX_TRY(const std::vector<std::string> children, reader.children(""));
  const bool has_values = children.size() > 1;
  const bool has_numbers = children.size() > 2;
  std::vector<std::string> attributes{"first_step", "segment", "task"};
  std::vector<std::string> expected{"states"};
  if (has_numbers) expected.insert(expected.begin(), "numbers");
  if (has_values) expected.emplace_back("values");
  if (has_values) attributes.emplace_back("step");
  if (has_numbers) attributes.emplace_back("value");
  DGX_CHECK(reader.expect_children("", expected));
  DGX_CHECK(reader.expect_attributes("", attributes));
  Trace trace;
  DGX_TRY(trace.task, reader.digest("", "task"));
  DGX_TRY(trace.segment, reader.integer("", "segment", 0, kMaxNumber));
  DGX_TRY(trace.first_step, reader.integer("", "first_step", 0, kMaxNumber));
  DGX_TRY(trace.states, reader.digests("states", kMaxSteps));
  if (has_values) {
    trace.values.emplace();
    DGX_TRY(trace.values->step, reader.integer("", "step", 0, kMaxNumber));
    DGX_TRY(trace.values->digests, reader.digests("values", kMaxValues));
  }
  if (has_numbers) {
    trace.numbers.emplace();
    DGX_TRY(trace.numbers->value, reader.integer("", "value", 0, kMaxNumber));
    DGX_TRY(trace.numbers->tensor, reader.tensor("numbers", effort));
  }
  return trace;
}

Status check_numbers(const Trace& trace) {
  if (!trace.numbers) return {};
  const Digest stored = trace.values->digests[static_cast<std::size_t>(trace.numbers->value)];
  const Digest ours = merkle::tensor_digest(trace.numbers->tensor.view());
  if (ours == stored) return {};
  return malformed(fmt::format("value {} has digest {}, its numbers have {}", trace.numbers->value,
                               stored.brief(), ours.brief()));
}

}  // namespace

Status write_trace(AtomicFile target, const Trace& trace, Effort effort) {
  const std::string wrong = contradiction(trace);
  if (!wrong.empty()) return usage_error("a trace " + wrong);
  DGX_TRY(Writer writer, Writer::create(std::move(target), Kind::kTrace, effort));
  DGX_CHECK(writer.digest("", "task", trace.task));
  DGX_CHECK(writer.integer("", "segment", trace.segment));
  DGX_CHECK(writer.integer("", "first_step", trace.first_step));
  DGX_CHECK(writer.digests("states", trace.states));
  if (trace.values) {
    DGX_CHECK(writer.integer("", "step", trace.values->step));
    DGX_CHECK(writer.digests("values", trace.values->digests));
  }
  if (trace.numbers) {
    DGX_CHECK(writer.integer("", "value", trace.numbers->value));
    DGX_CHECK(writer.tensor("numbers", trace.numbers->tensor.view()));
  }
  return writer.commit();
}

Status write_trace(const std::string& path, const Trace& trace, Clobber clobber, Effort effort) {
  DGX_TRY(AtomicFile target, AtomicFile::create(path, clobber));
  return write_trace(std::move(target), trace, effort);
}

Result<Trace> read_trace(const std::string& path, Check check, Effort effort) {
  DGX_TRY(const Reader reader, Reader::open(path, Kind::kTrace));
  DGX_TRY(Trace trace, read_parts(reader, effort));
  const std::string wrong = contradiction(trace);
  if (!wrong.empty()) return reader.in_file(malformed(wrong));
  if (check == Check::kNothing) return trace;
  Status same = check_numbers(trace);
  if (!same.ok()) return reader.in_file(std::move(same).error());
  return trace;
}

}  // namespace dgx::bundle
