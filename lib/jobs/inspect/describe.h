#pragma once

#include <string>
#include <string_view>

#include "dgx/jobs/inspect.h"
#include "dgx/manifest/file_kind.h"
#include "dgx/program/model_archive.h"

namespace dgx::jobs {

/// The field that says in words what the others do: not compared.
inline constexpr std::string_view kInWords = "in_words";

/// describe() for a bundle, a run and a text file.
[[nodiscard]] Result<Description> describe_bundle(const std::string& path, Recompute recompute, int threads);
[[nodiscard]] Result<Description> describe_run(const std::string& folder, Recompute recompute, int threads);
/// describe() for an archive of torch.export, which libtorch reads (task/torch_module.h).
[[nodiscard]] Result<Description> describe_archive(const program::ModelFile& file);
/// describe() for a model's numbers, kSafetensors or kNpz, and for the folder of a dispute's notes.
[[nodiscard]] Result<Description> describe_model(const std::string& path, manifest::FileKind kind,
                                                 Recompute recompute, int threads);
[[nodiscard]] Result<Description> describe_notes(const std::string& folder);
/// True if the folder has what only a folder of notes has: moves-….jsonl or segment-….
[[nodiscard]] bool is_notes(const std::string& folder);
/// Describes anything that is text, PROOF.states and resume.losses; `text` is the file's content.
[[nodiscard]] Result<Description> describe_text(const std::string& path, const std::string& text,
                                                Recompute recompute, const JobContext& context);

}  // namespace dgx::jobs
