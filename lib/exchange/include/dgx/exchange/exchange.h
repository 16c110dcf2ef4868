#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"

namespace dgx::exchange {

/// The number by which a message is known, 0 to kMaxTag: the step program's value that it carries.
using Tag = int;
inline constexpr Tag kMaxTag = 65'535;

/// An operation that was started, for wait(). Each must be waited for, once.
struct Request {
  std::int64_t number = -1;
};

/// Bytes that this rank has given away, for the report of a run.
struct Traffic {
  std::int64_t sent = 0;       ///< by send(), headers left out
  std::int64_t broadcast = 0;  ///< as the root, once, however many receive them
  std::int64_t gathered = 0;   ///< the own share, once
  std::int64_t messages = 0;   ///< sends, broadcasts as the root, gathers
};

/// Talk between the ranks of one step (dgx-placement(7), "Ranks"). A rank is a process, or in tests
/// a thread; they are numbered from 0.
///
/// Operations are started, and end in wait(). Memory handed over belongs to the operation until then: what is
/// sent may not change, what is received may not be read. One thread of a rank makes all calls. An operation
/// makes progress in wait() and progress() alone, so a rank that computes for long calls the latter.
///
/// Messages from one rank to another with the same tag arrive in the order in which they were sent.
/// Broadcasts must be started in the same order, with the same roots and lengths, by all ranks; so must
/// gathers; the two orders are independent. A rank that waits for what nobody sends waits for ever.
///
/// A message of another length than its receiver expects is kMalformed, with both lengths, in the receiver's
/// wait(), and nothing is written beyond the memory that was given. give_up() of a process, or its death,
/// ends the processes of all ranks by the rules of MPI. Where it does not, as among threads, every wait() of
/// every rank is kInternal once one has given up, and a wait() for a rank that is lost is kInternal.
class Exchange {
 public:
  virtual ~Exchange() = default;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int ranks() const = 0;
  /// Ranks on this rank's machine, itself included.
  [[nodiscard]] virtual int ranks_here() const = 0;
  /// The machine of a rank, as errors name it.
  [[nodiscard]] virtual std::string host_of(int rank) const = 0;

  [[nodiscard]] virtual Request send(int to, Tag tag, ByteView bytes) = 0;
  [[nodiscard]] virtual Request receive(int from, Tag tag, std::span<std::uint8_t> bytes) = 0;
  /// Gives all ranks the root's bytes.
  [[nodiscard]] virtual Request broadcast(int root, std::span<std::uint8_t> bytes) = 0;
  /// Gives all ranks all shares, one after the other in the order of ranks. `all` has sum(sizes) bytes, `own`
  /// sizes[rank()], and may lie at its place in `all`, where it may be read meanwhile; sizes are the same
  /// everywhere, and copied.
  [[nodiscard]] virtual Request gather(ByteView own, std::span<std::uint8_t> all,
                                       std::span<const std::int64_t> sizes) = 0;

  /// Returns when the operation is complete. For send(): when its memory may change again.
  [[nodiscard]] virtual Status wait(Request request) = 0;
  virtual void progress() = 0;
  /// Ends all ranks: with `exit_code` where they are processes, in which case it does not return.
  virtual void give_up(int exit_code) = 0;

  [[nodiscard]] virtual Traffic traffic() const = 0;
};

/// Ranks that are threads of this process, one Exchange for each; they may outlive each other. A rank whose
/// Exchange is gone is lost: what it sent before still arrives. Broadcasts and gathers on which ranks differ
/// in roots or lengths are kMalformed with both. Cost: a copy for each message.
[[nodiscard]] std::vector<std::unique_ptr<Exchange>> make_local(int ranks);

}  // namespace dgx::exchange
