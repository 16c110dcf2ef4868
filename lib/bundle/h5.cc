#include "h5.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>

#include "input_file.h"
#include "zstd_filter.h"

namespace dgx::bundle::h5 {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are little-endian in memory");

std::mutex& library_mutex() {
  static std::mutex mutex;
  return mutex;
}

/// HDF5 keeps a stack of messages; the innermost gives the cause, the others the callers.
herr_t take_first(unsigned, const H5E_error2_t* entry, void* out) {
  auto& text = *static_cast<std::string*>(out);
  if (text.empty() && entry->desc != nullptr) text = entry->desc;
  return 0;
}

Result<Handle> file_access() {
  DGX_TRY(Handle access,
          make([] { return H5Pcreate(H5P_FILE_ACCESS); }, H5Pclose, "set up", ErrorCode::kInternal));
  DGX_CHECK(check(
      [&] {
        if (H5Pset_libver_bounds(access.id(), H5F_LIBVER_V110, H5F_LIBVER_V110) < 0) return -1;
        if (H5Pset_fclose_degree(access.id(), H5F_CLOSE_STRONG) < 0) return -1;
        return H5Pset_file_locking(access.id(), false, true);
      },
      "set up", ErrorCode::kInternal));
  return access;
}

Status put(const Handle& object, const char* name, hid_t type, const void* value) {
  const std::string doing = fmt::format("write attribute \"{}\"", name);
  DGX_TRY(const Handle space, make([] { return H5Screate(H5S_SCALAR); }, H5Sclose, doing, ErrorCode::kIo));
  DGX_TRY(const Handle attribute,
          make([&] { return H5Acreate2(object.id(), name, type, space.id(), H5P_DEFAULT, H5P_DEFAULT); },
               H5Aclose, doing, ErrorCode::kIo));
  return check([&] { return H5Awrite(attribute.id(), type, value); }, doing, ErrorCode::kIo);
}

/// The type of a fixed-length, null-padded ASCII string.
Result<Handle> text_type(std::size_t size) {
  DGX_TRY(Handle type, make([] { return H5Tcopy(H5T_C_S1); }, H5Tclose, "set up", ErrorCode::kInternal));
  DGX_CHECK(check(
      [&] {
        if (H5Tset_size(type.id(), size) < 0) return -1;
        return H5Tset_strpad(type.id(), H5T_STR_NULLPAD);
      },
      "set up", ErrorCode::kInternal));
  return type;
}

}  // namespace

Library::Library() : lock_(library_mutex()) {
  static const bool registered = [] {
    H5open();
    H5PLset_loading_state(0);  // load no code that a file or the environment names
    H5Zregister(zstd_filter_class());
    return true;
  }();
  static_cast<void>(registered);
  // A thread-safe HDF5 has one error stack per thread, a plain one has one; both print by default.
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  errno = 0;
}

Error last_error(std::string_view doing, ErrorCode code) {
  const int reason = errno;
  std::string text;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_first, &text);
  H5Eclear2(H5E_DEFAULT);
  constexpr std::array kSystem{ENOSPC, EDQUOT, EFBIG, EIO, EROFS, EACCES, EMFILE, ENFILE, ENOMEM};
  if (std::find(kSystem.begin(), kSystem.end(), reason) != kSystem.end()) {
    return system_error(doing, reason);
  }
  return {code, fmt::format("cannot {}: {}", doing, text.empty() ? "unknown reason" : text), {}};
}

bool Handle::close() {
  if (id_ < 0) return true;
  const hid_t id = std::exchange(id_, -1);
  return call([&] { return close_(id); }) >= 0;
}

hid_t type_of(DType dtype) {
  const Library library;  // the names below are macros that may initialise the library
  switch (dtype) {
    case DType::kF32: return H5T_IEEE_F32LE;
    case DType::kI64: return H5T_STD_I64LE;
    case DType::kU8: return H5T_STD_U8LE;
  }
  return -1;
}

Result<Handle> create_file(const std::string& path, WriteOutcome* outcome) {
  DGX_TRY(const Handle creation,
          make([] { return H5Pcreate(H5P_FILE_CREATE); }, H5Pclose, "set up", ErrorCode::kInternal));
  DGX_CHECK(
      check([&] { return H5Pset_obj_track_times(creation.id(), false); }, "set up", ErrorCode::kInternal));
  DGX_TRY(const Handle access, file_access());
  DGX_CHECK(call([&] { return use_write_driver(access.id(), outcome); }));
  return make([&] { return H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.id(), access.id()); }, H5Fclose,
              "create", ErrorCode::kIo);
}

void prepare() { const Library library; }

Result<Handle> create_group(const Handle& file, const std::string& path) {
  DGX_TRY(const Handle creation,
          make([] { return H5Pcreate(H5P_GROUP_CREATE); }, H5Pclose, "set up", ErrorCode::kInternal));
  DGX_CHECK(
      check([&] { return H5Pset_obj_track_times(creation.id(), false); }, "set up", ErrorCode::kInternal));
  return make([&] { return H5Gcreate2(file.id(), path.c_str(), H5P_DEFAULT, creation.id(), H5P_DEFAULT); },
              H5Gclose, fmt::format("write group \"{}\"", path), ErrorCode::kIo);
}

Result<Handle> dataspace_of(const Shape& shape) {
  const std::vector<hsize_t> dims(shape.begin(), shape.end());
  return make(
      [&] {
        return dims.empty() ? H5Screate(H5S_SCALAR)
                            : H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr);
      },
      H5Sclose, "set up", ErrorCode::kInternal);
}

Status put_text(const Handle& object, const char* name, std::string_view text) {
  // HDF5 has no empty fixed-length strings: one NUL byte stands for it.
  std::string padded(text);
  padded.resize(std::max<std::size_t>(text.size(), 1));
  DGX_TRY(const Handle type, text_type(padded.size()));
  return put(object, name, type.id(), padded.data());
}

Status put_integer(const Handle& object, const char* name, std::int64_t value) {
  return put(object, name, type_of(DType::kI64), &value);
}

Result<Handle> open_group(const Handle& parent, const std::string& name) {
  return make([&] { return H5Gopen2(parent.id(), name.c_str(), H5P_DEFAULT); }, H5Gclose,
              fmt::format("open group \"{}\"", name));
}

}  // namespace dgx::bundle::h5
