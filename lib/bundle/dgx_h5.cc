// dgx-h5 PATH: describes the numbers at PATH of the container on standard input, and where in it they are, as
// a message (table.h) on standard output. The HDF5 library opens the container here, in a process that has
// given up everything else: the worst a crafted file can cause is a wrong message, which its reader checks,
// or death by a signal.

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <string_view>

#include "confine.h"
#include "h5.h"
#include "h5_table.h"

#if defined(__SANITIZE_ADDRESS__)
// A sanitizer's report ends the process as a crash does; leaks in HDF5 are ignored.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() { return "abort_on_error=1:detect_leaks=0"; }
#endif

namespace dgx::bundle {
namespace {

void write_all(ByteView bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return;
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
}

/// The superblock may begin at 0, 512, 1024, 2048, ...
Result<h5::Container> find_container() {
  constexpr std::array<std::uint8_t, 8> kSignature{0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
  struct stat info {};
  if (::fstat(STDIN_FILENO, &info) != 0 || !S_ISREG(info.st_mode)) return malformed("is not a regular file");
  const auto size = static_cast<std::uint64_t>(info.st_size);
  for (std::uint64_t at = 0; at < size; at = at == 0 ? 512 : 2 * at) {
    std::array<std::uint8_t, 8> head{};
    const ssize_t got = ::pread(STDIN_FILENO, head.data(), head.size(), static_cast<off_t>(at));
    if (got == static_cast<ssize_t>(head.size()) && head == kSignature)
      return h5::Container{STDIN_FILENO, at, size - at};
  }
  return malformed("is not an HDF5 file");
}

Result<Table> answer(const std::string& path) {
  h5::prepare();
  DGX_TRY(h5::Container container, find_container());
  const Confinement walls = confine_this_process();
  if (!walls.limits && !walls.syscalls && std::getenv("DGX_UNCONFINED") == nullptr) {
    return internal_error("this system can neither limit nor filter what a process does",
                          "DGX_UNCONFINED=1 reads files all the same: only your own");
  }
  return read_table(container, path);
}

}  // namespace
}  // namespace dgx::bundle

int main(int argc, char** argv) {
  using namespace dgx::bundle;
  if (argc != 2) return 2;
  if (argv[1] == std::string_view("--confinement")) {
    const std::string text = describe(confine_this_process()) + "\n";
    write_all(dgx::as_bytes(text));
    ::_exit(0);
  }
  ::syscall(SYS_close_range, 3U, ~0U, 0U);  // older systems lack it, and nothing of ours is inherited anyway
  dgx::Bytes message;
  try {
    message = encode_message(answer(argv[1]));
  } catch (const std::exception&) {
    message = encode_message(dgx::internal_error("the container needs more memory than dgx-h5 may have"));
  }
  write_all(message);
  // HDF5 crashes at exit after some of the files that it has refused.
  ::_exit(0);
}
