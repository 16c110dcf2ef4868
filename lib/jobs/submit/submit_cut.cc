#include "submit/submit_cut.h"

#include <fmt/format.h>

#include "dgx/core/checked.h"
#include "dgx/core/process_limits.h"

namespace dgx::jobs {

Result<program::CutText> parse_cut(const SubmitOptions& options,
                                   const std::optional<program::ModelSpec>& model) {
  auto text = program::parse_cut_spec(*options.cut);
  if (!text) return within("--cut", std::move(text).error());
  if (!model) return usage_error("--cut goes with a built-in model, not with a model file");
  if (Status fits = program::check_cut(text->spec, *model); !fits)
    return within("--cut", std::move(fits).error());
  return text;
}

Result<std::optional<program::CutSpec>> fixed_cut(const std::optional<program::CutText>& text,
                                                  const bundle::Dataset& data, std::int64_t batch,
                                                  std::int64_t steps) {
  if (!text) return std::optional<program::CutSpec>();
  if (data.find(program::kSampleNumbers) != nullptr)
    return usage_error(fmt::format("--cut: the data have a field {}, the name of the samples' numbers",
                                   program::kSampleNumbers));
  program::CutSpec out = text->spec;
  if (!text->has_first) out.first = ceil_div(data.samples(), batch);
  if (out.first < steps) return std::optional(out);
  return usage_error(
      fmt::format("--cut: first={} leaves none of {} steps to send few bits in", out.first, steps),
      text->has_first ? "" : "each sample is sent as it is once; first=0 begins at once");
}

Status check_state_fits(const program::Cost& cost) {
  const std::int64_t limit = memory_limit();
  if (cost.state_bytes <= limit) return {};
  return usage_error(
      fmt::format("a state of this task has {} bytes, the memory here {}", cost.state_bytes, limit));
}

}  // namespace dgx::jobs
