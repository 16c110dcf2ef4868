#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <thread>

#include "conversations.h"

using dgx::Bytes;
using dgx::ErrorCode;
using dgx::Status;
using namespace dgx::exchange;

namespace {

/// Runs `body` for each rank, on a thread that owns the rank's Exchange and destroys it; returns what they
/// say.
std::vector<std::string> run(int ranks, const std::function<std::string(std::unique_ptr<Exchange>)>& body) {
  std::vector<std::unique_ptr<Exchange>> exchanges = make_local(ranks);
  std::vector<std::string> said(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < said.size(); ++rank)
    threads.emplace_back(
        [&, rank, own = std::move(exchanges[rank])]() mutable { said[rank] = body(std::move(own)); });
  for (std::thread& thread : threads) thread.join();
  return said;
}

std::string message_of(const Status& status) {
  if (status.ok()) return "ok";
  return (status.error().code == ErrorCode::kInternal    ? "internal: "
          : status.error().code == ErrorCode::kMalformed ? "malformed: "
                                                         : "other: ") +
         status.error().message;
}

using Said = std::vector<std::string>;

}  // namespace

TEST_CASE("one to five ranks hold every conversation") {
  const int ranks = GENERATE(1, 2, 3, 4, 5);
  for (const dgx::tests::Conversation& conversation : dgx::tests::conversations()) {
    INFO(conversation.name << ", " << ranks << " ranks");
    const Said said = run(ranks, [&](std::unique_ptr<Exchange> own) { return conversation.hold(*own); });
    CHECK(said == Said(said.size()));
  }
}

TEST_CASE("a rank that gives up ends every wait of the others") {
  const Said said = run(5, [](std::unique_ptr<Exchange> own) -> std::string {
    Bytes bytes(8), all(40);
    const Request sent = own->send(0, 1, bytes);
    if (own->rank() == 4) {
      own->give_up(70);
      return message_of(own->wait(sent));
    }
    if (own->rank() == 0) return message_of(own->wait(own->receive(1, 2, bytes)));
    if (own->rank() == 1) return message_of(own->wait(own->broadcast(0, bytes)));
    if (own->rank() == 2)
      return message_of(own->wait(own->gather(bytes, all, std::vector<std::int64_t>(5, 8))));
    while (own->wait(own->send(3, 3, bytes)).ok()) std::this_thread::yield();  // a send waits for nobody
    return message_of(own->wait(sent));
  });
  CHECK(said == Said(5, "internal: rank 4 has given up"));
}

TEST_CASE("a rank that has gone leaves what it gave, and is lost for everything else") {
  std::vector<std::unique_ptr<Exchange>> ranks = make_local(3);
  Bytes bytes(8, 1), theirs(8), all(24), shared(8);
  const std::vector<std::int64_t> sizes(3, 8);
  (void)ranks[2]->send(0, 1, bytes);
  (void)ranks[2]->broadcast(2, bytes);
  ranks[2].reset();
  CHECK(message_of(ranks[0]->wait(ranks[0]->receive(2, 1, theirs))) == "ok");
  CHECK(theirs == bytes);
  CHECK(message_of(ranks[0]->wait(ranks[0]->broadcast(2, shared))) == "ok");
  CHECK(shared == bytes);
  CHECK(message_of(ranks[0]->wait(ranks[0]->receive(2, 1, theirs))) == "internal: rank 2 is lost");
  CHECK(message_of(ranks[0]->wait(ranks[0]->broadcast(2, shared))) == "internal: rank 2 is lost");
  const Request gather = ranks[0]->gather(bytes, all, sizes);
  (void)ranks[1]->gather(bytes, all, sizes);
  CHECK(message_of(ranks[0]->wait(gather)) == "internal: rank 2 is lost");
  CHECK(message_of(ranks[0]->wait(ranks[0]->send(2, 1, bytes))) == "ok");
  const Request receive = ranks[0]->receive(1, 1, theirs);
  (void)ranks[1]->send(0, 1, bytes);
  CHECK(message_of(ranks[0]->wait(receive)) == "ok");
}

TEST_CASE("a rank that is lost wakes those who wait for it") {
  const Said said = run(4, [](std::unique_ptr<Exchange> own) -> std::string {
    Bytes bytes(8), all(32);
    if (own->rank() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      return "";
    }
    if (own->rank() == 1) return message_of(own->wait(own->receive(0, 2, bytes)));
    if (own->rank() == 2) return message_of(own->wait(own->broadcast(0, bytes)));
    return message_of(own->wait(own->gather(bytes, all, std::vector<std::int64_t>(4, 8))));
  });
  CHECK(said[1] == "internal: rank 0 is lost");
  CHECK(said[2] == "internal: rank 0 is lost");
  CHECK(said[3] == "internal: rank 0 is lost");
}

TEST_CASE("broadcasts and gathers on different terms are refused with both") {
  std::vector<std::unique_ptr<Exchange>> ranks = make_local(2);
  Bytes eight(8), nine(9), all(16);
  const Request first = ranks[0]->broadcast(0, eight), other_length = ranks[1]->broadcast(0, nine);
  const std::string lengths =
      "malformed: broadcast 0: rank 0 expects 8 bytes of rank 0, rank 1 9 bytes of rank 0";
  CHECK(message_of(ranks[0]->wait(first)) == lengths);
  CHECK(message_of(ranks[1]->wait(other_length)) == lengths);
  CHECK(nine == Bytes(9));

  const Request second = ranks[1]->broadcast(0, eight), other_root = ranks[0]->broadcast(1, eight);
  const std::string roots =
      "malformed: broadcast 1: rank 1 expects 8 bytes of rank 0, rank 0 8 bytes of rank 1";
  CHECK(message_of(ranks[0]->wait(other_root)) == roots);
  CHECK(message_of(ranks[1]->wait(second)) == roots);

  const std::vector<std::int64_t> equal{8, 8}, unequal{7, 9};
  const Request gather = ranks[0]->gather(eight, all, equal),
                other_sizes = ranks[1]->gather(nine, all, unequal);
  const std::string sizes =
      "malformed: gather 0: rank 0 expects shares of 8, 8 bytes, rank 1 shares of 7, 9 bytes";
  CHECK(message_of(ranks[0]->wait(gather)) == sizes);
  CHECK(message_of(ranks[1]->wait(other_sizes)) == sizes);
}
