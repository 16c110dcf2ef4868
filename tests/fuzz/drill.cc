// Drills and lists that users type.

#include "dgx/jobs/drill.h"

#include "dgx/bundle/run.h"
#include "target.h"

using namespace dgx;

std::vector<std::string> fuzz::seeds() {
  return {"step=3,op=12,element=0,bit=31",
          "step=3,op=12,element=0,bit=31,position=9",
          "step=3,rank=1,carry=12,element=0,bit=31",
          "step=3,rank=1,gather=12,element=0,bit=31",
          "step=3,rank=1,broadcast=12,element=0,bit=31",
          "segment=4,lazy",
          "lazy,segment=0",
          "every:5",
          "all",
          "last"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  if (const auto drill = jobs::parse_drill(text); drill.ok()) {
    const bool fault = drill->step >= 0 && drill->fault.value >= kernels::ValueIndex{} &&
                       drill->fault.element >= 0 && drill->fault.bit >= 0 && drill->fault.bit < 64;
    fuzz::require(drill->lazy() ? *drill->segment >= 0 : fault, "an accepted drill is in range");
    if (!drill->lazy()) {
      const auto again = jobs::parse_drill(jobs::print_drill(*drill));
      fuzz::require(again.ok() && again->step == drill->step &&
                        again->fault.position == drill->fault.position &&
                        jobs::print_drill(*again) == jobs::print_drill(*drill),
                    "a fault that is printed is read again");
    }
  }
  if (const auto keep = bundle::parse_keep(text); keep.ok()) {
    fuzz::require(keep->every >= 1 && keep->keeps(0, 10) && keep->keeps(10, 10),
                  "the ends of a run always stay");
  }
  return 0;
}
