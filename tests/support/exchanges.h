#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dgx/exchange/exchange.h"

namespace dgx::test {

/// A rank that does what another Exchange does.
class ForwardingExchange : public exchange::Exchange {
 public:
  explicit ForwardingExchange(Exchange& to) : to_(to) {}

  [[nodiscard]] int rank() const override { return to_.rank(); }
  [[nodiscard]] int ranks() const override { return to_.ranks(); }
  [[nodiscard]] int ranks_here() const override { return to_.ranks_here(); }
  [[nodiscard]] std::string host_of(int rank) const override { return to_.host_of(rank); }
  [[nodiscard]] exchange::Request send(int to, exchange::Tag tag, ByteView bytes) override {
    return to_.send(to, tag, bytes);
  }
  [[nodiscard]] exchange::Request receive(int from, exchange::Tag tag,
                                          std::span<std::uint8_t> bytes) override {
    return to_.receive(from, tag, bytes);
  }
  [[nodiscard]] exchange::Request broadcast(int root, std::span<std::uint8_t> bytes) override {
    return to_.broadcast(root, bytes);
  }
  [[nodiscard]] exchange::Request gather(ByteView own, std::span<std::uint8_t> all,
                                         std::span<const std::int64_t> sizes) override {
    return to_.gather(own, all, sizes);
  }
  [[nodiscard]] Status wait(exchange::Request request) override { return to_.wait(request); }
  void progress() override { to_.progress(); }
  void give_up(int exit_code) override { to_.give_up(exit_code); }
  [[nodiscard]] exchange::Traffic traffic() const override { return to_.traffic(); }

 private:
  Exchange& to_;
};

/// A rank that sleeps in each step, before it gives or gets what the last rank has.
class SlowExchange final : public ForwardingExchange {
 public:
  SlowExchange(Exchange& to, std::chrono::milliseconds time) : ForwardingExchange(to), time_(time) {}
  [[nodiscard]] exchange::Request broadcast(int root, std::span<std::uint8_t> bytes) override {
    if (root > 0) std::this_thread::sleep_for(time_);  // rank 0's are orders, between steps
    return ForwardingExchange::broadcast(root, bytes);
  }

 private:
  std::chrono::milliseconds time_;
};

/// A rank that flips a bit of one message: of what it sends or shares, or of what it has received.
class LyingExchange final : public ForwardingExchange {
 public:
  enum class Where { kSend, kGather, kBroadcast, kReceivedBroadcast };

  /// The lie is in the message `number`, from 0, of that kind.
  LyingExchange(Exchange& honest, Where where, int number)
      : ForwardingExchange(honest), where_(where), left_(number) {}

  [[nodiscard]] exchange::Request send(int to, exchange::Tag tag, ByteView bytes) override {
    if (!lies(Where::kSend)) return ForwardingExchange::send(to, tag, bytes);
    copy_.assign(bytes.begin(), bytes.end());
    flip(copy_);
    return ForwardingExchange::send(to, tag, copy_);
  }
  [[nodiscard]] exchange::Request broadcast(int root, std::span<std::uint8_t> bytes) override {
    if (root == rank() && lies(Where::kBroadcast)) flip(bytes);
    const exchange::Request request = ForwardingExchange::broadcast(root, bytes);
    if (root != rank() && lies(Where::kReceivedBroadcast)) received_ = {request.number, bytes};
    return request;
  }
  [[nodiscard]] exchange::Request gather(ByteView own, std::span<std::uint8_t> all,
                                         std::span<const std::int64_t> sizes) override {
    if (!lies(Where::kGather)) return ForwardingExchange::gather(own, all, sizes);
    copy_.assign(own.begin(), own.end());
    flip(copy_);
    return ForwardingExchange::gather(copy_, all, sizes);
  }
  [[nodiscard]] Status wait(exchange::Request request) override {
    Status status = ForwardingExchange::wait(request);
    if (received_ && received_->first == request.number) flip(received_->second);
    if (received_ && received_->first == request.number) received_.reset();
    return status;
  }
  [[nodiscard]] bool has_lied() const { return left_ < 0; }

 private:
  [[nodiscard]] bool lies(Where where) { return where == where_ && left_-- == 0; }
  /// Flips a bit of an exponent, if these are floats, or else one of the last byte.
  static void flip(std::span<std::uint8_t> bytes) {
    if (!bytes.empty()) bytes[std::min(bytes.size() - 1, bytes.size() / 2 | 3U)] ^= 4U;
  }

  Where where_;
  int left_;
  std::vector<std::uint8_t> copy_;
  std::optional<std::pair<std::int64_t, std::span<std::uint8_t>>> received_;
};

}  // namespace dgx::test
