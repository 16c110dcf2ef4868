#include "dgx/core/bulk.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "dgx/core/files.h"
#include "dgx/core/inputs.h"

namespace dgx {
namespace {

std::string scratch_folder() {
  const char* const chosen = std::getenv("TMPDIR");
  return chosen != nullptr && *chosen != '\0' ? chosen : "/var/tmp";
}

/// Opens a file that no other process can open, and that is gone when the process ends, however it ends. Not
/// every file system has O_TMPFILE.
int open_nameless(const std::string& folder) {
  const int file = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return file;
  std::string name = folder + "/dgx.XXXXXX";
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(name.c_str());
  return named;
}

/// The whole pages that hold bytes [begin, begin + size) of a mapping, as start and length in bytes. The
/// mapping begins at a page.
std::pair<std::uint64_t, std::uint64_t> pages_of(std::uint64_t begin, std::uint64_t size) {
  static const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t first = begin / page * page;
  return {first, (begin + size + page - 1) / page * page - first};
}

}  // namespace

BulkTensor& BulkTensor::operator=(BulkTensor other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(view_, other.view_);
  return *this;
}

BulkTensor::~BulkTensor() {
  if (view_.file < 0) return;
  ::munmap(bytes().data(), bytes().size());
  ::close(view_.file);
}

void BulkTensor::reshape(Shape shape) {
  if (view_.file < 0) memory_.reshape(shape);
  assert(element_count(shape).ok() && *element_count(shape) == count());
  view_.shape = std::move(shape);
}

Tensor BulkTensor::take() && {
  assert(view_.file < 0);
  view_ = {};
  return std::move(memory_);
}

/// Maps a file, and owns it from here on, also after an error.
Result<BulkTensor> BulkTensor::map(int file, DType dtype, Shape shape, std::uint64_t size, bool writable,
                                   const std::string& path) {
  void* const data =
      ::mmap(nullptr, size, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, file, 0);
  if (data == MAP_FAILED) {
    Error error = errno_error(path, "map");
    ::close(file);
    return error;
  }
  BulkTensor out;
  out.view_ = {{dtype, std::move(shape), {static_cast<const std::uint8_t*>(data), size}}, file};
  return out;
}

Result<BulkTensor> BulkTensor::create(DType dtype, Shape shape, std::uint64_t least) {
  const std::uint64_t size = static_cast<std::uint64_t>(*element_count(shape)) * size_of(dtype);
  if (size < std::max<std::uint64_t>(least, 1)) return BulkTensor(Tensor(dtype, std::move(shape)));
  const std::string folder = scratch_folder();
  const std::string hint = "TMPDIR names a folder with more room";
  const int file = open_nameless(folder);
  if (file < 0) return Error{ErrorCode::kIo, errno_error(folder, "create a file").message, hint};
  // Missing space must be found out now: later it would be a signal.
  if (const int reason = ::posix_fallocate(file, 0, static_cast<off_t>(size)); reason != 0) {
    ::close(file);
    errno = reason;
    return Error{ErrorCode::kIo, errno_error(folder, fmt::format("take {} bytes", size)).message, hint};
  }
  return map(file, dtype, std::move(shape), size, true, folder);
}

Result<BulkTensor> BulkTensor::open(const std::string& path, std::uint64_t max_bytes, std::uint64_t least) {
  struct stat info {};
  const bool regular = path != "-" && ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (!regular || size < std::max<std::uint64_t>(least, 1) || size > max_bytes) {
    DGX_TRY(const std::string content, read_file(path, max_bytes));
    return BulkTensor(
        Tensor(TensorView{DType::kU8, {static_cast<std::int64_t>(content.size())}, as_bytes(content)}));
  }
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return Error{ErrorCode::kIo, errno_error(path, "open").message, {}};
  note_input(file);
  if (::fstat(file, &info) != 0 || static_cast<std::uint64_t>(info.st_size) != size) {
    ::close(file);
    return Error{ErrorCode::kIo, path + ": changes while it is read", {}};
  }
  return map(file, DType::kU8, {info.st_size}, size, false, path);
}

Status copy_bytes(const BulkView& from, std::uint64_t begin, std::span<std::uint8_t> out) {
  if (from.file < 0) {
    if (!out.empty()) std::memcpy(out.data(), from.bytes.data() + begin, out.size());
    return {};
  }
  while (!out.empty()) {
    const ssize_t count = ::pread(from.file, out.data(), out.size(), static_cast<off_t>(begin));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno_error("numbers in a file", "read");
    if (count == 0) return Error{ErrorCode::kIo, "numbers in a file: the file has shrunk", {}};
    out = out.subspan(static_cast<std::size_t>(count));
    begin += static_cast<std::uint64_t>(count);
  }
  return {};
}

Result<std::string> copy_head(const BulkView& from, std::uint64_t count) {
  std::string out(std::min<std::uint64_t>(count, from.bytes.size()), '\0');
  DGX_CHECK(copy_bytes(from, 0, {reinterpret_cast<std::uint8_t*>(out.data()), out.size()}));
  return out;
}

void release(const BulkView& tensor, std::uint64_t begin, std::uint64_t size) {
  if (tensor.file < 0 || size == 0) return;
  size = std::min<std::uint64_t>(size, tensor.bytes.size() - begin);
  const auto [first, length] = pages_of(begin, size);
  // The mapping is shared: what was written stays in the file.
  auto* const at = const_cast<std::uint8_t*>(tensor.bytes.data()) + first;
  static_cast<void>(::madvise(at, length, MADV_DONTNEED));
}

void expect(const BulkView& tensor, std::uint64_t begin, std::uint64_t size) {
  if (tensor.file >= 0) {
    static_cast<void>(::posix_fadvise(tensor.file, static_cast<off_t>(begin), static_cast<off_t>(size),
                                      POSIX_FADV_WILLNEED));
    return;
  }
  constexpr std::uint64_t kLine = 64;
  constexpr std::uint64_t kMost = 4096;  // beyond, the hardware prefetcher sees the pattern itself
  const std::uint8_t* const from = tensor.bytes.data() + begin;
  for (std::uint64_t at = 0; at < std::min(size, kMost); at += kLine) __builtin_prefetch(from + at, 0, 2);
}

}  // namespace dgx
