#include "h5.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

#include "dgx/bundle/format.h"
#include "dgx/core/files.h"
#include "zstd_filter.h"

namespace dgx::bundle::h5 {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are little-endian in memory");

constexpr std::size_t kMaxAttributes = 16;

std::mutex& library_mutex() {
  static std::mutex mutex;
  return mutex;
}

/// HDF5 keeps a stack of messages; the innermost says what went wrong, the others where.
herr_t take_first(unsigned, const H5E_error2_t* entry, void* out) {
  auto& text = *static_cast<std::string*>(out);
  if (text.empty() && entry->desc != nullptr) text = entry->desc;
  return 0;
}

/// What HDF5's parser would meet first, checked by ourselves: version 2 or 3 superblock at offset 0, 8-byte
/// addresses, no base address, no extension, and the end of file that it names is the file's.
Status check_superblock(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    Error error = errno_error(path, "open");
    if (error.code == ErrorCode::kCannotCreate) error.code = ErrorCode::kIo;
    error.message.erase(0, path.size() + 2);  // the caller names the file
    return error;
  }
  std::array<std::uint8_t, 48> head{};
  struct stat info {};
  const bool regular = ::fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode);
  const ssize_t got = regular ? ::pread(descriptor, head.data(), head.size(), 0) : 0;
  const int reason = errno;
  ::close(descriptor);
  if (got < 0) return system_error("read", reason);
  constexpr std::array<std::uint8_t, 8> kSignature{0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
  if (got < static_cast<ssize_t>(head.size()) ||
      !std::equal(kSignature.begin(), kSignature.end(), head.begin())) {
    return malformed("is not an HDF5 file");
  }
  const auto u64_at = [&](std::size_t offset) {
    std::uint64_t value = 0;
    std::memcpy(&value, head.data() + offset, sizeof value);
    return value;
  };
  if ((head[8] != 2 && head[8] != 3) || head[9] != 8 || head[10] != 8 || u64_at(12) != 0) {
    return malformed("is an HDF5 file, but not one of ours: superblock is not version 2 or 3",
                     "dgx-pack hdf5 reads files of others");
  }
  if (head[11] != 0) return malformed("was not closed by its writer");
  const std::uint64_t end = u64_at(28);
  if (end != static_cast<std::uint64_t>(info.st_size)) {
    return malformed(
        fmt::format("has {} bytes, its header says {}: it is cut off or was added to", info.st_size, end));
  }
  return {};
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

struct LinkList {
  std::vector<Link> links;
  std::size_t most = 0;
};

herr_t take_link(hid_t, const char* name, const H5L_info_t* info, void* out) {
  auto& list = *static_cast<LinkList*>(out);
  if (list.links.size() >= list.most) return -1;
  list.links.push_back({name, info->type == H5L_TYPE_HARD});
  return 0;
}

herr_t take_attribute(hid_t, const char* name, const H5A_info_t*, void* out) {
  auto& names = *static_cast<std::vector<std::string>*>(out);
  if (names.size() >= kMaxAttributes) return -1;
  names.emplace_back(name);
  return 0;
}

Status put(const Handle& object, const char* name, hid_t type, const void* value) {
  const std::string doing = fmt::format("write attribute \"{}\"", name);
  DGX_TRY(const Handle space, make([] { return H5Screate(H5S_SCALAR); }, H5Sclose, doing, ErrorCode::kIo));
  DGX_TRY(const Handle attribute,
          make([&] { return H5Acreate2(object.id(), name, type, space.id(), H5P_DEFAULT, H5P_DEFAULT); },
               H5Aclose, doing, ErrorCode::kIo));
  return check([&] { return H5Awrite(attribute.id(), type, value); }, doing, ErrorCode::kIo);
}

Result<Handle> open_attribute(const Handle& object, const char* name) {
  DGX_TRY(Handle attribute, make([&] { return H5Aopen(object.id(), name, H5P_DEFAULT); }, H5Aclose,
                                 fmt::format("open attribute \"{}\"", name)));
  DGX_TRY(const Handle space,
          make([&] { return H5Aget_space(attribute.id()); }, H5Sclose, "read an attribute"));
  if (call([&] { return H5Sget_simple_extent_type(space.id()); }) != H5S_SCALAR) {
    return malformed(fmt::format("attribute \"{}\" is not a scalar", name));
  }
  return attribute;
}

Result<Handle> attribute_type(const Handle& attribute) {
  return make([&] { return H5Aget_type(attribute.id()); }, H5Tclose, "read an attribute");
}

/// Fixed length, ASCII, null-padded.
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

Error system_error(std::string_view doing, int reason) {
  std::string text = std::strerror(reason);
  if (!text.empty() && text[0] >= 'A' && text[0] <= 'Z') text[0] = static_cast<char>(text[0] - 'A' + 'a');
  return {ErrorCode::kIo, fmt::format("cannot {}: {}", doing, text), {}};
}

Library::Library() : lock_(library_mutex()) {
  static const bool registered = [] {
    H5open();
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
  const Library library;  // the names below are macros that may set up the library
  switch (dtype) {
    case DType::kF32:
      return H5T_IEEE_F32LE;
    case DType::kI64:
      return H5T_STD_I64LE;
    case DType::kU8:
      return H5T_STD_U8LE;
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

Result<Handle> open_file(const std::string& path, Origin origin) {
  if (!exists(path)) return Error{ErrorCode::kMissing, "is not there", {}};
  if (origin == Origin::kBundle) DGX_CHECK(check_superblock(path));
  DGX_TRY(const Handle access, file_access());
  if (origin == Origin::kForeign) {
    DGX_CHECK(check([&] { return H5Pset_libver_bounds(access.id(), H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST); },
                    "set up", ErrorCode::kInternal));
  }
  return make([&] { return H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.id()); }, H5Fclose, "open");
}

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
  // HDF5 has no empty strings of fixed length: one NUL byte stands for it.
  std::string padded(text);
  padded.resize(std::max<std::size_t>(text.size(), 1));
  DGX_TRY(const Handle type, text_type(padded.size()));
  return put(object, name, type.id(), padded.data());
}

Status put_integer(const Handle& object, const char* name, std::int64_t value) {
  return put(object, name, type_of(DType::kI64), &value);
}

Result<std::string> get_text(const Handle& object, const char* name) {
  DGX_TRY(const Handle attribute, open_attribute(object, name));
  DGX_TRY(const Handle type, attribute_type(attribute));
  const std::size_t size = call([&]() -> std::size_t {
    if (H5Tget_class(type.id()) != H5T_STRING || H5Tis_variable_str(type.id()) != 0) return 0;
    return H5Tget_size(type.id());
  });
  if (size == 0 || size > kMaxAttributeBytes) {
    return malformed(
        fmt::format("attribute \"{}\" is not a fixed string of at most {} bytes", name, kMaxAttributeBytes));
  }
  std::string text(size, '\0');
  DGX_CHECK(check([&] { return H5Aread(attribute.id(), type.id(), text.data()); }, "read an attribute"));
  text.resize(std::min(text.find('\0'), text.size()));
  for (const char c : text) {
    if (c < 0x20 || c > 0x7e) return malformed(fmt::format("attribute \"{}\" is not printable ASCII", name));
  }
  return text;
}

Result<std::int64_t> get_integer(const Handle& object, const char* name) {
  DGX_TRY(const Handle attribute, open_attribute(object, name));
  DGX_TRY(const Handle type, attribute_type(attribute));
  const hid_t expected = type_of(DType::kI64);
  if (call([&] { return H5Tequal(type.id(), expected); }) <= 0) {
    return malformed(fmt::format("attribute \"{}\" is not an i64", name));
  }
  std::int64_t value = 0;
  DGX_CHECK(check([&] { return H5Aread(attribute.id(), expected, &value); }, "read an attribute"));
  return value;
}

Result<std::vector<std::string>> attribute_names(const Handle& object) {
  std::vector<std::string> names;
  DGX_CHECK(check(
      [&] { return H5Aiterate2(object.id(), H5_INDEX_NAME, H5_ITER_INC, nullptr, take_attribute, &names); },
      "list attributes"));
  return names;
}

Result<std::vector<Link>> links_of(const Handle& group, std::size_t most) {
  LinkList list{{}, most};
  const Status status =
      check([&] { return H5Literate(group.id(), H5_INDEX_NAME, H5_ITER_INC, nullptr, take_link, &list); },
            "list a group");
  if (!status.ok() && list.links.size() >= most)
    return malformed(fmt::format("has more than {} objects", most));
  if (!status.ok()) return status.error();
  return std::move(list.links);
}

Result<Handle> open_group(const Handle& parent, const std::string& name) {
  return make([&] { return H5Gopen2(parent.id(), name.c_str(), H5P_DEFAULT); }, H5Gclose,
              fmt::format("open group \"{}\"", name));
}

Result<Handle> open_dataset(const Handle& parent, const std::string& name) {
  return make([&] { return H5Dopen2(parent.id(), name.c_str(), H5P_DEFAULT); }, H5Dclose,
              fmt::format("open dataset \"{}\"", name));
}

H5I_type_t kind_of_object(const Handle& object) {
  return call([&] { return H5Iget_type(object.id()); });
}

Result<Handle> open_object(const Handle& parent, const std::string& name) {
  DGX_TRY(Handle object, make([&] { return H5Oopen(parent.id(), name.c_str(), H5P_DEFAULT); }, H5Oclose,
                              fmt::format("open \"{}\"", name)));
  const H5I_type_t kind = kind_of_object(object);
  if (kind != H5I_GROUP && kind != H5I_DATASET) {
    return malformed(fmt::format("\"{}\" is neither group nor dataset", name));
  }
  return object;
}

Result<Shape> shape_of(const Handle& dataset) {
  DGX_TRY(const Handle space, make([&] { return H5Dget_space(dataset.id()); }, H5Sclose, "read a shape"));
  const H5S_class_t kind = call([&] { return H5Sget_simple_extent_type(space.id()); });
  if (kind == H5S_SCALAR) return Shape{};
  const int rank = call([&] { return H5Sget_simple_extent_ndims(space.id()); });
  if (kind != H5S_SIMPLE || rank < 1 || rank > static_cast<int>(kMaxRank)) {
    return malformed(fmt::format("is not an array of at most {} dimensions", kMaxRank));
  }
  std::array<hsize_t, kMaxRank> dims{};
  DGX_CHECK(
      check([&] { return H5Sget_simple_extent_dims(space.id(), dims.data(), nullptr); }, "read a shape"));
  Shape shape;
  for (int i = 0; i < rank; ++i) {
    const hsize_t size = dims[static_cast<std::size_t>(i)];
    shape.push_back(size > (std::uint64_t{1} << 53) ? -1 : static_cast<std::int64_t>(size));
  }
  DGX_CHECK(element_count(shape));
  return shape;
}

}  // namespace dgx::bundle::h5
