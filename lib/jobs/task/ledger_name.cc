#include "dgx/jobs/ledger_name.h"

#include <fmt/format.h>

#include <fstream>

#include "dgx/core/files.h"
#include "dgx/core/inputs.h"
#include "dgx/manifest/statement.h"

namespace dgx::jobs {
namespace {

using manifest::Body;
using manifest::Signed;

/// Reads only the first line: it identifies the ledger, which may have gigabytes.
Result<std::string> first_line(const std::string& path) {
  std::string text(manifest::kMaxEnvelopeBytes + 1, '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file) return errno_error(path, "open");
  note_input(path);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (file.bad()) return errno_error(path, "read");
  text.resize(std::min(text.find('\n'), text.size()));
  return text;
}

Result<LedgerName> name_in(const Signed<Body>& statement) {
  if (const auto* policy = std::get_if<manifest::LedgerPolicy>(&statement.body))
    return LedgerName{statement.id, policy->policy};
  if (const auto* receipt = std::get_if<manifest::Receipt>(&statement.body))
    return LedgerName{receipt->ledger, std::nullopt};
  if (const auto* head = std::get_if<manifest::TreeHead>(&statement.body))
    return LedgerName{head->ledger, std::nullopt};
  return malformed(fmt::format("is a {} statement, expected a ledger, a receipt or a tree head",
                               name_of(kind_of(statement.body))));
}

}  // namespace

Result<LedgerName> read_ledger_name(const std::string& name) {
  if (const auto id = digest_from_hex(name); id.ok()) return LedgerName{*id, std::nullopt};
  if (!exists(name)) {
    return Error{ErrorCode::kMissing, fmt::format("--ledger: {}: does not exist", name),
                 "give a ledger, a receipt or tree head of it, or the id that dgx-settle head prints"};
  }
  DGX_TRY(const std::string line, first_line(name));
  auto statement = manifest::open_any(line);
  if (!statement.ok()) return within("--ledger: " + name, std::move(statement).error());
  auto out = name_in(*statement);
  if (!out.ok()) return within("--ledger: " + name, std::move(out).error());
  return out;
}

}  // namespace dgx::jobs
