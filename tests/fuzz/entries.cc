// The entries that a model file states, dgx-inspect(1), "export": what is accepted is printed again as it
// was, and leads to a state.

#include "target.h"
#include "verify/stated_entries.h"

using namespace dgx;

std::vector<std::string> fuzz::seeds() {
  const std::string digest(64, 'a');
  return {"{}", R"({"loss":["f32",[],")" + digest + R"("],"model/0.bias":["i64",[2,3],")" + digest + "\"]}",
          R"({"step":["u8",[0],")" + digest + "\"]}"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  const auto entries = jobs::parse_entries(text);
  if (!entries.ok()) return 0;
  fuzz::require(jobs::print_entries(*entries) == text, "entries are printed as they were");
  const bool has_no_name = !entries->empty() && entries->front().name.empty();
  fuzz::require(jobs::state_of(*entries).ok() != has_no_name, "named entries are a state");
  return 0;
}
