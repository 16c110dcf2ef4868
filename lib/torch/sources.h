#pragma once

#include <cstddef>
#include <vector>

#include "archive.h"
#include "dgx/core/result.h"
#include "dgx/lowering/exported.h"

namespace dgx::torch_bridge {

/// A parameter, buffer or constant of a program, and its place in the archive.
struct Source {
  const lowering::ExportedInput* input = nullptr;
  Archive::Stored place;
  std::size_t first = 0;  ///< the number of the first source with this place: its own, unless it is tied

  [[nodiscard]] bool is_trained() const {
    return input->kind == lowering::ExportedInput::Kind::kParameter && place.requires_grad;
  }
  [[nodiscard]] bool may_change() const {
    return is_trained() || input->kind == lowering::ExportedInput::Kind::kBuffer;
  }
};

/// The sources of a program in order. kUsage if a change of one would change only a part of another, only one
/// of two names of a tensor is trained, or a member holds more than 4096: in the program each is a tensor of
/// its own. kMalformed if they would have more than Archive::kMaxRepeatedBytes beside those of their members.
/// Reads no numbers.
[[nodiscard]] Result<std::vector<Source>> sources_of(const Archive& archive);

}  // namespace dgx::torch_bridge
