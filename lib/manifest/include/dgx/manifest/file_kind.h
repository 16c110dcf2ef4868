#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "dgx/manifest/subject.h"

namespace dgx::manifest {

/// The kinds of file that dgx writes and people mistake for one another.
enum class FileKind {
  kStatement,
  kStatements,  ///< several, one a line: a transcript, a ledger, or a file of receipts
  kProgram,
  kShard,
  kRows,
  kPolicy,  ///< unsigned
  kPublicKey,
  kPrivateKey,
  kHdf5,
  kSafetensors,
  kNpz,
  kZip,     ///< any other: of models, an archive of torch.export or a TorchScript file
  kOnnx,    ///< a model of ONNX
  kPickle,  ///< what torch.save once wrote, or any other
  kOther,
};

/// A file's kind by its content. Nothing is checked: a file of this kind may be damaged, forged or hostile.
struct Recognised {
  FileKind kind = FileKind::kOther;
  /// For a single statement: the kind that it claims to be; nullopt if that is none of ours.
  std::optional<Kind> statement = {};

  /// "a task statement", "a policy", "a step program"; "a file of another kind" for kOther.
  [[nodiscard]] std::string words() const;
};

/// The most bytes from a file's start by which the kinds that are not text are told: kHdf5, kSafetensors,
/// kNpz, kZip, kOnnx and kPickle. An archive whose first member has a longer name is kZip.
inline constexpr std::size_t kMagicBytes = 512;

/// Tells a file's kind by its content, of which the first line is enough; for a policy, all is needed.
[[nodiscard]] Recognised recognise(std::string_view content);

/// "a task", "an offer-end".
[[nodiscard]] std::string with_article(std::string_view noun);

}  // namespace dgx::manifest
