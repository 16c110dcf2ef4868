#pragma once

#include <hdf5.h>

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"
#include "dgx/core/tensor.h"
#include "write_driver.h"

/// The raw HDF5 C API behind owned handles. HDF5 is not thread safe in every build, so every call into it
/// goes through call(), which also silences its error printing. Nothing here knows what a bundle is.
namespace dgx::bundle::h5 {

/// zstd, registered with The HDF Group; dgx-bundle(5), "Compression".
inline constexpr H5Z_filter_t kZstdFilter = 32015;

/// Held for one call. Sets up the library (error printing off, our filter registered) on first use, and
/// clears errno.
class Library {
 public:
  Library();

 private:
  std::unique_lock<std::mutex> lock_;
};

template <class F>
auto call(F function) {
  const Library library;
  return function();
}

/// The error of the last failed call on this thread: kIo with the system's reason if there is one (a full
/// disk), otherwise `code` with HDF5's innermost message.
[[nodiscard]] Error last_error(std::string_view doing, ErrorCode code);

/// Owns one HDF5 identifier of any type.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Handle() = default;
  Handle(hid_t id, Close close) : id_(id), close_(close) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Handle() { static_cast<void>(close()); }

  [[nodiscard]] hid_t id() const { return id_; }
  [[nodiscard]] bool valid() const { return id_ >= 0; }
  /// False if HDF5 could not write data that it had buffered.
  bool close();

 private:
  hid_t id_ = -1;
  Close close_ = nullptr;
};

/// Makes a handle from the identifier that `open` returns, or an error.
template <class F>
[[nodiscard]] Result<Handle> make(F open, Handle::Close close, std::string_view doing,
                                  ErrorCode code = ErrorCode::kMalformed) {
  const Library library;
  const hid_t id = open();
  if (id < 0) return last_error(doing, code);
  return Handle(id, close);
}

/// The status of a call that returns a negative number when it fails.
template <class F>
[[nodiscard]] Status check(F function, std::string_view doing, ErrorCode code = ErrorCode::kMalformed) {
  const Library library;
  if (function() < 0) return last_error(doing, code);
  return {};
}

/// HDF5's type of our numbers, in files and also in memory, which is little-endian (asserted in h5.cc).
[[nodiscard]] hid_t type_of(DType dtype);

/// Creates a file in the version 1.10 format (checksums over all metadata), without times, so that equal
/// content gives equal bytes. `outcome` tells whether writing succeeded.
[[nodiscard]] Result<Handle> create_file(const std::string& path, WriteOutcome* outcome);
/// Sets up the library now: it reads the environment and files then, which a confined process cannot.
void prepare();

[[nodiscard]] Result<Handle> create_group(const Handle& file, const std::string& path);
[[nodiscard]] Result<Handle> dataspace_of(const Shape& shape);

/// Writes a fixed-length ASCII string or a scalar i64 as an object's attribute.
[[nodiscard]] Status put_text(const Handle& object, const char* name, std::string_view text);
[[nodiscard]] Status put_integer(const Handle& object, const char* name, std::int64_t value);

[[nodiscard]] Result<Handle> open_group(const Handle& parent, const std::string& name);

}  // namespace dgx::bundle::h5
