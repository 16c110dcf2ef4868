#include "dgx/manifest/entry_opening.h"

#include "dgx/manifest/dispute.h"
#include "dgx/manifest/fields.h"

namespace dgx::manifest {

json::Value entry_json(const merkle::EntryOpening& entry) {
  return json::Object{{"count", static_cast<std::int64_t>(entry.count)},
                      {"digest", entry.tensor.hex()},
                      {"index", static_cast<std::int64_t>(entry.index)},
                      {"name", entry.name},
                      {"path", digests_json(entry.path)}};
}

merkle::EntryOpening read_entry(json::Fields& in) {
  merkle::EntryOpening out;
  out.name = read_name(in, "name", kMaxOpenedName);
  out.tensor = read_digest(in, "digest");
  out.index = static_cast<std::uint64_t>(in.integer("index", 0, kMaxInteger));
  out.count = static_cast<std::uint64_t>(in.integer("count", 0, kMaxInteger));
  out.path = read_digests(in, "path", kMaxPath);
  return out;
}

}  // namespace dgx::manifest
