#include "write_driver.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>

#include "dgx/core/file_system.h"

#if H5_VERSION_GE(1, 13, 0)
#include <H5FDdevelop.h>
#endif

namespace dgx::bundle::h5 {
namespace {

/// The driver's data, which HDF5 copies into a file access list.
struct DriverInfo {
  WriteOutcome* outcome = nullptr;
};

/// The base must come first: HDF5 casts between a file and its first member.
struct File {
  H5FD_t base{};
  int descriptor = -1;
  haddr_t end_of_allocation = 0;
  haddr_t end_of_file = 0;
  WriteOutcome* outcome = nullptr;
};

File* of(H5FD_t* file) { return reinterpret_cast<File*>(file); }
const File* of(const H5FD_t* file) { return reinterpret_cast<const File*>(file); }

void fail(File& file) {
  if (file.outcome->reason == 0) file.outcome->reason = errno == 0 ? EIO : errno;
}

H5FD_t* open_file(const char* name, unsigned flags, hid_t access, haddr_t) {
  const auto* info = static_cast<const DriverInfo*>(H5Pget_driver_info(access));
  if (info == nullptr) return nullptr;
  int mode = (flags & H5F_ACC_RDWR) != 0 ? O_RDWR : O_RDONLY;
  if ((flags & H5F_ACC_TRUNC) != 0) mode |= O_TRUNC;
  if ((flags & H5F_ACC_CREAT) != 0) mode |= O_CREAT;
  if ((flags & H5F_ACC_EXCL) != 0) mode |= O_EXCL;
  const int descriptor = file_system().open(name, mode | O_NOFOLLOW | O_CLOEXEC, 0644);
  struct stat stat {};
  if (descriptor < 0) return nullptr;
  auto* file = ::fstat(descriptor, &stat) == 0 ? new (std::nothrow) File : nullptr;
  if (file == nullptr) {
    file_system().close(descriptor);
    return nullptr;
  }
  file->descriptor = descriptor;
  file->end_of_file = static_cast<haddr_t>(stat.st_size);
  file->outcome = info->outcome;
  return &file->base;
}

herr_t close_file(H5FD_t* base) {
  File* file = of(base);
  if (file_system().close(file->descriptor) != 0) fail(*file);
  delete file;
  return 0;
}

int compare(const H5FD_t* a, const H5FD_t* b) {
  const int x = of(a)->descriptor;
  const int y = of(b)->descriptor;
  return x < y ? -1 : x > y;
}

herr_t query(const H5FD_t*, unsigned long* flags) {
  *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
           H5FD_FEAT_AGGREGATE_SMALLDATA;
  return 0;
}

haddr_t get_eoa(const H5FD_t* file, H5FD_mem_t) { return of(file)->end_of_allocation; }
haddr_t get_eof(const H5FD_t* file, H5FD_mem_t) { return of(file)->end_of_file; }
herr_t set_eoa(H5FD_t* file, H5FD_mem_t, haddr_t end) {
  of(file)->end_of_allocation = end;
  return 0;
}

/// Reads zeros past the end of what was written.
herr_t read(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t at, std::size_t size, void* buffer) {
  auto* to = static_cast<std::uint8_t*>(buffer);
  while (size > 0) {
    const ssize_t got = ::pread(of(file)->descriptor, to, size, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    to += got;
    at += static_cast<haddr_t>(got);
    size -= static_cast<std::size_t>(got);
  }
  std::memset(to, 0, size);
  return 0;
}

herr_t write(H5FD_t* base, H5FD_mem_t, hid_t, haddr_t at, std::size_t size, const void* buffer) {
  File& file = *of(base);
  const auto* from = static_cast<const std::uint8_t*>(buffer);
  const haddr_t end = at + size;
  while (size > 0 && file.outcome->reason == 0) {
    errno = 0;
    const ssize_t done = file_system().pwrite(file.descriptor, from, size, static_cast<off_t>(at));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) {
      fail(file);
      break;
    }
    from += done;
    at += static_cast<haddr_t>(done);
    size -= static_cast<std::size_t>(done);
  }
  file.end_of_file = std::max(file.end_of_file, end);
  return 0;
}

/// Makes the file end where the allocation does.
herr_t truncate(H5FD_t* base, hid_t, hbool_t) {
  File& file = *of(base);
  if (file.end_of_file == file.end_of_allocation) return 0;
  if (file.outcome->reason == 0 &&
      file_system().ftruncate(file.descriptor, static_cast<off_t>(file.end_of_allocation)) != 0) {
    fail(file);
  }
  file.end_of_file = file.end_of_allocation;
  return 0;
}

H5FD_class_t make_class() {
  H5FD_class_t driver{};
#if H5_VERSION_GE(1, 13, 0)
  driver.version = H5FD_CLASS_VERSION;
  driver.value = static_cast<H5FD_class_value_t>(H5_VFD_MAX);
#endif
  driver.name = "dgx";
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
  driver.truncate = truncate;
  constexpr H5FD_mem_t kAllAlike[H5FD_MEM_NTYPES] = H5FD_FLMAP_DICHOTOMY;
  std::copy(std::begin(kAllAlike), std::end(kAllAlike), driver.fl_map);
  return driver;
}

}  // namespace

Status use_write_driver(hid_t access, WriteOutcome* outcome) {
  static const H5FD_class_t kClass = make_class();
  static const hid_t driver = H5FDregister(&kClass);
  const DriverInfo info{outcome};
  if (driver < 0 || H5Pset_driver(access, driver, &info) < 0)
    return internal_error("hdf5: cannot set up a driver");
  return {};
}

}  // namespace dgx::bundle::h5
