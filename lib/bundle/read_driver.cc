#include "read_driver.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <limits>
#include <new>

#if H5_VERSION_GE(1, 13, 0)
#include <H5FDdevelop.h>
#endif

namespace dgx::bundle::h5 {
namespace {

/// The driver's data, which HDF5 copies into a file access list.
struct DriverInfo {
  Container* container = nullptr;
};

/// The base must come first: HDF5 casts between a file and its first member.
struct File {
  H5FD_t base{};
  haddr_t end_of_allocation = 0;
  Container* container = nullptr;
};

File* of(H5FD_t* file) { return reinterpret_cast<File*>(file); }
const File* of(const H5FD_t* file) { return reinterpret_cast<const File*>(file); }

H5FD_t* open_file(const char*, unsigned flags, hid_t access, haddr_t) {
  const auto* info = static_cast<const DriverInfo*>(H5Pget_driver_info(access));
  if (info == nullptr || (flags & H5F_ACC_RDWR) != 0) return nullptr;
  auto* file = new (std::nothrow) File;
  if (file == nullptr) return nullptr;
  file->container = info->container;
  return &file->base;
}

herr_t close_file(H5FD_t* file) {
  delete of(file);
  return 0;
}

int compare(const H5FD_t* a, const H5FD_t* b) { return a < b ? -1 : a > b; }

herr_t query(const H5FD_t*, unsigned long* flags) {
  *flags = 0;
  return 0;
}

haddr_t get_eoa(const H5FD_t* file, H5FD_mem_t) { return of(file)->end_of_allocation; }
haddr_t get_eof(const H5FD_t* file, H5FD_mem_t) { return of(file)->container->size_bytes; }
herr_t set_eoa(H5FD_t* file, H5FD_mem_t, haddr_t end) {
  of(file)->end_of_allocation = end;
  return 0;
}

/// Reads zeros past the end of the container.
herr_t read(H5FD_t* base, H5FD_mem_t type, hid_t, haddr_t at, std::size_t size, void* buffer) {
  Container& container = *of(base)->container;
  auto* to = static_cast<std::uint8_t*>(buffer);
  if (container.locating && type == H5FD_MEM_DRAW) {
    container.numbers_at = at;
    return 0;
  }
  while (size > 0 && at < container.size_bytes) {
    const ssize_t got = ::pread(container.descriptor, to, size, static_cast<off_t>(container.begin + at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    to += got;
    at += static_cast<haddr_t>(got);
    size -= static_cast<std::size_t>(got);
  }
  std::memset(to, 0, size);
  return 0;
}

herr_t write(H5FD_t*, H5FD_mem_t, hid_t, haddr_t, std::size_t, const void*) { return -1; }

H5FD_class_t make_class() {
  H5FD_class_t driver{};
#if H5_VERSION_GE(1, 13, 0)
  driver.version = H5FD_CLASS_VERSION;
  driver.value = static_cast<H5FD_class_value_t>(H5_VFD_MAX - 1);
#endif
  driver.name = "dgx-read";
  driver.maxaddr = static_cast<haddr_t>(std::numeric_limits<off_t>::max());
  driver.fc_degree = H5F_CLOSE_STRONG;
  driver.fapl_size = sizeof(DriverInfo);
  driver.open = open_file;
  driver.close = close_file;
  driver.cmp = compare;
  driver.query = query;
  driver.get_eoa = get_eoa;
  driver.set_eoa = set_eoa;
  driver.get_eof = get_eof;
  driver.read = read;
  driver.write = write;
  constexpr H5FD_mem_t kEachByItself[H5FD_MEM_NTYPES] = H5FD_FLMAP_DICHOTOMY;
  std::copy(std::begin(kEachByItself), std::end(kEachByItself), driver.fl_map);
  return driver;
}

}  // namespace

Status use_read_driver(hid_t access, Container* container) {
  static const H5FD_class_t kClass = make_class();
  static const hid_t driver = H5FDregister(&kClass);
  const DriverInfo info{container};
  if (driver < 0 || H5Pset_driver(access, driver, &info) < 0)
    return internal_error("hdf5: cannot set up a driver");
  return {};
}

}  // namespace dgx::bundle::h5
