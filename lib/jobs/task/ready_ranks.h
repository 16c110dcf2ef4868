#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "dgx/core/bytes.h"
#include "dgx/core/result.h"
#include "dgx/exchange/exchange.h"

namespace dgx::jobs {

/// A rank's word before the ranks begin. All zero but `ready` where they have agreed on the rest before.
struct Greeting {
  std::uint8_t ready = 0;
  Digest version{}, task{}, plan{};

  /// For ranks that agree on nothing yet.
  [[nodiscard]] static Greeting of_this_version();
};

/// Waits until all ranks have said whether they can begin. False if another cannot, whose error says why; the
/// error of this rank, with its name, if it cannot itself. Where rank 0 cannot either, it alone says why.
/// kMalformed, on rank 0, naming the first rank that has another version, task or plan than it. `is_broken`
/// is set while an error is this rank's alone, so that the others would wait for it.
[[nodiscard]] Result<bool> all_are_ready(exchange::Exchange& ranks, const Status& own, Greeting greeting,
                                         bool& is_broken);

template <class T>
[[nodiscard]] Status status_of(const Result<T>& result) {
  return result.ok() ? Status() : Status(result.error());
}

/// The ranks among which MPI has started this process. Errors of open_mpi() and check_launched_with().
[[nodiscard]] Result<std::unique_ptr<exchange::Exchange>> open_ranks();
/// An error of this rank alone, for an exception: it must not get as far as the exchange's end, where MPI
/// waits for the others.
[[nodiscard]] Error failed_rank(const exchange::Exchange& ranks, const std::string& why);
/// Ends the other ranks with this process, once it has said why: they wait for its messages.
void give_up_at_exit(std::unique_ptr<exchange::Exchange> ranks);

/// Does a job of several ranks as one of them. `job` gets the exchange, which it may wrap, and sets is_broken
/// while an error is this rank's alone: then the others end with this process.
template <class T>
[[nodiscard]] Result<T> on_ranks(
    const std::function<Result<T>(std::unique_ptr<exchange::Exchange>& ranks, bool& is_broken)>& job) {
  DGX_TRY(std::unique_ptr<exchange::Exchange> ranks, open_ranks());
  bool is_broken = false;
  const auto failed = [&](const std::string& why) -> Result<T> {
    is_broken = true;
    return failed_rank(*ranks, why);
  };
  Result<T> result = [&]() -> Result<T> {
    try {
      return job(ranks, is_broken);
    } catch (const std::bad_alloc&) {
      return failed("not enough memory");
    } catch (const std::exception& error) {
      return failed(error.what());
    }
  }();
  if (!result.ok() && is_broken) give_up_at_exit(std::move(ranks));
  return result;
}

}  // namespace dgx::jobs
