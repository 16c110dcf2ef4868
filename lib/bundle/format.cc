#include "dgx/bundle/format.h"

#include <fmt/format.h>

#include <array>

#include "container.h"

namespace dgx::bundle {
namespace {

constexpr std::array kKinds{Kind::kDataset, Kind::kState, Kind::kRun, Kind::kSample, Kind::kTrace};

}  // namespace

Result<Kind> kind_in(const Object& root) {
  const auto name = text_of(root, "dgx");
  if (!name.ok()) return malformed("is an HDF5 file, but not a dgx bundle");
  DGX_TRY(const std::int64_t version, integer_of(root, "version"));
  if (version != kVersion) {
    return malformed(fmt::format("has format version {}, this program reads {}", version, kVersion),
                     version == 1 ? "dgx 0.1 reads version 1; pack or train again for this one" : "");
  }
  for (const Kind kind : kKinds) {
    if (*name == name_of(kind)) return kind;
  }
  return malformed(fmt::format("is a bundle of unknown kind \"{}\"", *name));
}

std::string_view name_of(Kind kind) {
  constexpr std::array<std::string_view, kKinds.size()> kNames{"dataset", "state", "run", "sample", "trace"};
  return kNames[static_cast<std::size_t>(kind)];
}

Result<Kind> kind_of(const std::string& path) {
  auto kind = [&]() -> Result<Kind> {
    DGX_TRY(const InputFile file, InputFile::open(path));
    DGX_TRY(const Object root, read_root(file));
    return kind_in(root);
  }();
  if (!kind.ok()) return within(path, std::move(kind).error());
  return kind;
}

}  // namespace dgx::bundle
