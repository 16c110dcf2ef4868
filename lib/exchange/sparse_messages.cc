#include "dgx/exchange/sparse_messages.h"

#include <fmt/format.h>

#include "dgx/exchange/coding.h"

namespace dgx::exchange {
namespace {

template <class Item>
std::span<std::uint8_t> bytes_of(std::span<Item> items) {
  return {reinterpret_cast<std::uint8_t*>(items.data()), items.size_bytes()};
}

/// One list of a message: its floats, and where they are received if they come coded.
struct Arriving {
  std::span<float> floats;
  std::vector<std::byte> coded;  ///< empty: they come as they lie

  [[nodiscard]] std::span<std::uint8_t> memory() {
    return coded.empty() ? bytes_of(floats) : bytes_of(std::span(coded));
  }
  [[nodiscard]] Status finish() const { return coded.empty() ? Status() : decode_sparse(coded, floats); }
};

Result<Arriving> arriving(std::span<float> floats, std::uint64_t length) {
  if (length > floats.size_bytes())
    return malformed(fmt::format("coded values: {} bytes, for floats of {}", length, floats.size_bytes()));
  if (length == 0 && !floats.empty()) return malformed("coded values: no bytes, for floats");
  return Arriving{floats, std::vector<std::byte>(length == floats.size_bytes() ? 0 : length)};
}

}  // namespace

SparseMessages::Sent SparseMessages::encoded(Lists lists) {
  Sent out;
  for (const std::span<float> floats : lists) {
    std::vector<std::byte> coded = encode_sparse(floats);
    if (coded.size() >= floats.size_bytes()) coded.clear();
    coded.shrink_to_fit();
    out.lengths.push_back(coded.empty() ? floats.size_bytes() : coded.size());
    saved_ += static_cast<std::int64_t>(floats.size_bytes() - out.lengths.back());
    out.coded.push_back(std::move(coded));
  }
  saved_ -= static_cast<std::int64_t>(bytes_of(std::span(out.lengths)).size());
  return out;
}

void SparseMessages::send(int to, Tag tag, Lists lists) {
  Sent& message = sent_.emplace_back(encoded(lists));
  message.requests.push_back(ranks_.send(to, tag, bytes_of(std::span(message.lengths))));
  for (std::size_t n = 0; n < lists.size(); ++n) {
    const bool is_coded = !message.coded[n].empty();
    message.requests.push_back(
        ranks_.send(to, tag, is_coded ? bytes_of(std::span(message.coded[n])) : bytes_of(lists[n])));
  }
}

Status SparseMessages::wait_for_sent() {
  for (const Sent& message : sent_) {
    for (const Request request : message.requests) DGX_CHECK(ranks_.wait(request));
  }
  sent_.clear();
  return {};
}

void SparseMessages::expect(int from, Tag tag, std::size_t lists) {
  Expected& message = expected_[tag];
  message.from = from;
  message.lengths.resize(lists);
  message.request = ranks_.receive(from, tag, bytes_of(std::span(message.lengths)));
}

Status SparseMessages::receive(Tag tag, Lists lists) {
  const auto found = expected_.find(tag);
  if (found == expected_.end() || found->second.lengths.size() != lists.size())
    return internal_error("coded values that are not expected");
  DGX_CHECK(ranks_.wait(found->second.request));
  const Expected message = std::move(found->second);
  expected_.erase(found);
  for (std::size_t n = 0; n < lists.size(); ++n) {
    DGX_TRY(Arriving list, arriving(lists[n], message.lengths[n]));
    DGX_CHECK(ranks_.wait(ranks_.receive(message.from, tag, list.memory())));
    DGX_CHECK(list.finish());
  }
  return {};
}

Status SparseMessages::broadcast(int root, Lists lists) {
  if (lists.empty()) return {};
  const bool is_root = ranks_.rank() == root;
  Sent own = is_root ? encoded(lists) : Sent{Lengths(lists.size()), {}, {}};
  DGX_CHECK(ranks_.wait(ranks_.broadcast(root, bytes_of(std::span(own.lengths)))));
  std::vector<Arriving> all;
  for (std::size_t n = 0; n < lists.size(); ++n) {
    DGX_TRY(Arriving list, arriving(lists[n], own.lengths[n]));
    if (is_root) list.coded = std::move(own.coded[n]);
    all.push_back(std::move(list));
  }
  std::vector<Request> requests;
  for (Arriving& list : all) requests.push_back(ranks_.broadcast(root, list.memory()));
  for (const Request request : requests) DGX_CHECK(ranks_.wait(request));
  for (const Arriving& list : all) {
    if (!is_root) DGX_CHECK(list.finish());
  }
  return {};
}

}  // namespace dgx::exchange
