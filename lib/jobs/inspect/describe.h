#pragma once

#include <string>
#include <string_view>

#include "dgx/jobs/inspect.h"

namespace dgx::jobs {

/// The field that says in words what the others do: not compared.
inline constexpr std::string_view kInWords = "in_words";

/// A 64-bit number in JSON: beyond 2^53 as a decimal string.
[[nodiscard]] json::Value json_number(std::int64_t number);

/// describe() for a bundle, a run and a text file.
[[nodiscard]] Result<Description> describe_bundle(const std::string& path, Recompute recompute, int threads);
[[nodiscard]] Result<Description> describe_run(const std::string& folder, Recompute recompute, int threads);
/// Describes anything that is text, and PROOF.states; `text` is the file's content.
[[nodiscard]] Result<Description> describe_text(const std::string& path, const std::string& text,
                                                Recompute recompute, const JobContext& context);

}  // namespace dgx::jobs
