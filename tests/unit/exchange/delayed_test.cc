#include "dgx/exchange/delayed.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "conversations.h"
#include "dgx/exchange/arrivals.h"

using namespace dgx;
using namespace dgx::exchange;

namespace {

constexpr std::int64_t kMillisecond = 1'000'000;

/// 8 Mbit/s, a byte in a microsecond, and 20 ms, everywhere.
Network slow_network(int ranks) {
  const auto count = static_cast<std::size_t>(ranks);
  return {ranks, std::vector<Link>(count * count, {20'000, 8'000'000})};
}

std::vector<std::unique_ptr<Exchange>> delayed(const Network& network) {
  std::vector<std::unique_ptr<Exchange>> out;
  for (std::unique_ptr<Exchange>& inner : make_local(network.ranks)) {
    auto made = make_delayed(std::move(inner), network);
    REQUIRE(made.ok());
    out.push_back(std::move(made).value());
  }
  return out;
}

/// Ranks that pretend to be on two machines.
class TwoMachines final : public Exchange {
 public:
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int ranks() const override { return 2; }
  [[nodiscard]] int ranks_here() const override { return 1; }
  [[nodiscard]] std::string host_of(int) const override { return {}; }
  [[nodiscard]] Request send(int, Tag, ByteView) override { return {}; }
  [[nodiscard]] Request receive(int, Tag, std::span<std::uint8_t>) override { return {}; }
  [[nodiscard]] Request broadcast(int, std::span<std::uint8_t>) override { return {}; }
  [[nodiscard]] Request gather(ByteView, std::span<std::uint8_t>, std::span<const std::int64_t>) override {
    return {};
  }
  [[nodiscard]] Status wait(Request) override { return {}; }
  void progress() override {}
  void give_up(int) override {}
  [[nodiscard]] Traffic traffic() const override { return {}; }
};

}  // namespace

TEST_CASE("a link carries one message after the other, and two links carry two at once") {
  Network network = slow_network(3);
  network.links[2] = {5'000, 0};  // from 0 to 2
  Arrivals arrivals(network, 0);
  CHECK(arrivals.by_link(1, 100'000, 0) == 120 * kMillisecond);
  CHECK(arrivals.by_link(1, 50'000, 10 * kMillisecond) == 170 * kMillisecond);
  CHECK(arrivals.by_link(1, 0, 10 * kMillisecond) == 170 * kMillisecond);
  CHECK(arrivals.by_link(2, 1'000'000'000, 10 * kMillisecond) == 15 * kMillisecond);
  CHECK(arrivals.by_link(0, 100'000, 7) == 7);
  CHECK(arrivals.by_link(1, 1'000, 500 * kMillisecond) == 521 * kMillisecond);
}

TEST_CASE("a broadcast goes along a tree whose ranks send one after the other") {
  const Network network = slow_network(6);
  Arrivals arrivals(network, 4);
  // From the root: to 5 in round 0, to 0 in 1, to 2 in 2; from 5 to 1, to 3.
  const std::vector<Nanoseconds> wanted = {
      220 * kMillisecond, 240 * kMillisecond, 320 * kMillisecond, 340 * kMillisecond, 0, 120 * kMillisecond};
  CHECK(arrivals.by_tree(100'000, 0) == wanted);
  CHECK(arrivals.by_link(5, 0, 0) == 120 * kMillisecond);  // behind the broadcast
  CHECK(arrivals.by_link(2, 0, 0) == 320 * kMillisecond);
}

TEST_CASE("ranks over a slower network hold every conversation") {
  const int ranks = GENERATE(1, 2, 3);
  const auto count = static_cast<std::size_t>(ranks);
  for (const tests::Conversation& conversation : tests::conversations()) {
    INFO(conversation.name << ", " << ranks << " ranks");
    const auto exchanges = delayed({ranks, std::vector<Link>(count * count, {50, 8'000'000'000})});
    std::vector<std::string> said(count);
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < count; ++rank)
      threads.emplace_back([&, rank] { said[rank] = conversation.hold(*exchanges[rank]); });
    for (std::thread& thread : threads) thread.join();
    CHECK(said == std::vector<std::string>(count));
  }
}

TEST_CASE("messages, broadcasts and gathers arrive no earlier than the network lets them") {
  const auto ranks = delayed(slow_network(2));
  const auto begin = std::chrono::steady_clock::now();
  const auto waited = [&](Exchange& exchange, Request request) {
    REQUIRE(exchange.wait(request).ok());
    return std::chrono::steady_clock::now() - begin;
  };
  using std::chrono::milliseconds;
  Bytes bytes(50'000), theirs(50'000), all(51'000);
  const std::vector<std::int64_t> sizes{50'000, 1'000};
  const Request first = ranks[0]->send(1, 0, bytes), second = ranks[0]->broadcast(0, bytes);
  const Request third = ranks[0]->gather(bytes, all, sizes);
  CHECK(waited(*ranks[1], ranks[1]->receive(0, 0, theirs)) >= milliseconds(70));
  CHECK(waited(*ranks[1], ranks[1]->broadcast(0, theirs)) >= milliseconds(120));
  CHECK(waited(*ranks[1], ranks[1]->gather(Bytes(1'000), all, sizes)) >= milliseconds(170));
  for (const Request request : {first, second, third}) CHECK(ranks[0]->wait(request).ok());
}

TEST_CASE("a network for others is refused, and one of several machines") {
  auto local = make_local(2);
  const auto other = make_delayed(std::move(local[0]), slow_network(3));
  REQUIRE_FALSE(other.ok());
  CHECK(other.error().code == ErrorCode::kUsage);
  CHECK(other.error().message == "the network is for 3 ranks, not 2");
  const auto far = make_delayed(std::make_unique<TwoMachines>(), slow_network(2));
  REQUIRE_FALSE(far.ok());
  CHECK(far.error().message == "a network can be emulated on one machine only");
}
