#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "dgx/core/result.h"
#include "dgx/exchange/exchange.h"

namespace dgx::exchange {

/// Messages of rows, some of which are all +0 (dgx-placement(7), "Codings"), that ranks send each other at
/// one time. Each goes coded, or as it lies in memory where that is not longer, with its length before it.
///
/// One thread of a rank makes all calls, as for Exchange, whose errors these are. Once one has failed, the
/// ranks can no longer go on together.
class RowMessages {
 public:
  /// Borrows the ranks.
  explicit RowMessages(Exchange& ranks) : ranks_(ranks) {}

  /// Begins to receive what rank `from` will send() with this tag: bytes.size() bytes, in rows of `row`
  /// bytes, which is above 0, divides them, and is the sender's. `bytes` are borrowed until finish().
  void expect(int from, Tag tag, std::span<std::uint8_t> bytes, std::size_t row);
  /// Sends bytes in rows of `row` bytes, as above; they may not change before finish(). Cost: linear in them.
  void send(int to, Tag tag, ByteView bytes, std::size_t row);
  /// Waits for all that was expected, and writes it, and until all is sent. kMalformed, too, if something
  /// would be longer than its bytes, or is no coding; these then hold anything.
  [[nodiscard]] Status finish();

  /// The bytes that this rank would have sent more without coding; below 0 where the lengths are more.
  [[nodiscard]] std::int64_t saved() const { return saved_; }

 private:
  struct Expected {
    int from = 0;
    Tag tag = 0;
    std::span<std::uint8_t> bytes{};
    std::size_t row = 1;
    std::vector<std::uint64_t> length;  // one
    Request request{};
    std::vector<std::uint8_t> coded{};  // empty: they come as they lie
  };
  struct Sent {
    std::vector<std::uint64_t> length;  // one
    std::vector<std::byte> coded{};     // empty: the bytes themselves
    std::vector<Request> requests{};
  };
  Status receive_coded(std::vector<Expected>& messages);

  Exchange& ranks_;
  std::vector<Expected> expected_;
  std::vector<Sent> sent_;
  std::int64_t saved_ = 0;
};

}  // namespace dgx::exchange
