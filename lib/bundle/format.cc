#include "dgx/bundle/format.h"

#include <fmt/format.h>

#include <array>

#include "h5.h"

namespace dgx::bundle {
namespace {

constexpr std::array kKinds{Kind::kDataset, Kind::kState, Kind::kRun, Kind::kSample, Kind::kTrace};

Result<Kind> kind_in(const h5::Handle& root) {
  const auto name = h5::get_text(root, "dgx");
  if (!name.ok()) return malformed("is an HDF5 file, but no bundle of dgx");
  DGX_TRY(const std::int64_t version, h5::get_integer(root, "version"));
  if (version != kVersion) {
    return malformed(fmt::format("has format version {}, this program reads {}", version, kVersion));
  }
  for (const Kind kind : kKinds) {
    if (*name == name_of(kind)) return kind;
  }
  return malformed(fmt::format("is a bundle of unknown kind \"{}\"", *name));
}

}  // namespace

std::string_view name_of(Kind kind) {
  constexpr std::array<std::string_view, kKinds.size()> kNames{"dataset", "state", "run", "sample", "trace"};
  return kNames[static_cast<std::size_t>(kind)];
}

Result<Kind> kind_of(const std::string& path) {
  const auto file = h5::open_file(path, h5::Origin::kBundle);
  if (!file.ok()) return within(path, file.error());
  const auto root = h5::open_group(*file, "/");
  if (!root.ok()) return within(path, root.error());
  auto kind = kind_in(*root);
  if (!kind.ok()) return within(path, std::move(kind).error());
  return kind;
}

}  // namespace dgx::bundle
