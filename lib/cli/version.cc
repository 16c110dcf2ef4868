#include "version.h"

#include <string_view>

#include "dgx/core/version.h"

namespace dgx::cli {
namespace {

/// The version of what programs print with --json, dgx(7), JSON. It changes when a field changes its type or
/// its name.
constexpr int kJsonVersion = 2;

/// The version of every format this release reads and writes, by the page that defines it.
json::Object formats() {
  return {{"dgx-bundle", 2}, {"dgx-ledger", 2}, {"dgx-manifest", 2}, {"dgx-numerics", 1}, {"dgx-program", 1}};
}

json::Object libraries() {
  json::Object out;
  for (std::string_view rest = kLinkedLibraries; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    const std::size_t space = line.find(' ');
    out.insert_or_assign(std::string(line.substr(0, space)), line.substr(space + 1));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return out;
}

}  // namespace

void print_version(Out& out) {
  out.field("version", dgx::version());
  out.field("json", kJsonVersion);
  out.field("formats", json::Value(formats()));
  out.field("libraries", json::Value(libraries()));
}

}  // namespace dgx::cli
