#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "dgx/exchange/exchange.h"

namespace dgx::exchange {

/// Messages of floats most of which are +0 (dgx-placement(7), "Codings"). Each list of floats goes coded, or
/// as it lies in memory where that is not longer. Its length goes before it, so the receiver cannot begin to
/// wait for the floats when a step begins, but only for the lengths.
///
/// One thread of a rank makes all calls, as for Exchange, whose errors these are. kMalformed, too, if a list
/// would be longer than its floats, or is no coding; the floats then hold anything. Once one has failed, the
/// ranks can no longer go on together.
class SparseMessages {
 public:
  using Lists = std::span<const std::span<float>>;

  /// Borrows the ranks.
  explicit SparseMessages(Exchange& ranks) : ranks_(ranks) {}

  /// Sends these lists to a rank, which must expect() as many. What they say may not change before
  /// wait_for_sent(). Cost: linear in the floats.
  void send(int to, Tag tag, Lists lists);
  [[nodiscard]] Status wait_for_sent();

  /// Begins to receive so many lists of a tag, at most one message of it at a time.
  void expect(int from, Tag tag, std::size_t lists);
  /// Waits for the lists of a tag that are expected, and writes all their floats.
  [[nodiscard]] Status receive(Tag tag, Lists lists);

  /// Gives all ranks the root's lists. All must call it, for lists of the same lengths.
  [[nodiscard]] Status broadcast(int root, Lists lists);

  /// The bytes that this rank would have sent more, and broadcast as the root, without coding; below 0 where
  /// the lengths are more than what the coding saves.
  [[nodiscard]] std::int64_t saved() const { return saved_; }

 private:
  using Lengths = std::vector<std::uint64_t>;
  struct Expected {
    int from = 0;
    Lengths lengths;
    Request request;
  };
  struct Sent {
    Lengths lengths;
    std::vector<std::vector<std::byte>> coded;  // one for each list; empty: the floats themselves
    std::vector<Request> requests;
  };
  Sent encoded(Lists lists);

  Exchange& ranks_;
  std::map<Tag, Expected> expected_;
  std::vector<Sent> sent_;
  std::int64_t saved_ = 0;
};

}  // namespace dgx::exchange
