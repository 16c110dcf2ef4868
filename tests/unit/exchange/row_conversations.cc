// Conversations in messages of rows.
#include <algorithm>
#include <cstring>

#include "conversations.h"
#include "dgx/exchange/row_messages.h"

namespace dgx::tests {
namespace {

using exchange::Exchange;
using exchange::Request;

constexpr std::size_t kRow = 24;

/// Rows of one rank for another, of which those with a number that `every` divides have numbers.
Bytes rows_of(int from, int to, std::size_t count, std::size_t every) {
  Bytes out(count * kRow);
  for (std::size_t n = 0; n < count; n += every)
    out[n * kRow + n % kRow] = static_cast<std::uint8_t>(1 + from * 16 + to);
  return out;
}

}  // namespace

std::string send_rows(Exchange& exchange) {
  const int self = exchange.rank(), ranks = exchange.ranks();
  std::string wrong;
  exchange::RowMessages messages(exchange);
  for (const std::size_t every : {1U, 3U, 1'000U}) {  // the same messages, several times
    for (const std::size_t count : {1U, 7U, 2'000U}) {
      std::vector<Bytes> own, right, received;
      for (int rank = 0; rank < ranks; ++rank) {
        own.push_back(rows_of(self, rank, count, every));
        right.push_back(rows_of(rank, self, count, every));
        received.emplace_back(count * kRow, std::uint8_t{7});
      }
      for (int rank = 0; rank < ranks; ++rank)
        messages.expect(rank, 3, received[static_cast<std::size_t>(rank)], kRow);
      for (int rank = ranks; rank-- > 0;) messages.send(rank, 3, own[static_cast<std::size_t>(rank)], kRow);
      if (const Status status = messages.finish(); !status.ok()) wrong += status.error().message + "\n";
      if (received != right) wrong += "other rows are received\n";
    }
  }
  // 1,333 + 1,998 + 4 + 6 rows of zeros, less a bit for each row of these and nine lengths; from each to
  // each.
  if (messages.saved() != ranks * (3'341 * std::int64_t{kRow} - 502 - 72)) wrong += "other bytes are saved\n";
  return wrong;
}

std::string refuse_wrong_rows(Exchange& exchange) {
  const int self = exchange.rank();
  const auto refusal = [&](std::uint64_t length, const Bytes& text) -> std::string {
    exchange::RowMessages messages(exchange);
    Bytes rows(2 * kRow, 7), lengths(8);
    messages.expect(self, 4, rows, kRow);
    std::memcpy(lengths.data(), &length, 8);
    std::vector<Request> sent{exchange.send(self, 4, lengths)};
    if (!text.empty()) sent.push_back(exchange.send(self, 4, text));
    const Status status = messages.finish();
    for (const Request request : sent) (void)exchange.wait(request);
    return status.ok() ? "" : status.error().message;
  };
  std::string wrong;
  if (refusal(49, {}) != "coded rows: 49 bytes, for rows of 48") wrong += "a long message\n";
  if (refusal(0, {}) != "coded rows: 0 bytes, for rows of 48") wrong += "an empty message\n";
  if (refusal(1, {4}) != "coded rows: bits behind the last row") wrong += "a third row\n";
  if (refusal(2, {1, 1}) != "coded rows: the text ends too early") wrong += "a message that ends early\n";
  if (!refusal(48, Bytes(48)).empty()) wrong += "rows as they lie\n";
  if (!refusal(1, {0}).empty()) wrong += "rows of zeros\n";
  return wrong;
}

}  // namespace dgx::tests
