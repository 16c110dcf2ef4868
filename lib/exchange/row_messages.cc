#include "dgx/exchange/row_messages.h"

#include <fmt/format.h>

#include "dgx/exchange/coding.h"

namespace dgx::exchange {
namespace {

std::span<std::uint8_t> bytes_of(std::vector<std::uint64_t>& length) {
  return {reinterpret_cast<std::uint8_t*>(length.data()), sizeof(std::uint64_t)};
}

}  // namespace

void RowMessages::expect(int from, Tag tag, std::span<std::uint8_t> bytes, std::size_t row) {
  expected_.push_back({from, tag, bytes, row, std::vector<std::uint64_t>(1)});
  Expected& message = expected_.back();
  message.request = ranks_.receive(from, tag, bytes_of(message.length));
}

void RowMessages::send(int to, Tag tag, ByteView bytes, std::size_t row) {
  sent_.push_back({std::vector<std::uint64_t>(1), encode_rows(bytes, row)});
  Sent& message = sent_.back();
  if (message.coded.size() >= bytes.size()) message.coded = {};
  const std::size_t length = message.coded.empty() ? bytes.size() : message.coded.size();
  message.length.front() = length;
  saved_ += static_cast<std::int64_t>(bytes.size() - length) - std::int64_t{sizeof(std::uint64_t)};
  message.requests.push_back(ranks_.send(to, tag, bytes_of(message.length)));
  const ByteView coded{reinterpret_cast<const std::uint8_t*>(message.coded.data()), message.coded.size()};
  message.requests.push_back(ranks_.send(to, tag, coded.empty() ? bytes : coded));
}

/// Waits for all lengths and then for all rows, so that no message waits for the rows of another.
Status RowMessages::receive_coded(std::vector<Expected>& messages) {
  for (Expected& message : messages) {
    DGX_CHECK(ranks_.wait(message.request));
    const std::uint64_t length = message.length.front();
    if (length > message.bytes.size() || (length == 0 && !message.bytes.empty()))
      return malformed(fmt::format("coded rows: {} bytes, for rows of {}", length, message.bytes.size()));
    if (length < message.bytes.size()) message.coded.resize(length);
    message.request =
        ranks_.receive(message.from, message.tag,
                       message.coded.empty() ? message.bytes : std::span<std::uint8_t>(message.coded));
  }
  Status first;  // of all, since memory that a message is on its way to must stay
  for (const Expected& message : messages) {
    Status status = ranks_.wait(message.request);
    if (status.ok() && !message.coded.empty())
      status = decode_rows(std::as_bytes(std::span(message.coded)), message.row, message.bytes);
    if (first.ok()) first = std::move(status);
  }
  return first;
}

Status RowMessages::finish() {
  std::vector<Expected> expected = std::exchange(expected_, {});
  const std::vector<Sent> sent = std::exchange(sent_, {});
  DGX_CHECK(receive_coded(expected));
  for (const Sent& message : sent) {
    for (const Request request : message.requests) DGX_CHECK(ranks_.wait(request));
  }
  return {};
}

}  // namespace dgx::exchange
