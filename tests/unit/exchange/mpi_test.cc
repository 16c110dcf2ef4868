// Started by mpi.py, or without mpirun as the only rank:
//
//   exchange_mpi_test MODULE talk       holds every conversation; exits 1 if something was wrong
//   exchange_mpi_test MODULE delayed    the same, over a slower network
//   exchange_mpi_test MODULE give-up    the last rank gives up with code 42 while the others wait
//   exchange_mpi_test MODULE killed     the last rank is killed while the others wait
//   exchange_mpi_test MODULE large      two ranks: lengths beyond 2 GiB, 12 GiB of memory together
#include <dlfcn.h>
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "conversations.h"
#include "dgx/exchange/delayed.h"
#include "dgx/exchange/mpi.h"
#include "dgx/jobs/mpi_module.h"

using namespace dgx;
using exchange::Exchange;

namespace {

/// Prints what is wrong, with the rank; returns the exit code.
int say(const Exchange& ranks, const char* name, const std::string& problems) {
  if (problems.empty()) return 0;
  std::fprintf(stderr, "rank %d of %d, %s: %s\n", ranks.rank(), ranks.ranks(), name, problems.c_str());
  return 1;
}

int talk(Exchange& ranks) {
  int code = 0;
  for (const tests::Conversation& conversation : tests::conversations())
    code |= say(ranks, conversation.name, conversation.hold(ranks));
  const auto again = jobs::open_mpi();
  if (again.ok() || again.error().message.find("was started in this process before") == std::string::npos)
    code |= say(ranks, "open_mpi()", "MPI is started twice");
  return code;
}

int wait_for_the_last(Exchange& ranks) {
  Bytes bytes(8), all(8 * static_cast<std::size_t>(ranks.ranks()));
  const int last = ranks.ranks() - 1;
  const std::vector<std::int64_t> sizes(static_cast<std::size_t>(ranks.ranks()), 8);
  const Status status =
      ranks.wait(ranks.rank() % 2 == 0 ? ranks.receive(last, 1, bytes) : ranks.gather(bytes, all, sizes));
  return say(ranks, "waiting", status.ok() ? "it came" : status.error().message) + 1;
}

std::uint8_t byte_at(std::size_t place, int rank) {
  return static_cast<std::uint8_t>((place * 0x9E37'79B9'7F4A'7C15 >> 56) + static_cast<std::size_t>(rank));
}

int check_bytes(const Exchange& ranks, ByteView bytes, int of, const char* name) {
  for (std::size_t i = 0; i < bytes.size(); ++i)
    if (bytes[i] != byte_at(i, of)) return say(ranks, name, "byte " + std::to_string(i) + " is another one");
  return 0;
}

int move_large(Exchange& ranks) {
  constexpr std::size_t kSize = (std::size_t{1} << 31) + 12'345;  // no int can count them
  constexpr std::size_t kHalf = kSize / 2 + 7;
  int code = 0;
  Bytes bytes(kSize);
  if (ranks.rank() == 0)
    for (std::size_t i = 0; i < kSize; ++i) bytes[i] = byte_at(i, 0);
  const exchange::Request message = ranks.rank() == 0 ? ranks.send(1, 1, bytes) : ranks.receive(0, 1, bytes);
  code |= ranks.wait(message).ok() ? check_bytes(ranks, bytes, 0, "message") : say(ranks, "message", "lost");
  if (ranks.rank() == 1) bytes.assign(kSize, 0);
  const Status broadcast = ranks.wait(ranks.broadcast(0, bytes));
  code |= broadcast.ok() ? check_bytes(ranks, bytes, 0, "broadcast") : say(ranks, "broadcast", "lost");
  bytes.assign(2 * kHalf, 0);
  Bytes own(kHalf);
  for (std::size_t i = 0; i < kHalf; ++i) own[i] = byte_at(i, ranks.rank());
  const Status gather = ranks.wait(ranks.gather(own, bytes, std::vector<std::int64_t>(2, kHalf)));
  if (!gather.ok()) return say(ranks, "gather", gather.error().message);
  code |= check_bytes(ranks, std::span(bytes).first(kHalf), 0, "first share");
  return code | check_bytes(ranks, std::span(bytes).subspan(kHalf), 1, "second share");
}

/// A module refuses a caller that was built with other headers, and has not started MPI for it.
bool refuses_others(const char* module) {
  void* handle = ::dlopen(module, RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) return false;
  const auto open = reinterpret_cast<exchange::OpenMpiFunction>(::dlsym(handle, exchange::kOpenMpiSymbol));
  Result<std::unique_ptr<Exchange>> out = std::unique_ptr<Exchange>();
  return open != nullptr && !open("another", &out) && !open(nullptr, &out) && out.ok() && *out == nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string_view command = argv[2];
  ::setenv("DGX_MPI_MODULE", argv[1], 1);
  if (!refuses_others(argv[1])) {
    std::fprintf(stderr, "%s opens for others\n", argv[1]);
    return 1;
  }
  auto opened = jobs::open_mpi();
  if (!opened.ok()) {
    std::fprintf(stderr, "%s\n", opened.error().message.c_str());
    return 1;
  }
  if (command == "delayed") {
    const auto ranks = static_cast<std::size_t>((*opened)->ranks());
    exchange::Network network{(*opened)->ranks(),
                              std::vector<exchange::Link>(ranks * ranks, {100, 4'000'000'000})};
    opened = make_delayed(std::move(*opened), std::move(network));
    if (!opened.ok()) return 1;
  }
  Exchange& ranks = **opened;
  const bool is_last = ranks.rank() == ranks.ranks() - 1;
  if (command == "talk" || command == "delayed") return talk(ranks);
  if (command == "large") return move_large(ranks);
  if (command == "give-up" && is_last) ranks.give_up(42);
  if (command == "killed" && is_last) ::raise(SIGKILL);
  return wait_for_the_last(ranks);
}
