#include "dgx/manifest/opening.h"

#include <algorithm>

#include "dgx/manifest/fields.h"

namespace dgx::manifest {
namespace {

bool is_part(std::string_view part) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return !part.empty() && part != "." && part != ".." && std::all_of(part.begin(), part.end(), allowed);
}

}  // namespace

bool is_place(std::string_view text) {
  if (text.size() > kMaxPlace) return false;
  while (true) {
    const std::size_t end = std::min(text.find('/'), text.size());
    if (!is_part(text.substr(0, end))) return false;
    if (end == text.size()) return true;
    text.remove_prefix(end + 1);
  }
}

bool is_location(std::string_view text) { return text.size() <= kMaxLocation && is_place(text); }

std::string read_location(json::Fields& in, std::string_view key) {
  std::string out = in.string(key, kMaxLocation);
  if (!is_location(out))
    in.fail(key, "is not a path below a folder: use parts of letters, digits, '.', '_' and '-' between '/'");
  return out;
}

json::Object Opening::predicate() const {
  return {{"task", task.hex()}, {"proof", proof.hex()}, {"after", after.hex()}, {"location", location}};
}

Opening Opening::read(json::Fields& in) {
  Opening out;
  out.task = read_digest(in, "task");
  out.proof = read_digest(in, "proof");
  out.after = read_digest(in, "after");
  out.location = read_location(in, "location");
  return out;
}

std::vector<Subject> Opening::subjects() const { return {{"proof", proof}, {"after", after}}; }

}  // namespace dgx::manifest
