#include "dgx/protocol/game_state.h"

#include "dgx/merkle/digests.h"

namespace dgx::protocol {

std::string_view name_of(Side side) { return side == Side::kDefender ? "defender" : "challenger"; }

const Due& due_of(const Stage& stage) {
  return std::visit([](const auto& at) -> const Due& { return at.kDue; }, stage);
}

std::int64_t ChooseElement::count() const {
  return static_cast<std::int64_t>(bytes.size() / size_of(value.line.dtype));
}

std::int64_t ChooseElement::element_at(std::int64_t index) const {
  return leaf * static_cast<std::int64_t>(merkle::kTensorLeafBytes / size_of(value.line.dtype)) + index;
}

const NamedValue* GameState::value() const {
  return std::visit(
      [](const auto& at) -> const NamedValue* {
        if constexpr (requires { at.value; }) {
          return &at.value;
        } else {
          return nullptr;
        }
      },
      stage);
}

}  // namespace dgx::protocol
