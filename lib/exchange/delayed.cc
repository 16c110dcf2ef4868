#include "dgx/exchange/delayed.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <map>
#include <thread>
#include <utility>

#include "dgx/exchange/arrivals.h"

namespace dgx::exchange {
namespace {

using Clock = std::chrono::steady_clock;  // CLOCK_MONOTONIC
constexpr auto kLongestSleep = std::chrono::microseconds(200);

Nanoseconds now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

/// Times as they travel: all ranks are on one machine.
std::span<std::uint8_t> bytes_of(std::span<Nanoseconds> times) {
  return {reinterpret_cast<std::uint8_t*>(times.data()), times.size_bytes()};
}

class DelayedExchange final : public Exchange {
 public:
  DelayedExchange(std::unique_ptr<Exchange> inner, Network network)
      : inner_(std::move(inner)), network_(std::move(network)), arrivals_(network_, inner_->rank()) {}

  [[nodiscard]] int rank() const override { return inner_->rank(); }
  [[nodiscard]] int ranks() const override { return inner_->ranks(); }
  [[nodiscard]] int ranks_here() const override { return inner_->ranks_here(); }
  [[nodiscard]] std::string host_of(int rank) const override { return inner_->host_of(rank); }

  [[nodiscard]] Request send(int to, Tag tag, ByteView bytes) override;
  [[nodiscard]] Request receive(int from, Tag tag, std::span<std::uint8_t> bytes) override;
  [[nodiscard]] Request broadcast(int root, std::span<std::uint8_t> bytes) override;
  [[nodiscard]] Request gather(ByteView own, std::span<std::uint8_t> all,
                               std::span<const std::int64_t> sizes) override;

  [[nodiscard]] Status wait(Request request) override;
  void progress() override { inner_->progress(); }
  void give_up(int exit_code) override { inner_->give_up(exit_code); }

  [[nodiscard]] Traffic traffic() const override { return traffic_; }

 private:
  struct Operation {
    std::vector<Nanoseconds> times;  ///< that were sent, or are received
    std::vector<Nanoseconds> own;    ///< of a gather: what this rank gave
    /// This rank's arrivals among `times`: every `step`-th from `first` on; 0: none.
    std::size_t first = 0, step = 0;
    Request of_times, of_bytes;
  };

  Request add(Operation operation) {
    operations_.emplace(next_, std::move(operation));
    return {next_++};
  }
  void sleep_until(Nanoseconds time);

  std::unique_ptr<Exchange> inner_;
  Network network_;
  Arrivals arrivals_;
  std::int64_t next_ = 0;
  std::map<std::int64_t, Operation> operations_;
  Traffic traffic_;
};

// The time has the tag of its message, before which it arrives.
Request DelayedExchange::send(int to, Tag tag, ByteView bytes) {
  const auto size = static_cast<std::int64_t>(bytes.size());
  traffic_.sent += size;
  ++traffic_.messages;
  Operation out;
  out.times = {arrivals_.by_link(to, size, now())};
  out.of_times = inner_->send(to, tag, bytes_of(out.times));
  out.of_bytes = inner_->send(to, tag, bytes);
  return add(std::move(out));
}

Request DelayedExchange::receive(int from, Tag tag, std::span<std::uint8_t> bytes) {
  Operation out;
  out.times = {0};
  out.step = 1;
  out.of_times = inner_->receive(from, tag, bytes_of(out.times));
  out.of_bytes = inner_->receive(from, tag, bytes);
  return add(std::move(out));
}

Request DelayedExchange::broadcast(int root, std::span<std::uint8_t> bytes) {
  const auto size = static_cast<std::int64_t>(bytes.size());
  Operation out;
  if (root == rank()) {
    traffic_.broadcast += size;
    ++traffic_.messages;
    out.times = arrivals_.by_tree(size, now());
  } else {
    out.times.resize(static_cast<std::size_t>(ranks()));
    out.first = static_cast<std::size_t>(rank());
    out.step = out.times.size();
  }
  out.of_times = inner_->broadcast(root, bytes_of(out.times));
  out.of_bytes = inner_->broadcast(root, bytes);
  return add(std::move(out));
}

Request DelayedExchange::gather(ByteView own, std::span<std::uint8_t> all,
                                std::span<const std::int64_t> sizes) {
  const auto size = static_cast<std::int64_t>(own.size());
  const auto count = static_cast<std::size_t>(ranks());
  traffic_.gathered += size;
  ++traffic_.messages;
  Operation out;
  const Nanoseconds start = now();
  for (int to = 0; to < ranks(); ++to) out.own.push_back(arrivals_.by_link(to, size, start));
  out.times.resize(count * count);
  out.first = static_cast<std::size_t>(rank());
  out.step = count;
  const std::vector<std::int64_t> equal(count, static_cast<std::int64_t>(count * sizeof(Nanoseconds)));
  out.of_times = inner_->gather(bytes_of(out.own), bytes_of(out.times), equal);
  out.of_bytes = inner_->gather(own, all, sizes);
  return add(std::move(out));
}

Status DelayedExchange::wait(Request request) {
  const auto node = operations_.extract(request.number);
  assert(!node.empty());
  const Operation& operation = node.mapped();
  Status times = inner_->wait(operation.of_times), bytes = inner_->wait(operation.of_bytes);
  DGX_CHECK(std::move(times));
  DGX_CHECK(std::move(bytes));
  if (operation.step == 0) return {};
  Nanoseconds last = 0;
  for (std::size_t i = operation.first; i < operation.times.size(); i += operation.step)
    last = std::max(last, operation.times[i]);
  sleep_until(last);
  return {};
}

// Everything else that is under way goes on meanwhile.
void DelayedExchange::sleep_until(Nanoseconds time) {
  const Clock::time_point end{std::chrono::duration_cast<Clock::duration>(std::chrono::nanoseconds(time))};
  while (Clock::now() < end) {
    inner_->progress();
    std::this_thread::sleep_until(std::min(end, Clock::now() + kLongestSleep));
  }
}

}  // namespace

Result<std::unique_ptr<Exchange>> make_delayed(std::unique_ptr<Exchange> inner, Network network) {
  assert(network.links.size() ==
         static_cast<std::size_t>(network.ranks) * static_cast<std::size_t>(network.ranks));
  if (network.ranks != inner->ranks())
    return usage_error(fmt::format("the network is for {} ranks, not {}", network.ranks, inner->ranks()));
  if (inner->ranks_here() != inner->ranks())
    return usage_error("a network can be emulated on one machine only",
                       "start all ranks there, or leave out --emulate");
  return std::unique_ptr<Exchange>(std::make_unique<DelayedExchange>(std::move(inner), std::move(network)));
}

}  // namespace dgx::exchange
