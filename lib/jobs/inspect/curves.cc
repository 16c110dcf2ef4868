#include "inspect/curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "dgx/bundle/run.h"

namespace dgx::jobs {
namespace {

/// Adds the losses that the index commits to, for a run without a log.
Status add_committed_losses(const std::string& run, StepCurve& curve) {
  DGX_TRY(const bundle::RunReader reader, bundle::RunReader::open(run));
  auto step = static_cast<double>(reader.index().checkpoints.front().step);
  for (const float loss : reader.index().losses) curve.add(++step, static_cast<double>(loss));
  return {};
}

}  // namespace

void StepCurve::add(double step, double value) {
  if (!std::isfinite(value)) return;
  steps.push_back(step);
  values.push_back(value);
}

Result<RunCurves> read_curves(const std::string& run) {
  RunCurves curves;
  const auto into = [](StepCurve& curve) {
    return [&curve](LogRow row) { return curve.add(row[kStepColumn], row[kLossColumn]), true; };
  };
  DGX_CHECK(read_log(run, kTrainingFormat, into(curves.loss)));
  if (curves.loss.empty()) DGX_CHECK(add_committed_losses(run, curves.loss));
  if (curves.loss.empty())
    return Error{ErrorCode::kMissing, run + ": has no step yet, so there is nothing to draw", {}};
  DGX_CHECK(read_log(run, kValidationFormat, [&](LogRow row) {
    curves.best.take(row);
    return into(curves.validation)(row);
  }));
  return curves;
}

std::vector<Bin> binned(const StepCurve& curve, const Axis& axis, std::size_t columns) {
  std::vector<Bin> out;
  std::size_t count = 0;  // numbers in the last bin; until it is complete, its mean holds their sum
  const auto complete = [&] {
    // Sums of the largest numbers overflow.
    if (!out.empty())
      out.back().mean =
          std::clamp(out.back().mean / static_cast<double>(count), out.back().low, out.back().high);
    count = 0;
  };
  for (std::size_t i = 0; i < curve.steps.size(); ++i) {
    const double value = curve.values[i];
    const auto column =
        static_cast<std::size_t>(std::lround(axis.place(curve.steps[i]) * static_cast<double>(columns - 1)));
    if (out.empty() || out.back().column != column) {
      complete();
      out.push_back({value, 0, value, column});
    }
    Bin& bin = out.back();
    bin = {std::min(bin.low, value), bin.mean + value, std::max(bin.high, value), column};
    ++count;
  }
  complete();
  return out;
}

Axis step_axis(const RunCurves& curves, int ticks) {
  double last = curves.loss.steps.back();
  if (!curves.validation.empty()) last = std::max(last, curves.validation.steps.back());
  return linear_axis(0, last, ticks);
}

std::string last_numbers(const RunCurves& curves) {
  std::string text =
      fmt::format("after step {:.0f}: loss {:.4g}", curves.loss.steps.back(), curves.loss.values.back());
  if (curves.validation.empty()) return text;
  text += fmt::format(", validation {:.4g} after step {:.0f}", curves.validation.values.back(),
                      curves.validation.steps.back());
  return text + fmt::format(", lowest {:.4g} after step {}", curves.best.loss, curves.best.step);
}

}  // namespace dgx::jobs
