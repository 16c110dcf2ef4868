#include "containers.h"

#include <hdf5.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "blocks.h"

namespace dgx::test {
namespace {

void need(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "containers: %s\n", what);
  std::abort();
}

hid_t made(hid_t id, const char* what) {
  need(id >= 0, what);
  return id;
}

void done(herr_t status, const char* what) { need(status >= 0, what); }

std::size_t pass_on(unsigned, std::size_t, const unsigned[], std::size_t size, std::size_t*, void**) {
  return size;
}

void register_filter() {
  static const H5Z_class2_t kClass{H5Z_CLASS_T_VERS, kPluginFilter, 1,       1,
                                   "passes on",      nullptr,       nullptr, pass_on};
  done(H5Zregister(&kClass), "register a filter");
}

void put_text(hid_t object, const char* name, const std::string& text) {
  const hid_t type = made(H5Tcopy(H5T_C_S1), "type");
  done(H5Tset_size(type, text.size()), "type");
  const hid_t space = made(H5Screate(H5S_SCALAR), "space");
  const hid_t attribute = made(H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT), "attribute");
  done(H5Awrite(attribute, type, text.data()), "attribute");
  H5Aclose(attribute);
  H5Sclose(space);
  H5Tclose(type);
}

void put_version(hid_t object) {
  const std::int64_t version = 2;
  const hid_t space = made(H5Screate(H5S_SCALAR), "space");
  const hid_t attribute =
      made(H5Acreate2(object, "version", H5T_STD_I64LE, space, H5P_DEFAULT, H5P_DEFAULT), "attribute");
  done(H5Awrite(attribute, H5T_STD_I64LE, &version), "attribute");
  H5Aclose(attribute);
  H5Sclose(space);
}

/// Adds f32[64], in 16 chunks if chunked; [4,4,4] if virtual.
void add_dataset(hid_t parent, Trick trick) {
  const hid_t list = made(H5Pcreate(H5P_DATASET_CREATE), "list");
  done(H5Pset_obj_track_times(list, false), "list");
  const std::array<hsize_t, 3> cube{4, 4, 4};
  const hsize_t flat = 64;
  const hsize_t chunk = 4;
  const bool is_virtual = trick == Trick::kVirtual || trick == Trick::kVirtualRank33;
  const bool summed = trick == Trick::kFletcher32 || trick == Trick::kFletcher32Short;
  const hid_t space = made(
      is_virtual ? H5Screate_simple(3, cube.data(), nullptr) : H5Screate_simple(1, &flat, nullptr), "space");
  if (is_virtual) {
    const std::array<hsize_t, 3> start{1, 1, 1};
    const std::array<hsize_t, 3> count{2, 2, 2};
    done(H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr),
         "selection");
    done(H5Pset_virtual(list, space, "other.h5", "x", space), "virtual layout");
    done(H5Sselect_all(space), "selection");
  }
  if (summed) done(H5Pset_chunk(list, 1, &chunk), "chunks");
  if (summed) done(H5Pset_fletcher32(list), "checksums");
  if (trick == Trick::kCompact || trick == Trick::kCompactShort)
    done(H5Pset_layout(list, H5D_COMPACT), "compact layout");
  if (trick == Trick::kExternal) done(H5Pset_external(list, "/etc/passwd", 0, 256), "external file");
  const hid_t dataset =
      made(H5Dcreate2(parent, "x", H5T_IEEE_F32LE, space, H5P_DEFAULT, list, H5P_DEFAULT), "dataset");
  std::array<float, 64> numbers{};
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i) + 0.5F;
  if (!is_virtual && trick != Trick::kExternal)
    done(H5Dwrite(dataset, H5T_IEEE_F32LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers.data()), "numbers");
  if (trick == Trick::kFletcher32Short) {
    const hsize_t third = 8;
    done(H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, &third, 2, "xy"), "chunk");
  }
  H5Dclose(dataset);
  H5Sclose(space);
  H5Pclose(list);
}

/// Adds a group with more links than fit a header.
void add_group(hid_t parent, bool filtered) {
  const hid_t list = made(H5Pcreate(H5P_GROUP_CREATE), "list");
  done(H5Pset_obj_track_times(list, false), "list");
  if (filtered) {
    register_filter();
    done(H5Pset_link_phase_change(list, 0, 0), "dense links");
    done(H5Pset_filter(list, kPluginFilter, H5Z_FLAG_MANDATORY, 0, nullptr), "filter of a group");
  }
  const hid_t group = made(H5Gcreate2(parent, "x", H5P_DEFAULT, list, H5P_DEFAULT), "group");
  const hid_t plain = made(H5Pcreate(H5P_GROUP_CREATE), "list");
  done(H5Pset_obj_track_times(plain, false), "list");
  for (int i = 0; i < 60; ++i) {
    const std::string name = "entry number " + std::to_string(i);
    H5Gclose(made(H5Gcreate2(group, name.c_str(), H5P_DEFAULT, plain, H5P_DEFAULT), "group"));
  }
  H5Gclose(group);
  H5Pclose(plain);
  H5Pclose(list);
  if (filtered) H5Zunregister(kPluginFilter);
}

/// Changes a file's bytes.
template <class Change>
void patch(const std::string& path, const Change& change) {
  std::ifstream in(path, std::ios::binary);
  std::string content{std::istreambuf_iterator<char>(in), {}};
  in.close();
  change(content);
  std::ofstream(path, std::ios::binary) << content;
}

void put_u32(std::string& content, std::size_t at, std::uint32_t value) {
  std::memcpy(content.data() + at, &value, sizeof value);
}

/// Raises the rank of a virtual layout's mapping to 33. The mapping is an object of the global heap that ends
/// in its own checksum: a selection of kind 2 (hyperslab), version 1, four bytes, its length, and the rank.
void raise_rank(std::string& content) {
  const std::size_t heap = content.find("GCOL");
  need(heap != std::string::npos, "no global heap");
  const std::string selection("\2\0\0\0\1\0\0\0", 8);
  for (std::size_t at = content.find(selection, heap); at != std::string::npos;
       at = content.find(selection, at + 8)) {
    put_u32(content, at + 16, 33);
  }
  // The heap's only object follows the heap's head of 16 bytes, and has a head of 16 bytes: 2 index, 2 count,
  // 4 reserved, 8 size.
  std::uint64_t size = 0;
  std::memcpy(&size, content.data() + heap + 24, sizeof size);
  const ByteView object = as_bytes(content).subspan(heap + 32, size - 4);
  put_u32(content, heap + 32 + size - 4, bundle::lookup3(object));
}

/// Shortens the stated length of a compact layout's data from 256 bytes to 4; the numbers begin with 0.5
/// and 1.5.
void shorten_compact(std::string& content) {
  const std::string numbers("\0\1\0\0\0\x3f\0\0\xc0\x3f", 10);
  const std::size_t at = content.find(numbers);
  need(at != std::string::npos, "no compact numbers");
  content[at] = 4;
  content[at + 1] = 0;
}

}  // namespace

std::vector<Trick> all_tricks() {
  return {Trick::kVirtual,         Trick::kVirtualRank33, Trick::kCompact,
          Trick::kCompactShort,    Trick::kExternal,      Trick::kFletcher32,
          Trick::kFletcher32Short, Trick::kDenseGroup,    Trick::kFilteredGroup};
}

std::string name_of(Trick trick) {
  constexpr std::array kNames{"virtual",    "virtual, rank 33",  "compact",     "compact, short", "external",
                              "fletcher32", "fletcher32, short", "dense group", "filtered group"};
  return kNames[static_cast<std::size_t>(trick)];
}

void write_container(const std::string& path, Trick trick, Format format) {
  const hid_t creation = made(H5Pcreate(H5P_FILE_CREATE), "list");
  done(H5Pset_obj_track_times(creation, false), "list");
  const hid_t access = made(H5Pcreate(H5P_FILE_ACCESS), "list");
  if (format == Format::kBundle)
    done(H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110), "format");
  const hid_t file = made(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation, access), "file");
  hid_t parent = file;
  if (format == Format::kBundle) {
    put_text(file, "dgx", "state");
    put_version(file);
    put_text(file, "digest", std::string(64, '0'));
    const hid_t list = made(H5Pcreate(H5P_GROUP_CREATE), "list");
    done(H5Pset_obj_track_times(list, false), "list");
    parent = made(H5Gcreate2(file, "state", H5P_DEFAULT, list, H5P_DEFAULT), "group");
    H5Pclose(list);
  }
  if (trick == Trick::kDenseGroup || trick == Trick::kFilteredGroup) {
    add_group(parent, trick == Trick::kFilteredGroup);
  } else {
    add_dataset(parent, trick);
  }
  if (parent != file) H5Gclose(parent);
  done(H5Fclose(file), "file");
  H5Pclose(access);
  H5Pclose(creation);
  if (trick == Trick::kVirtualRank33) patch(path, raise_rank);
  if (trick == Trick::kCompactShort && format == Format::kOldest) patch(path, shorten_compact);
}

}  // namespace dgx::test
