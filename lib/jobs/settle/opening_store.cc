#include "settle/opening_store.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "dgx/bundle/state.h"
#include "dgx/core/file_system.h"
#include "dgx/crypto/random.h"
#include "dgx/manifest/opening.h"
#include "dgx/merkle/digests.h"
#include "dgx/protocol/estimate.h"
#include "dgx/protocol/message.h"
#include "verify/opening.h"

namespace dgx::jobs {
namespace {

using manifest::Body;
using manifest::Signed;
using protocol::TaskRecord;

constexpr std::string_view kDelivered = "state.h5";
constexpr std::string_view kChunk = "chunk";
constexpr std::string_view kPart = ".part-";  // prefix of a folder into which a process fetches

/// The answer to a demand for a chunk; nullopt for any other statement.
std::optional<protocol::ChunkPost> chunk_of(const Body& body) {
  const auto* move = std::get_if<manifest::Move>(&body);
  if (move == nullptr) return std::nullopt;
  auto say = protocol::parse_message(move->say);
  auto* post = say.ok() ? std::get_if<protocol::ChunkPost>(&*say) : nullptr;
  if (post == nullptr) return std::nullopt;
  return std::move(*post);
}

std::string states_of(const manifest::Opening& opening) {
  return fmt::format("{}/{}", opening.location, kOpenedStates);
}

std::string sample_of(const manifest::Opening& opening) {
  return fmt::format("{}/{}", opening.location, kOpenedSample);
}

/// Copies and checks the files that one statement names into `folder`, which is new.
///
/// The statement is judged first, as far as that needs no files: nobody can make the operator copy what the
/// ledger would refuse. The market is that of a moment ago, so the rules decide again when the statement is
/// logged. What is cheap to check is copied and checked before what is large: an opening's digests, which
/// must give the proof's root, before its states.
///
/// Only the copy is checked: the original belongs to a stranger, who may change it at any moment. Its length
/// is limited by the task's numbers, so that a store has room for every opening.
class Fetch {
 public:
  Fetch(const FetchFrom& from, const LedgerView& view, const Signed<Body>& statement, std::string folder)
      : store_{*from.store},
        view_(view),
        statement_(statement),
        folder_(std::move(folder)),
        most_bytes_(from.most_bytes),
        threads_(from.threads) {}

  Status operator()(const manifest::Opening& opening) const {
    DGX_TRY(const TaskRecord* const record, proved(opening.task, opening.proof));
    DGX_CHECK(by_solver(*record));
    if (record->opening) return not_allowed("the proof is already opened");
    if (opening.after != protocol::opening_duty(*record)->after)
      return malformed("after: is not the statement that the opening answers");
    DGX_TRY(const std::int64_t cap, protocol::opening_bytes(record->task.body));
    const std::int64_t states = record->proof->body.states.count * 32;
    DGX_CHECK(copy(states_of(opening), kOpenedStates, states));
    DGX_TRY([[maybe_unused]] const auto committed,
            read_states(fmt::format("{}/{}", folder_, kOpenedStates), record->proof->body));
    DGX_CHECK(copy(sample_of(opening), kOpenedSample, cap - states));
    DGX_TRY(const auto draw, draw_of(*record));
    return check_opening(folder_, record->task, *record->proof, draw, threads_);
  }

  Status operator()(const manifest::Delivery& delivery) const {
    DGX_TRY(const TaskRecord* const record, proved(delivery.task, delivery.proof));
    DGX_CHECK(by_solver(*record));
    if (record->delivered) return not_allowed("the final state is already delivered");
    DGX_TRY(const std::int64_t cap, protocol::opening_bytes(record->task.body));
    DGX_CHECK(copy(*delivery.location, kDelivered, cap));
    const std::string path = fmt::format("{}/{}", folder_, kDelivered);
    DGX_TRY(const auto stored, bundle::read_state(path, bundle::Check::kDigests, {threads_}));
    if (stored.digests.state == record->proof->body.final_state) return {};
    return malformed(path + ": is not the proof's final state");
  }

  Status operator()(const manifest::Move& move) const {
    DGX_TRY(const TaskRecord* const record, task(move.task));
    const auto game = std::find_if(record->games.begin(), record->games.end(),
                                   [&](const auto& one) { return one.id() == move.game; });
    if (game == record->games.end()) return not_allowed("the game is not in the ledger");
    if (!game->game.stage<protocol::ShowChunk>()) return not_allowed("no chunk is demanded");
    if (statement_.key_id != game->game.dispute().defender())
      return unauthorised("it is the defender's turn");
    const protocol::ChunkPost post = *chunk_of(statement_.body);
    DGX_CHECK(copy(post.location, kChunk, merkle::kTensorPartBytes));
    const std::string path = fmt::format("{}/{}", folder_, kChunk);
    DGX_TRY(const std::string bytes, read_file(path, merkle::kTensorPartBytes));
    if (!bytes.empty() && merkle::tensor_part_root(as_bytes(bytes), 0) == post.root) return {};
    return malformed(path + ": does not have the part's root");
  }

  template <class T>
  Status operator()(const T&) const {
    return {};
  }

 private:
  [[nodiscard]] Result<const TaskRecord*> task(const Digest& id) const {
    const auto found = view_.market.tasks().find(id);
    if (found == view_.market.tasks().end()) return not_allowed("the task is not in the ledger");
    if (found->second.settlement) return not_allowed("the task is settled");
    return &found->second;
  }

  /// The task's record, if its proof is this one.
  [[nodiscard]] Result<const TaskRecord*> proved(const Digest& id, const Digest& proof) const {
    DGX_TRY(const TaskRecord* const record, task(id));
    if (record->proof && record->proof->id == proof) return record;
    return not_allowed("the proof is not in the ledger");
  }

  [[nodiscard]] Status by_solver(const TaskRecord& record) const {
    if (record.solver == statement_.key_id) return {};
    return unauthorised("is not signed by the task's solver");
  }

  /// The segments that the opening has to show: after a beacon or round its draw, else that of the proof's
  /// receipt, whose root is that of all entries up to the proof.
  [[nodiscard]] Result<protocol::OpeningDraw> draw_of(const TaskRecord& record) const {
    if (const auto source = protocol::source_of(record))
      return protocol::drawn_after_source(record.task, *record.proof, *source);
    const auto at = view_.log.find(record.proof->id);
    if (!at) return internal_error("the proof has no receipt");
    return protocol::drawn_after_proof(record.task, *record.proof, view_.log.head(*at + 1).root);
  }

  [[nodiscard]] Status copy(const std::string& location, std::string_view name, std::int64_t cap) const {
    return store_.copy(statement_.key_id, location, fmt::format("{}/{}", folder_, name),
                       std::min(cap, most_bytes_));
  }

  Store store_;
  const LedgerView& view_;
  const Signed<Body>& statement_;
  std::string folder_;
  std::int64_t most_bytes_;
  int threads_;
};

/// The places of a statement's files; empty if it has none.
std::vector<std::string> places_of(const Body& body) {
  if (const auto* opening = std::get_if<manifest::Opening>(&body))
    return {states_of(*opening), sample_of(*opening)};
  const auto* delivery = std::get_if<manifest::Delivery>(&body);
  if (delivery != nullptr && delivery->location) return {*delivery->location};
  if (const auto post = chunk_of(body)) return {post->location};
  return {};
}

std::string lock_of(const std::string& part) { return part + "/.lock"; }

void remove_all(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

std::string folder_beside(const std::string& ledger) {
  constexpr std::string_view kLines = ".jsonl";
  const std::size_t cut = ledger.ends_with(kLines) ? kLines.size() : 0;
  return ledger.substr(0, ledger.size() - cut) + ".openings";
}

}  // namespace

FetchedFiles::FetchedFiles(FetchedFiles&& other) noexcept
    : folder_(std::exchange(other.folder_, std::string())), lock_(std::move(other.lock_)) {}

FetchedFiles::~FetchedFiles() {
  if (!folder_.empty()) remove_all(folder_);
}

std::string FetchedFiles::files() const { return folder_ + "/files"; }

bool needs_fetch(const Body& body) { return !places_of(body).empty(); }

std::optional<std::int64_t> bytes_in_store(const std::string& store, const Signed<Body>& statement) {
  std::int64_t out = 0;
  for (const std::string& place : places_of(statement.body)) {
    const auto size = Store{store}.size(statement.key_id, place);
    if (!size || *size > manifest::kMaxInteger) return std::nullopt;
    out += *size;
  }
  return out;
}

Parted part(std::vector<std::vector<Result<Incoming>>> files) {
  Parted out;
  std::map<Digest, std::size_t> waiting;  // task, and its index in `later`
  for (std::vector<Result<Incoming>>& file : files) {
    out.now.emplace_back();
    for (Result<Incoming>& item : file) {
      const auto task = item.ok() ? manifest::task_of(item->statement.body) : std::nullopt;
      auto at = task ? waiting.find(*task) : waiting.end();
      if (at == waiting.end() && task && needs_fetch(item->statement.body)) {
        at = waiting.emplace(*task, out.later.size()).first;
        out.later.emplace_back();
      }
      if (at == waiting.end()) {
        out.now.back().push_back(std::move(item));
      } else {
        out.later[at->second].push_back(std::move(item).value());
      }
    }
  }
  return out;
}

OpeningStore::OpeningStore(const std::string& ledger) : folder_(folder_beside(ledger)) {}

std::string OpeningStore::folder_of(const Digest& task, const Digest& statement) const {
  return fmt::format("{}/{}/{}", folder_, task.hex(), statement.hex());
}

Result<FetchedFiles> OpeningStore::fetch(const FetchFrom& from, const LedgerView& view,
                                         const Signed<Body>& statement) const {
  const Digest task = *manifest::task_of(statement.body);
  if (exists(folder_of(task, statement.id))) return FetchedFiles({});
  if (!from.store)
    return usage_error("names files that the operator must fetch",
                       "name the store in which participants put them: --store DIR");
  DGX_CHECK(make_folder(folder_));
  remove_unused_parts();
  DGX_TRY(FetchedFiles out, make_part());
  DGX_CHECK(make_folder(out.files()));
  DGX_CHECK(std::visit(Fetch(from, view, statement, out.files()), statement.body));
  DGX_CHECK(sync_folder(out.files()));
  return out;
}

/// Retries: between its two calls another process may take the new folder for a dead process's and remove it.
Result<FetchedFiles> OpeningStore::make_part() const {
  constexpr int kAttempts = 100;
  for (int attempt = 1;; ++attempt) {
    Digest word;
    DGX_CHECK(crypto::random_bytes(word.bytes));
    std::string part = fmt::format("{}/{}{}", folder_, kPart, word.brief());
    DGX_CHECK(make_folder(part));
    auto lock = FileLock::acquire_file(lock_of(part));
    if (lock.ok() && exists(lock_of(part))) return FetchedFiles(std::move(part), std::move(lock).value());
    if (attempt == kAttempts)
      return lock.ok() ? internal_error(part + ": has disappeared") : std::move(lock).error();
  }
}

/// Removes the folders of killed processes, whose locks are free. Renames each first, so that no process
/// begins to work in one that is half removed.
void OpeningStore::remove_unused_parts() const {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, ignored)) {
    const std::string part = entry.path().string();
    if (!entry.path().filename().string().starts_with(kPart)) continue;
    const auto lock = FileLock::acquire_file(lock_of(part));
    const std::string unused = part + "~";
    if (lock.ok() && file_system().rename(part.c_str(), unused.c_str()) == 0) remove_all(unused);
  }
}

Status OpeningStore::keep(const Signed<Body>& statement, FetchedFiles files) const {
  const Digest task = *manifest::task_of(statement.body);
  const std::string folder = folder_of(task, statement.id);
  if (exists(folder)) return {};  // whoever logged it, or was killed before that, had checked it
  if (files.folder_.empty())
    return Error{ErrorCode::kMissing, folder + ": has disappeared: another append was refused",
                 "append the statement again"};
  const std::string parent = fmt::format("{}/{}", folder_, task.hex());
  DGX_CHECK(make_folder(parent));
  if (file_system().rename(files.files().c_str(), folder.c_str()) != 0) return errno_error(folder, "create");
  return sync_folder(parent);
}

void OpeningStore::drop(const Signed<Body>& statement) const {
  if (!needs_fetch(statement.body)) return;
  const std::string folder = folder_of(*manifest::task_of(statement.body), statement.id);
  remove_all(folder);
  ::rmdir(std::filesystem::path(folder).parent_path().c_str());
}

void OpeningStore::prune(const protocol::Market& market) const {
  for (const auto& [id, record] : market.tasks()) {
    const std::string folder = fmt::format("{}/{}", folder_, id.hex());
    if (record.settlement && exists(folder)) remove_all(folder);
  }
}

}  // namespace dgx::jobs
