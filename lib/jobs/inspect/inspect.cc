#include "dgx/jobs/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "dgx/core/text.h"
#include "dgx/ledger/ledger.h"
#include "dgx/manifest/file_kind.h"
#include "inspect/describe.h"

namespace dgx::jobs {
namespace {

using manifest::FileKind;

/// The kind of a file that is not text. A pipe's first bytes are not taken.
FileKind kind_by_start(const std::string& path) {
  if (path == "-") return FileKind::kOther;
  const auto start = read_start(path, manifest::kMagicBytes);
  return start.ok() ? manifest::recognise(*start).kind : FileKind::kOther;
}

/// Scalars indexed by their path, and the paths in the file's order.
struct Leaves {
  std::map<std::string, std::string> texts;
  std::vector<std::string> order;

  [[nodiscard]] std::optional<std::string> at(const std::string& path) const {
    const auto found = texts.find(path);
    return found == texts.end() ? std::nullopt : std::optional<std::string>(found->second);
  }
};

std::string text_of(const json::Output& value) {
  if (const std::string* text = value.as_string()) return *text;
  if (const double* number = value.as_float()) return decimal(*number);
  if (const auto hex = value.hex()) return *hex;
  return value.dump();
}

/// Adds every scalar of a JSON value: members as PATH.NAME, elements as PATH[INDEX].
void flatten(const std::string& path, const json::Output& value, Leaves& leaves) {
  if (const json::Output::Object* object = value.as_object()) {
    for (const auto& [key, item] : *object) flatten(path + "." + key, item, leaves);
  } else if (const json::Output::Array* array = value.as_array()) {
    for (std::size_t i = 0; i < array->size(); ++i)
      flatten(fmt::format("{}[{}]", path, i), (*array)[i], leaves);
  } else if (!value.is_null()) {
    leaves.texts.emplace(path, text_of(value));
    leaves.order.push_back(path);
  }
}

/// Appends the differences in one field: first a's paths in its order, then those only in b.
void compare_field(const std::string& name, const json::Output& a, const json::Output& b, Comparison& out) {
  Leaves ours;
  Leaves theirs;
  flatten(name, a, ours);
  flatten(name, b, theirs);
  for (const std::string& path : ours.order) {
    if (ours.at(path) != theirs.at(path)) out.differences.push_back({path, ours.at(path), theirs.at(path)});
  }
  for (const std::string& path : theirs.order) {
    if (!ours.at(path)) out.differences.push_back({path, std::nullopt, theirs.at(path)});
  }
}

const json::Output* field_of(const Description& description, const std::string& name) {
  const auto found = std::find_if(description.fields.begin(), description.fields.end(),
                                  [&](const Description::Field& field) { return field.name == name; });
  return found == description.fields.end() ? nullptr : &found->value;
}

}  // namespace

Result<Description> describe(const std::string& path, Recompute recompute, const JobContext& context) {
  if (path != "-" && std::filesystem::is_directory(path)) {
    if (is_notes(path)) return describe_notes(path);
    return describe_run(path, recompute, context.threads);
  }
  if (const program::ModelFile file = program::model_file(path); !file.program.empty())
    return describe_archive(file);
  const FileKind kind = kind_by_start(path);
  if (kind == FileKind::kHdf5) return describe_bundle(path, recompute, context.threads);
  if (kind == FileKind::kSafetensors || kind == FileKind::kNpz)
    return describe_model(path, kind, recompute, context.threads);
  if (kind == FileKind::kZip) return describe_archive({path, {}});
  DGX_TRY(const std::string text, read_file(path, ledger::kMaxLedgerBytes));
  return describe_text(path, text, recompute, context);
}

Result<Comparison> compare(const std::string& a, const std::string& b, const JobContext& context) {
  DGX_TRY(const Description ours, describe(a, Recompute::kNo, context));
  DGX_TRY(const Description theirs, describe(b, Recompute::kNo, context));
  if (ours.kind != theirs.kind)
    return malformed(fmt::format("{} is a {}, {} is a {}", a, ours.kind, b, theirs.kind));
  Comparison out{ours.kind, {}};
  const json::Output nothing{json::Output::Array()};
  for (const Description::Field& field : ours.fields) {
    if (field.name == "id" || field.name == kInWords) continue;
    const json::Output* other = field_of(theirs, field.name);
    compare_field(field.name, field.value, other != nullptr ? *other : nothing, out);
  }
  for (const Description::Field& field : theirs.fields) {
    if (field_of(ours, field.name) == nullptr) compare_field(field.name, nothing, field.value, out);
  }
  return out;
}

}  // namespace dgx::jobs
