// The messages of a dispute's moves: an accepted object prints to itself.

#include "dgx/protocol/message.h"

#include "played.h"
#include "target.h"

using namespace dgx;

std::vector<std::string> fuzz::seeds() {
  std::vector<std::string> out;
  for (const test::Example& example : test::examples()) {
    for (const auto& move : example.moves) out.push_back(json::Value(move.body.say).dump());
  }
  return out;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto value = json::parse_canonical(fuzz::text_of(data, size));
  if (!value.ok() || value->as_object() == nullptr) return 0;
  const auto message = protocol::parse_message(*value->as_object());
  if (!message.ok()) return 0;
  fuzz::require(protocol::print_message(*message) == *value->as_object(),
                "an accepted message prints to itself");
  return 0;
}
