#include "settle/delay_store.h"

#include <fmt/format.h>

#include <algorithm>

#include "dgx/crypto/sha256.h"

namespace dgx::jobs {
namespace {

constexpr std::size_t kDigestBytes = 32;
constexpr std::size_t kMostBytes =
    2 * kDigestBytes + 8 + static_cast<std::size_t>(manifest::kMostCheckpoints) * kDigestBytes;

/// The bytes that say to which delay a file belongs: its start and its steps.
Bytes name_of_delay(const DelayTask& task) {
  return ByteWriter().digest(task.start).u64(static_cast<std::uint64_t>(task.steps)).bytes();
}

}  // namespace

Result<DelayStore> DelayStore::open(const std::string& ledger, const LockWait& wait) {
  const bool named = ledger.ends_with(".jsonl");
  const std::string folder = (named ? ledger.substr(0, ledger.size() - 6) : ledger) + ".rounds";
  DGX_CHECK(make_folder(folder));
  DGX_TRY(FileLock lock, FileLock::acquire_file(folder + "/lock", wait));
  return DelayStore(folder, std::move(lock));
}

std::string DelayStore::path_of(const DelayTask& task) const {
  return fmt::format("{}/{}.part", folder_, task.slot);
}

std::vector<Digest> DelayStore::load(const DelayTask& task, bool& damaged) const {
  damaged = false;
  if (!exists(path_of(task))) return {};
  damaged = true;
  const auto text = read_file(path_of(task), kMostBytes);
  if (!text.ok() || text->size() < kDigestBytes) return {};
  const ByteView all = as_bytes(*text);
  const ByteView rest = all.subspan(kDigestBytes);
  const Digest sum = crypto::sha256(rest);
  const Bytes name = name_of_delay(task);
  if (!std::equal(sum.bytes.begin(), sum.bytes.end(), all.begin()) || rest.size() < name.size() ||
      !std::equal(name.begin(), name.end(), rest.begin()))
    return {};
  const ByteView digests = rest.subspan(name.size());
  std::vector<Digest> out(digests.size() / kDigestBytes);
  for (std::size_t i = 0; i < out.size(); ++i)
    std::copy_n(digests.data() + i * kDigestBytes, kDigestBytes, out[i].bytes.begin());
  if (digests.size() % kDigestBytes != 0 || std::ssize(out) > manifest::delay_checkpoints(task.steps))
    return {};
  damaged = false;
  return out;
}

Status DelayStore::save(const DelayTask& task, const std::vector<Digest>& checkpoints) const {
  ByteWriter rest;
  rest.raw(name_of_delay(task));
  for (const Digest& one : checkpoints) rest.digest(one);
  const Bytes whole = ByteWriter().digest(crypto::sha256(rest.bytes())).raw(rest.bytes()).bytes();
  return write_file(path_of(task), as_text(whole), Clobber::kReplace);
}

Status DelayStore::drop(const DelayTask& task) const { return remove_file(path_of(task)); }

}  // namespace dgx::jobs
