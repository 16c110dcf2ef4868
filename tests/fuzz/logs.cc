// The tables of a run's folder, which is not always one's own, and the plots that are made of them.

#include "train/log_rows.h"

#include <cmath>

#include "inspect/curves.h"
#include "target.h"

using namespace dgx;
using namespace dgx::jobs;

std::vector<std::string> fuzz::seeds() {
  const std::string training(kTrainingFormat.header);
  const std::string validation(kValidationFormat.header);
  return {training + "\n1,0.5,2.25,0.1,,0.001,1000\n2,1,2,0.1,3.5,0.002,1000\n3,1.5,1e-3,0.1,,,\n",
          validation + "\n10,1,2.5,0.5,,,1\n20,2,2,0.25,,,2\n30,3,nan,,inf,,\n",
          training + "\n1,0,1e308,0,,,\n9007199254740992,0,-1e308,0,,,\n4", training};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  for (const LogFormat& format : {kTrainingFormat, kValidationFormat}) {
    RunCurves curves;
    double last = 0;
    const auto bytes = read_log_rows(text, format, [&](LogRow row) {
      fuzz::require(row[kStepColumn] > last, "steps ascend");
      last = row[kStepColumn];
      curves.loss.add(last, row[kLossColumn]);
      curves.best.take(row);
      return true;
    });
    if (!bytes.ok()) continue;
    fuzz::require(*bytes <= size && (*bytes == 0 || text[*bytes - 1] == '\n'), "what is kept is whole lines");
    const auto again = read_log_rows(text.substr(0, *bytes), format, [](LogRow) { return true; });
    fuzz::require(again.ok() && *again == *bytes, "what is kept is accepted");
    if (curves.loss.empty()) continue;
    if (curves.best.step > 0) curves.validation = curves.loss;
    for (const bool braille : {false, true})
      fuzz::require(!plot_text(curves, 60, braille).empty(), "rows can be drawn");
    fuzz::require(plot_svg(curves).find("=\"nan") == std::string::npos, "an SVG has places only");
  }
  return 0;
}
