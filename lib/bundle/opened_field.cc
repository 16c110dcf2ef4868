#include "opened_field.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "dataset_parts.h"
#include "dgx/core/checked.h"
#include "dgx/core/file_system.h"
#include "dgx/core/parallel.h"
#include "dgx/merkle/nodes.h"
#include "dgx/merkle/tree.h"

namespace dgx::bundle {
namespace {

constexpr std::uint64_t kGroupBytes = merkle::kTensorNodeBytes;

/// The first number of a row that a dataset may not have, in words: "element 3 is NaN". Empty if all are
/// good.
template <class T>
std::string bad_integer(std::span<const std::uint8_t> row, const IntegerRange& range) {
  const std::span numbers{reinterpret_cast<const T*>(row.data()), row.size() / sizeof(T)};
  const auto bad = std::find_if(numbers.begin(), numbers.end(),
                                [&](T number) { return number < range.low || number > range.high; });
  if (bad == numbers.end()) return {};
  return fmt::format("element {} is {}, the recipe's range goes from {} to {}", bad - numbers.begin(), *bad,
                     range.low, range.high);
}

std::string bad_float(std::span<const std::uint8_t> row) {
  const std::span numbers{reinterpret_cast<const float*>(row.data()), row.size() / sizeof(float)};
  const auto bad = std::find_if(numbers.begin(), numbers.end(), [](float v) { return !std::isfinite(v); });
  if (bad == numbers.end()) return {};
  return fmt::format("element {} is {}", bad - numbers.begin(), std::isnan(*bad) ? "NaN" : "infinite");
}

Status write_all(int file, std::uint64_t begin, ByteView bytes) {
  while (!bytes.empty()) {
    const ssize_t put = file_system().pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(begin));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return system_error("write to the cache", put < 0 ? errno : ENOSPC);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
    begin += static_cast<std::uint64_t>(put);
  }
  return {};
}

/// The chunk that has byte `begin` of the row-major bytes.
std::uint64_t chunk_of(const ChunkLayout& layout, std::uint64_t begin) {
  const std::uint64_t outer_bytes = layout.extent * layout.row_bytes;
  return begin / outer_bytes * layout.chunks_per_outer() +
         begin % outer_bytes / layout.row_bytes / layout.rows;
}

}  // namespace

OpenedField::OpenedField(std::shared_ptr<const Reader> reader, std::string name, FieldInfo info,
                         std::vector<Digest> nodes)
    : reader_(std::move(reader)),
      name_(std::move(name)),
      info_(std::move(info)),
      nodes_(std::move(nodes)),
      stored_(*reader_->stored(name_)),
      row_bytes_(stored_->size_bytes / static_cast<std::uint64_t>(info_.shape[0])) {}

void OpenedField::keep_groups(std::uint8_t* bytes) {
  kept_.bytes = bytes;
  if (bytes != nullptr) kept_.believed = std::make_unique<std::atomic<bool>[]>(nodes_.size());
}

Digest OpenedField::digest() const {
  return merkle::tensor_digest(info_.dtype, info_.shape, merkle::root_of(nodes_));
}

Error OpenedField::in_row(std::int64_t row, Error error) const {
  if (error.code == ErrorCode::kMalformed) error.code = ErrorCode::kBadData;
  return reader_->in_file(within(fmt::format("{}: row {}", name_, row), std::move(error)));
}

std::span<std::uint8_t> OpenedField::within_group(std::uint64_t index, std::uint8_t* bytes) const {
  const std::uint64_t begin = index * kGroupBytes;
  return {bytes, static_cast<std::size_t>(std::min(kGroupBytes, stored_->size_bytes - begin))};
}

Status OpenedField::copy(std::int64_t row, std::span<std::uint8_t> out) const {
  thread_local Group buffer(kGroupBytes);
  const std::uint64_t begin = static_cast<std::uint64_t>(row) * row_bytes_;
  for (std::uint64_t done = 0; done < row_bytes_;) {
    const std::uint64_t index = (begin + done) / kGroupBytes;
    const std::uint64_t offset = (begin + done) % kGroupBytes;
    auto bytes = group(index, buffer);
    if (!bytes.ok()) return in_row(row, std::move(bytes).error());
    const std::uint64_t count = std::min(bytes->size() - offset, row_bytes_ - done);
    std::memcpy(out.data() + done, bytes->data() + offset, count);
    done += count;
  }
  if (Status numbers = check_numbers(out); !numbers.ok()) return in_row(row, std::move(numbers).error());
  return {};
}

Status OpenedField::check_numbers(std::span<const std::uint8_t> row) const {
  std::string bad;
  switch (info_.dtype) {
    case DType::kF32: bad = bad_float(row); break;
    case DType::kI64: bad = bad_integer<std::int64_t>(row, *info_.range); break;
    case DType::kU8: bad = bad_integer<std::uint8_t>(row, *info_.range); break;
  }
  if (bad.empty()) return {};
  return Error{ErrorCode::kBadData, bad, "the dataset is not one that dgx-pack makes"};
}

void OpenedField::expect(std::int64_t row) const {
  const std::uint64_t first = static_cast<std::uint64_t>(row) * row_bytes_ / kGroupBytes;
  const std::uint64_t last = ((static_cast<std::uint64_t>(row) + 1) * row_bytes_ - 1) / kGroupBytes;
  if (kept_.bytes != nullptr && kept_.believed[first].load(std::memory_order_relaxed) &&
      kept_.believed[last].load(std::memory_order_relaxed))
    return;
  const auto* const entry = std::get_if<UnpackCache::Entry>(&unpacked_);
  if (entry == nullptr && stored_->layout) return;
  const InputFile& file = entry != nullptr ? entry->file : reader_->file();
  const std::uint64_t base = entry != nullptr ? 0 : stored_->pieces[0].begin;
  const std::uint64_t end = std::min((last + 1) * kGroupBytes, stored_->size_bytes);
  file.expect(base + first * kGroupBytes, end - first * kGroupBytes);
}

/// The bytes of a group, believed: kept ones, or in `buffer`.
Result<ByteView> OpenedField::group(std::uint64_t index, Group& buffer) const {
  std::span<std::uint8_t> kept;
  if (kept_.bytes != nullptr) {
    kept = within_group(index, kept_.bytes + index * kGroupBytes);
    if (kept_.believed[index].load(std::memory_order_acquire)) return ByteView(kept);
  }
  const std::span<std::uint8_t> read = within_group(index, buffer.data());
  DGX_CHECK(read_believed(index, read));
  if (kept_.bytes == nullptr) return ByteView(read);
  const std::lock_guard lock(kept_.writing);
  if (kept_.believed[index].load(std::memory_order_relaxed)) return ByteView(kept);
  if (kept_.own) std::copy(read.begin(), read.end(), kept.begin());
  kept_.believed[index].store(true, std::memory_order_release);
  return ByteView(kept);
}

/// Reads a group and compares it with its node. What the cache has wrong is taken from the bundle.
Status OpenedField::read_believed(std::uint64_t index, std::span<std::uint8_t> out) const {
  const std::uint64_t begin = index * kGroupBytes;
  Status got = read(begin, out);
  const auto good = [&] { return got.ok() && merkle::tensor_node(out) == nodes_[index]; };
  if (good()) return {};
  if (const auto* const entry = std::get_if<UnpackCache::Entry>(&unpacked_)) {
    got = read_from_chunks(begin, out);
    if (good()) {
      const bool is_first =
          entry->place != UnpackCache::Place::kNameless && wrong_in_cache_.fetch_add(1) == 0;
      if (is_first && entry->place == UnpackCache::Place::kOwn) cache_->drop(digest());
      return {};
    }
  }
  DGX_CHECK(std::move(got));
  return Error{ErrorCode::kBadData,
               fmt::format("bytes {} to {} of the field are not those that the dataset's digest names", begin,
                           begin + out.size() - 1),
               "the file is damaged, or changes while it is read: fetch it again"};
}

std::string OpenedField::wrong_in_cache() const {
  if (wrong_in_cache_ == 0) return {};
  const bool own = std::get<UnpackCache::Entry>(unpacked_).place == UnpackCache::Place::kOwn;
  return fmt::format(
      "{}: {} had {} groups of 16 KiB wrong; they were unpacked from the dataset, and {}", name_,
      own ? "the cache" : "the store of unpacked fields", wrong_in_cache_.load(),
      own ? "the cache's file is removed" : "its owner should remove the file " + digest().hex());
}

/// Reads bytes from where they are; whoever may write there may have changed them.
Status OpenedField::read(std::uint64_t begin, std::span<std::uint8_t> out) const {
  if (const auto* const entry = std::get_if<UnpackCache::Entry>(&unpacked_))
    return entry->file.read(begin, out);
  if (const auto* const tensor = std::get_if<BulkTensor>(&unpacked_))
    return copy_bytes(tensor->view(), begin, out);
  return reader_->file().read(stored_->pieces[0].begin + begin, out);
}

Status OpenedField::read_from_chunks(std::uint64_t begin, std::span<std::uint8_t> out) const {
  Bytes numbers;
  while (!out.empty()) {
    const std::uint64_t index = chunk_of(*stored_->layout, begin);
    const ChunkPlace place = place_of_chunk(*stored_->layout, stored_->shape, index);
    numbers.resize(place.size);
    DGX_CHECK(unpack_chunk(reader_->file(), *stored_, index, numbers));
    const std::uint64_t offset = begin - place.begin;
    const std::uint64_t count = std::min<std::uint64_t>(out.size(), place.size - offset);
    std::memcpy(out.data(), numbers.data() + offset, count);
    out = out.subspan(count);
    begin += count;
  }
  return {};
}

/// True if all groups that lie whole in these bytes of the field have their nodes.
bool OpenedField::are_believed(std::uint64_t begin, ByteView bytes) const {
  const std::uint64_t end = begin + bytes.size();
  for (std::uint64_t index = ceil_div(begin, kGroupBytes); index < nodes_.size(); ++index) {
    const std::uint64_t size = std::min(kGroupBytes, stored_->size_bytes - index * kGroupBytes);
    if (index * kGroupBytes + size > end) return true;
    if (merkle::tensor_node(bytes.subspan(index * kGroupBytes - begin, size)) != nodes_[index]) return false;
  }
  return true;
}

/// Unpacks all chunks, and hands each with its place to `take`, in threads. False if a chunk is damaged: it
/// is left out, since it may not be needed. So is one from a server that is not what the nodes say: others
/// would find it in the cache.
Result<bool> OpenedField::unpack(const std::function<Status(std::uint64_t, ByteView)>& take,
                                 int threads) const {
  std::atomic<bool> whole = true;
  DGX_CHECK(for_each_index(stored_->pieces.size(), thread_count(threads), [&](std::size_t index) -> Status {
    thread_local Bytes numbers;
    const ChunkPlace place = place_of_chunk(*stored_->layout, stored_->shape, index);
    numbers.resize(place.size);
    const Status unpacked = unpack_chunk(reader_->file(), *stored_, index, numbers);
    const bool good = unpacked.ok() && (!reader_->file().is_remote() || are_believed(place.begin, numbers));
    if (good) return take(place.begin, numbers);
    if (!unpacked.ok() && unpacked.error().code != ErrorCode::kMalformed) return unpacked;
    whole = false;
    return {};
  }));
  return whole.load();
}

/// Unpacks the field into memory, or into a file without a name.
Status OpenedField::place_unpacked(const OpenEffort& effort) {
  DGX_TRY(BulkTensor tensor, BulkTensor::create(info_.dtype, info_.shape, effort.bulk_bytes));
  const auto take = [&](std::uint64_t begin, ByteView bytes) -> Status {
    std::ranges::copy(bytes, tensor.bytes().subspan(begin).begin());
    release(tensor.view(), begin, bytes.size());
    return {};
  };
  DGX_TRY([[maybe_unused]] const bool whole, unpack(take, effort.threads));
  BulkTensor& placed = unpacked_.emplace<BulkTensor>(std::move(tensor));
  if (placed.view().file < 0) keep_groups(placed.bytes().data());
  return {};
}

Result<std::string> OpenedField::place(const UnpackCache* cache, const OpenEffort& effort) {
  std::string warning;
  const bool compressed = stored_->layout.has_value();
  if (compressed && cache != nullptr && stored_->size_bytes >= effort.cache_from) {
    auto entry = cache->take(digest(), stored_->size_bytes, effort.stop, [&](int file) {
      return unpack([&](std::uint64_t begin, ByteView bytes) { return write_all(file, begin, bytes); },
                    effort.threads);
    });
    if (!entry.ok() && entry.error().code == ErrorCode::kInterrupted) return std::move(entry).error();
    if (!entry.ok())
      warning = fmt::format("{} is unpacked for this process alone: {}", name_, entry.error().message);
    if (entry.ok()) {
      unpacked_.emplace<UnpackCache::Entry>(std::move(entry).value());
      cache_ = *cache;
    }
  }
  if (compressed && !cache_) {
    DGX_CHECK(place_unpacked(effort));
    return warning;
  }
  if (stored_->size_bytes >= effort.keep_below) return warning;
  // Zeroed memory that the system hands out page by page, when it is written.
  kept_.own.reset(static_cast<std::uint8_t*>(std::calloc(stored_->size_bytes, 1)));
  keep_groups(kept_.own.get());
  return warning;
}

Result<merkle::TensorOpening> OpenedField::open_leaf(std::uint64_t leaf) const {
  constexpr std::uint64_t kLeaves = kGroupBytes / merkle::kTensorLeafBytes;
  if (leaf >= merkle::tensor_leaf_count(stored_->size_bytes))
    return usage_error(fmt::format("{}: has no leaf {}", name_, leaf));
  Group buffer(kGroupBytes);
  auto bytes = group(leaf / kLeaves, buffer);
  if (!bytes.ok()) return reader_->in_file(within(name_, std::move(bytes).error()));
  return merkle::open_tensor(info_.dtype, info_.shape, leaf, *bytes, nodes_);
}

}  // namespace dgx::bundle
