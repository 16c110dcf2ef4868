#include "settle/read_ledger.h"

#include <fmt/format.h>

#include <filesystem>

#include "dgx/core/json.h"
#include "dgx/manifest/fields.h"
#include "task/work_keys.h"

namespace dgx::jobs {
namespace {

using ledger::CheckedPrefix;

/// Entries that take so little time to check that remembering them saves nothing.
constexpr std::uint64_t kFewEntries = 1'000;
constexpr std::string_view kKind = "checked-ledger";
constexpr std::size_t kMaxFileBytes = 4096;
constexpr unsigned kOwnerOnly = 0600;

void note(const LedgerFile& file, const std::string& text) {
  if (file.progress != nullptr) file.progress->note(text);
}

/// The file in which this user's checked prefix of a ledger is remembered; nullopt if they have no home.
std::optional<std::string> place_of(const Digest& ledger) {
  auto out = state_folder();
  if (out) *out += fmt::format("/ledgers/{}", ledger.hex());
  return out;
}

json::Object to_json(const CheckedPrefix& prefix, const Digest& ledger) {
  return {{"count", static_cast<std::int64_t>(prefix.count)},
          {"kind", kKind},
          {"ledger", ledger.hex()},
          {"ledger_bytes", static_cast<std::int64_t>(prefix.ledger_bytes)},
          {"ledger_sha256", prefix.ledger_sha256.hex()},
          {"receipt_bytes", static_cast<std::int64_t>(prefix.receipt_bytes)},
          {"receipts_sha256", prefix.receipts_sha256.hex()},
          {"root", prefix.root.hex()}};
}

Result<CheckedPrefix> from_json(std::string_view line, const Digest& ledger) {
  constexpr auto kMost = static_cast<std::int64_t>(ledger::kMaxLedgerBytes);
  DGX_TRY(const json::Value value, json::parse_canonical(line, {.bytes = kMaxFileBytes, .depth = 1}));
  json::Fields in(value, "");
  CheckedPrefix out;
  out.count = static_cast<std::uint64_t>(in.integer("count", 1, kMost));
  if (in.string("kind") != kKind) in.fail("kind", "is another");
  if (manifest::read_digest(in, "ledger") != ledger) in.fail("ledger", "is another");
  out.ledger_bytes = static_cast<std::uint64_t>(in.integer("ledger_bytes", 1, kMost));
  out.ledger_sha256 = manifest::read_digest(in, "ledger_sha256");
  out.receipt_bytes = static_cast<std::uint64_t>(in.integer("receipt_bytes", 1, kMost));
  out.receipts_sha256 = manifest::read_digest(in, "receipts_sha256");
  out.root = manifest::read_digest(in, "root");
  DGX_CHECK(in.finish());
  return out;
}

/// The id that a ledger gives itself; nullopt if it has no first line.
std::optional<Digest> id_at(const std::string& path) {
  const auto text = read_start(path, manifest::kMaxEnvelopeBytes + 1);
  if (!text.ok() || text->find('\n') == std::string::npos) return std::nullopt;
  const auto id = manifest::id_in(text->substr(0, text->find('\n')));
  return id.ok() ? std::optional(*id) : std::nullopt;
}

Result<WorkKeys> state_keys() {
  Progress silent;
  return WorkKeys::find(nullptr, std::nullopt, silent);
}

/// The checked prefix in the user's state folder, if it was written there.
Result<std::optional<CheckedPrefix>> remembered(const std::string& place, const Digest& ledger) {
  const auto text = read_file(place, kMaxFileBytes);
  if (!text.ok() && text.error().code == ErrorCode::kMissing) return std::optional<CheckedPrefix>();
  if (!text.ok()) return text.error();
  DGX_TRY(const WorkKeys keys, state_keys());
  DGX_TRY(const std::string_view line, keys.open(*text));
  DGX_TRY(const CheckedPrefix out, from_json(line, ledger));
  return std::optional(out);
}

/// Writes what was checked. Nothing depends on it, so what cannot be written is not.
Status write_remembered(const std::string& place, const CheckedPrefix& prefix, const Digest& ledger) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(place).parent_path(), error);
  if (error) return Error{ErrorCode::kCannotCreate, place + ": " + error.message(), {}};
  DGX_TRY(const WorkKeys keys, state_keys());
  const std::string line = json::Value(to_json(prefix, ledger)).dump();
  return write_file(place, keys.seal(line), Clobber::kReplace, kOwnerOnly);
}

/// The way to read this ledger: with its threads, and with what was checked of it before.
ledger::Reading reading_of(const LedgerFile& file, ledger::Visit visit) {
  ledger::Reading out{file.threads, {}, std::move(visit)};
  const auto id = id_at(file.path);
  const auto place = id ? place_of(*id) : std::nullopt;
  if (!place) return out;
  auto prefix = remembered(*place, *id);
  if (prefix.ok()) {
    out.checked = *prefix;
  } else {
    note(file, fmt::format("{}: cannot be believed, so the whole ledger is checked: {}", *place,
                           prefix.error().message));
  }
  return out;
}

/// Remembers what has been read; says so if the ledger is not what was remembered.
void remember(const LedgerFile& file, const ledger::Reading& reading, const ledger::Log& log) {
  if (log.unlike_before)
    note(file, file.path + ": does not begin as when it was last read, so the whole ledger was checked");
  const std::uint64_t before = reading.checked && !log.unlike_before ? reading.checked->count : 0;
  if (log.checked.count < before + kFewEntries) return;
  if (const auto place = place_of(log.id()))
    static_cast<void>(write_remembered(*place, log.checked, log.id()));
}

}  // namespace

Result<ledger::Log> read_ledger(const LedgerFile& file, ledger::Visit visit) {
  const ledger::Reading reading = reading_of(file, std::move(visit));
  DGX_TRY(ledger::Log out, ledger::read(file.path, reading));
  remember(file, reading, out);
  return out;
}

Result<ledger::Writer> open_writer(const LedgerWriter& options, crypto::SecretKey key, ledger::Visit visit) {
  const LedgerFile& file = options.file;
  const ledger::Reading reading = reading_of(file, std::move(visit));
  DGX_TRY(ledger::Writer out,
          ledger::Writer::open(file.path, std::move(key), options.most_bytes, options.wait, reading));
  remember(file, reading, out.log());
  if (out.index_was_wrong())
    note(file, ledger::index_path(file.path) + ": was not the ledger's, and is made again");
  return out;
}

LedgerFile ledger_file(const std::string& path, const JobContext& context) {
  return {path, context.trust, context.threads, &context.progress};
}

}  // namespace dgx::jobs
