#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/result.h"

namespace dgx::bundle {

inline constexpr std::size_t kMaxClasses = 65536;
/// Limit of class_text(): every name at its longest, quoted and escaped.
inline constexpr std::size_t kMaxClassTextBytes = kMaxClasses * 1028 + 2;

/// kMalformed unless these can be the names of classes: at most kMaxClasses, all different, each UTF-8
/// without control characters, of 1 to kMaxNameBytes bytes.
[[nodiscard]] Status check_classes(const std::vector<std::string>& names);

/// The names as a dataset bundle keeps them: canonical JSON, ["cat","dog"].
[[nodiscard]] std::string class_text(const std::vector<std::string>& names);
/// Accepts only what class_text() writes, of names that pass check_classes().
[[nodiscard]] Result<std::vector<std::string>> classes_from_text(std::string_view text);

}  // namespace dgx::bundle
