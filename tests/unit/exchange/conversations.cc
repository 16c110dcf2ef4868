#include "conversations.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <map>
#include <numeric>
#include <random>
#include <utility>

#include "dgx/exchange/sparse_messages.h"

namespace dgx::tests {
namespace {

using exchange::Exchange;
using exchange::Request;
using exchange::Tag;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kLarge = 17'000'003;  // more than MPI's form moves as plain bytes (lib/exchange/mpi)
constexpr std::uint8_t kUntouched = 0xA5;
constexpr std::size_t kGuard = 64;

/// Bytes that look random, other ones for each seed.
Bytes pattern(std::size_t size, std::uint64_t seed) {
  Bytes out(size + 8);
  for (std::size_t i = 0; i < size; i += 8) {
    std::uint64_t word = (seed << 40 | i) * 0x9E37'79B9'7F4A'7C15;
    word ^= word >> 29;
    std::memcpy(out.data() + i, &word, 8);
  }
  out.resize(size);
  return out;
}

/// Memory that must not be written beside the part that is given away.
struct Guarded {
  explicit Guarded(std::size_t size) : bytes(size + 2 * kGuard, kUntouched) {}
  std::span<std::uint8_t> inside() { return std::span(bytes).subspan(kGuard, bytes.size() - 2 * kGuard); }
  [[nodiscard]] bool is_whole() const {
    const auto untouched = [](std::uint8_t byte) { return byte == kUntouched; };
    return std::all_of(bytes.begin(), bytes.begin() + kGuard, untouched) &&
           std::all_of(bytes.end() - kGuard, bytes.end(), untouched);
  }
  Bytes bytes;
};

/// Collects what is wrong.
struct Problems {
  void expect(bool holds, const std::string& what) {
    if (!holds) text += what + "\n";
  }
  void ends_well(Exchange& exchange, Request request, const std::string& what) {
    const Status status = exchange.wait(request);
    if (!status.ok()) text += what + ": " + status.error().message + "\n";
  }
  void equal(std::span<const std::uint8_t> ours, const Bytes& right, const std::string& what) {
    expect(std::equal(ours.begin(), ours.end(), right.begin(), right.end()), what + ": other bytes");
  }
  std::string text;
};

std::uint64_t seed_of(int from, int to, int number) {
  return static_cast<std::uint64_t>((from * 100 + to) * 10'000 + number);
}

/// Everybody to everybody, also to themselves: 40 messages in turn on three tags, received tag by tag.
std::string keep_order(Exchange& exchange) {
  constexpr int kMessages = 40;
  constexpr Tag kTags[] = {exchange::kMaxTag, 0, 7};
  Problems problems;
  std::vector<std::pair<Request, Bytes>> sent;
  for (int to = 0; to < exchange.ranks(); ++to)
    for (int i = 0; i < kMessages; ++i) {
      Bytes bytes = pattern(100, seed_of(exchange.rank(), to, i));
      const Request request = exchange.send(to, kTags[i % 3], bytes);
      sent.emplace_back(request, std::move(bytes));
    }
  for (int from = exchange.ranks() - 1; from >= 0; --from)
    for (int tag = 2; tag >= 0; --tag)
      for (int i = tag; i < kMessages; i += 3) {
        Bytes bytes(100);
        const std::string what = fmt::format("message {} from {}", i, from);
        problems.ends_well(exchange, exchange.receive(from, kTags[tag], bytes), what);
        problems.equal(bytes, pattern(100, seed_of(from, exchange.rank(), i)), what);
      }
  for (const auto& [request, bytes] : sent) problems.ends_well(exchange, request, "sending");
  return problems.text;
}

/// Receives take messages in the order in which they were started, whatever the order of waiting is.
std::string wait_backwards(Exchange& exchange) {
  constexpr int kMessages = 10;
  Problems problems;
  const int to = (exchange.rank() + 1) % exchange.ranks();
  const int from = (exchange.rank() + exchange.ranks() - 1) % exchange.ranks();
  std::vector<Bytes> theirs(kMessages, Bytes(1'000)), ours;
  std::vector<Request> receives, sends;
  for (Bytes& bytes : theirs) receives.push_back(exchange.receive(from, 5, bytes));
  for (int i = 0; i < kMessages; ++i) ours.push_back(pattern(1'000, seed_of(exchange.rank(), to, i)));
  for (const Bytes& bytes : ours) sends.push_back(exchange.send(to, 5, bytes));
  for (int i = kMessages - 1; i >= 0; --i) {
    const auto at = static_cast<std::size_t>(i);
    problems.ends_well(exchange, receives[at], "receiving");
    problems.equal(theirs[at], pattern(1'000, seed_of(from, exchange.rank(), i)),
                   fmt::format("message {}", i));
    problems.ends_well(exchange, sends[at], "sending");
  }
  return problems.text;
}

/// Round the ring: nothing, a byte, below and above what MPI sends eagerly, megabytes, more than a plain
/// message.
std::string move_all_sizes(Exchange& exchange) {
  Problems problems;
  const int to = (exchange.rank() + 1) % exchange.ranks();
  const int from = (exchange.rank() + exchange.ranks() - 1) % exchange.ranks();
  int number = 0;
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{4'095}, std::size_t{65'537},
                                 std::size_t{3'000'001}, kLarge}) {
    Guarded theirs(size);
    const Bytes ours = pattern(size, seed_of(exchange.rank(), to, number));
    const Request receive = exchange.receive(from, 1, theirs.inside());
    const Request send = exchange.send(to, 1, ours);
    problems.ends_well(exchange, receive, fmt::format("receiving {} bytes", size));
    problems.ends_well(exchange, send, fmt::format("sending {} bytes", size));
    problems.equal(theirs.inside(), pattern(size, seed_of(from, exchange.rank(), number)),
                   fmt::format("{} bytes", size));
    problems.expect(theirs.is_whole(), fmt::format("{} bytes were written beside", size));
    ++number;
  }
  return problems.text;
}

/// Each message is refused where another length is expected, with both, and the next one is taken.
std::string refuse_other_lengths(Exchange& exchange) {
  constexpr std::pair<std::size_t, std::size_t> kSentExpected[] = {
      {5, 9}, {9, 5}, {0, 1}, {1, 0}, {3'000'001, 70'000}, {70'000, 3'000'001}, {kLarge, 11}, {11, kLarge}};
  Problems problems;
  const int to = (exchange.rank() + 1) % exchange.ranks();
  const int from = (exchange.rank() + exchange.ranks() - 1) % exchange.ranks();
  for (const auto& [sent, expected] : kSentExpected) {
    const std::string what = fmt::format("{} bytes for {}", sent, expected);
    Guarded theirs(expected);
    Bytes after(8);
    const Bytes ours = pattern(sent, 1), next = pattern(8, 2);
    const Request receive = exchange.receive(from, 2, theirs.inside());
    const Request receive_next = exchange.receive(from, 2, after);
    const Request send = exchange.send(to, 2, ours), send_next = exchange.send(to, 2, next);
    const Status status = exchange.wait(receive);
    problems.expect(!status.ok() && status.error().code == ErrorCode::kMalformed, what + ": taken");
    if (!status.ok()) {
      const std::string& said = status.error().message;
      problems.expect(said.find(fmt::format(" {} bytes", sent)) != std::string::npos &&
                          said.find(fmt::format(" {} are", expected)) != std::string::npos &&
                          said.find(fmt::format("rank {}", from)) != std::string::npos,
                      what + ": " + said);
    }
    problems.expect(theirs.is_whole(), what + ": written beside");
    problems.ends_well(exchange, receive_next, what + ", next");
    problems.equal(after, next, what + ", next");
    problems.ends_well(exchange, send, what);
    problems.ends_well(exchange, send_next, what);
  }
  return problems.text;
}

std::string broadcast_from_all(Exchange& exchange) {
  Problems problems;
  for (int root = 0; root < exchange.ranks(); ++root)
    for (const std::size_t size :
         {std::size_t{0}, std::size_t{1}, std::size_t{5'000}, std::size_t{700'000}, root == 0 ? kLarge : 0}) {
      const std::string what = fmt::format("{} bytes of rank {}", size, root);
      const Bytes right = pattern(size, seed_of(root, 0, static_cast<int>(size)));
      Guarded bytes(size);
      if (root == exchange.rank()) std::copy(right.begin(), right.end(), bytes.inside().begin());
      problems.ends_well(exchange, exchange.broadcast(root, bytes.inside()), what);
      problems.equal(bytes.inside(), right, what);
      problems.expect(bytes.is_whole(), what + ": written beside");
    }
  return problems.text;
}

/// One gather, with the own share at its place or elsewhere. Share r is pattern(sizes[r], r).
void gather_once(Exchange& exchange, const std::vector<std::int64_t>& sizes, bool in_place,
                 Problems& problems) {
  const auto all = static_cast<std::size_t>(std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}));
  const auto own_size = static_cast<std::size_t>(sizes[static_cast<std::size_t>(exchange.rank())]);
  const auto place = static_cast<std::size_t>(
      std::accumulate(sizes.begin(), sizes.begin() + exchange.rank(), std::int64_t{0}));
  Bytes right;
  for (std::size_t rank = 0; rank < sizes.size(); ++rank) {
    const Bytes share = pattern(static_cast<std::size_t>(sizes[rank]), rank);
    right.insert(right.end(), share.begin(), share.end());
  }
  const Bytes apart = pattern(own_size, static_cast<std::uint64_t>(exchange.rank()));
  Guarded bytes(all);
  ByteView own = apart;
  if (in_place) {
    own = bytes.inside().subspan(place, own_size);
    std::copy(apart.begin(), apart.end(), bytes.inside().subspan(place).begin());
  }
  std::vector<std::int64_t> theirs = sizes;
  const Request request = exchange.gather(own, bytes.inside(), theirs);
  std::fill(theirs.begin(), theirs.end(), -1);  // sizes are copied
  const std::string what = fmt::format("shares of {}", fmt::join(sizes, ", "));
  problems.ends_well(exchange, request, what);
  problems.equal(bytes.inside(), right, what);
  problems.expect(bytes.is_whole(), what + ": written beside");
}

std::string gather_shares(Exchange& exchange) {
  Problems problems;
  const auto ranks = static_cast<std::size_t>(exchange.ranks());
  std::vector<std::int64_t> equal(ranks, 1'000), none(ranks), unequal(ranks), one(ranks), large(ranks, 3);
  for (std::size_t rank = 0; rank < ranks; ++rank) unequal[rank] = static_cast<std::int64_t>(rank * 777);
  one[ranks - 1] = 500;
  large[0] = kLarge;
  for (const auto& sizes : {equal, none, unequal, one, large}) {
    gather_once(exchange, sizes, false, problems);
    gather_once(exchange, sizes, true, problems);
    gather_once(exchange, sizes, exchange.rank() == 0, problems);  // some ranks so, others so
  }
  return problems.text;
}

/// Broadcasts and gathers have an order each: even ranks start them in one, odd ranks in the other.
std::string mix_orders(Exchange& exchange) {
  Problems problems;
  constexpr std::size_t kSize = 100'000;
  const auto ranks = static_cast<std::size_t>(exchange.ranks());
  const std::vector<std::int64_t> sizes(ranks, kSize);
  Bytes shared(kSize), all(ranks * kSize);
  const Bytes right = pattern(kSize, 77), own = pattern(kSize, static_cast<std::uint64_t>(exchange.rank()));
  if (exchange.rank() == 0) shared = right;
  Request broadcast, gather;
  if (exchange.rank() % 2 == 0) broadcast = exchange.broadcast(0, shared);
  gather = exchange.gather(own, all, sizes);
  if (exchange.rank() % 2 != 0) broadcast = exchange.broadcast(0, shared);
  problems.ends_well(exchange, broadcast, "broadcast");
  problems.ends_well(exchange, gather, "gather");
  problems.equal(shared, right, "broadcast");
  for (std::size_t rank = 0; rank < ranks; ++rank)
    problems.equal(std::span(all).subspan(rank * kSize, kSize), pattern(kSize, rank), "gather");
  return problems.text;
}

/// Tells whether a message of several megabytes arrives while its sender does nothing but call progress() for
/// this long: the receiver, who has the same clock, says when it had it.
bool arrives_during_progress(Exchange& exchange, std::chrono::milliseconds time, Problems& problems) {
  const Bytes right = pattern(5'000'000, 3);
  std::int64_t taken = 0;
  std::uint8_t in_time = 0;
  const std::span<std::uint8_t> answer(reinterpret_cast<std::uint8_t*>(&taken), sizeof taken);
  const std::span<std::uint8_t> verdict(&in_time, 1);
  if (exchange.rank() == 1) {
    Bytes bytes(right.size());
    problems.ends_well(exchange, exchange.receive(0, 3, bytes), "receiving");
    taken = Clock::now().time_since_epoch().count();
    problems.equal(bytes, right, "received");
    problems.ends_well(exchange, exchange.send(0, 4, answer), "answering");
    problems.ends_well(exchange, exchange.receive(0, 5, verdict), "the verdict");
    return in_time != 0;
  }
  const Request send = exchange.send(1, 3, right);
  const auto end = Clock::now() + time;
  while (Clock::now() < end) exchange.progress();
  problems.ends_well(exchange, send, "sending");
  problems.ends_well(exchange, exchange.receive(1, 4, answer), "the answer");
  in_time = taken < end.time_since_epoch().count() ? 1 : 0;
  problems.ends_well(exchange, exchange.send(1, 5, verdict), "judging");
  return in_time != 0;
}

/// On a busy machine the receiver may be late for other reasons: longer times are tried, too.
std::string progress_while_computing(Exchange& exchange) {
  Problems problems;
  if (exchange.ranks() == 1 || exchange.rank() > 1) return {};
  for (const int milliseconds : {100, 400, 1'600, 6'400})
    if (arrives_during_progress(exchange, std::chrono::milliseconds(milliseconds), problems))
      return problems.text;
  problems.expect(false, "progress() moves nothing");
  return problems.text;
}

/// An operation of talk_at_random() that a rank has under way.
struct Open {
  Request request;
  Bytes bytes, own, right;
  std::string what;
};

/// 300 operations that a common seed draws; each rank starts its part in that order, and waits in an order of
/// its own, at most 20 operations later.
std::string talk_at_random(Exchange& exchange) {
  constexpr int kOperations = 300;
  constexpr std::size_t kOpen = 20;
  Problems problems;
  std::mt19937 common(20'260'101), mine(static_cast<std::mt19937::result_type>(exchange.rank()));
  const auto below = [](std::mt19937& random, std::size_t end) { return static_cast<int>(random() % end); };
  const auto ranks = static_cast<std::size_t>(exchange.ranks());
  std::vector<std::unique_ptr<Open>> open;
  const auto wait_for_one = [&] {
    std::swap(open[static_cast<std::size_t>(below(mine, open.size()))], open.back());
    problems.ends_well(exchange, open.back()->request, open.back()->what);
    problems.equal(open.back()->bytes, open.back()->right, open.back()->what);
    open.pop_back();
  };
  for (int i = 0; i < kOperations; ++i) {
    const int kind = below(common, 4), from = below(common, ranks), to = below(common, ranks);
    const Tag tag = below(common, 3);
    const auto size = static_cast<std::size_t>(below(common, 2) == 0 ? 200 : 40'000) + common() % 200;
    const auto seed = static_cast<std::uint64_t>(i);
    const auto add = [&]() -> Open& {
      open.push_back(std::make_unique<Open>());
      open.back()->what = fmt::format("operation {}", i);
      return *open.back();
    };
    if (kind == 0) {
      Open& at = add();
      at.right = pattern(size, seed);
      at.bytes = from == exchange.rank() ? at.right : Bytes(size);
      at.request = exchange.broadcast(from, at.bytes);
    } else if (kind == 1) {
      std::vector<std::int64_t> sizes(ranks);
      Open& at = add();
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        const Bytes share = pattern((size * (rank + 1)) % 3'000, seed + 1'000 * rank);
        sizes[rank] = static_cast<std::int64_t>(share.size());
        at.right.insert(at.right.end(), share.begin(), share.end());
        if (static_cast<int>(rank) == exchange.rank()) at.own = share;
      }
      at.bytes.resize(at.right.size());
      at.request = exchange.gather(at.own, at.bytes, sizes);
    } else {
      if (to == exchange.rank()) {
        Open& at = add();
        at.right = pattern(size, seed);
        at.bytes.resize(size);
        at.request = exchange.receive(from, tag, at.bytes);
      }
      if (from == exchange.rank()) {
        Open& at = add();
        at.right = at.bytes = pattern(size, seed);
        at.request = exchange.send(to, tag, at.bytes);
      }
    }
    if (i % 7 == 0) exchange.progress();
    while (open.size() > kOpen) wait_for_one();
  }
  while (!open.empty()) wait_for_one();
  return problems.text;
}

std::string count_traffic(Exchange& exchange) {
  Problems problems;
  const exchange::Traffic before = exchange.traffic();
  const auto ranks = static_cast<std::size_t>(exchange.ranks());
  Bytes ours(10), theirs(10), shared(100), all(1'000 * ranks);
  const Request receive = exchange.receive(exchange.rank(), 0, theirs);
  problems.ends_well(exchange, exchange.send(exchange.rank(), 0, ours), "sending");
  problems.ends_well(exchange, receive, "receiving");
  problems.ends_well(exchange, exchange.broadcast(0, shared), "broadcast");
  problems.ends_well(exchange, exchange.gather(Bytes(1'000), all, std::vector<std::int64_t>(ranks, 1'000)),
                     "gather");
  const exchange::Traffic after = exchange.traffic();
  const bool is_root = exchange.rank() == 0;
  problems.expect(after.sent - before.sent == 10, "bytes sent");
  problems.expect(after.broadcast - before.broadcast == (is_root ? 100 : 0), "bytes broadcast");
  problems.expect(after.gathered - before.gathered == 1'000, "bytes gathered");
  problems.expect(after.messages - before.messages == (is_root ? 3 : 2), "messages");
  return problems.text;
}

/// Floats of which one in `every` is not +0, some of them -0 or of few bits.
std::vector<float> sparse_floats(std::size_t count, std::size_t every, std::uint64_t seed) {
  std::vector<float> out(count, 0.0F);
  std::mt19937_64 chance(seed);
  for (float& value : out) {
    if (chance() % every == 0) value = chance() % 4 == 0 ? -0.0F : static_cast<float>(chance() % 100'000) / 7;
  }
  return out;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(a, b, [](float x, float y) {
    return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
  });
}

/// Each rank sends lists to the next one, of all densities and sizes, and broadcasts others.
std::string send_sparse_lists(Exchange& exchange) {
  Problems problems;
  exchange::SparseMessages messages(exchange);
  const auto lists_of = [](int rank) {
    std::vector<std::vector<float>> out;
    for (const std::size_t count : {0U, 1U, 7U, 5'000U}) {
      for (const std::size_t every : {1U, 3U, 1'000U})
        out.push_back(sparse_floats(count, every, static_cast<std::uint64_t>(rank) * 50 + out.size()));
    }
    return out;
  };
  const auto spans = [](std::vector<std::vector<float>>& lists) {
    return std::vector<std::span<float>>(lists.begin(), lists.end());
  };
  const int next = (exchange.rank() + 1) % exchange.ranks();
  const int before = (exchange.rank() + exchange.ranks() - 1) % exchange.ranks();
  auto own = lists_of(exchange.rank()), right = lists_of(before), received = right;
  for (auto& list : received) std::ranges::fill(list, 7.0F);
  messages.expect(before, 5, received.size());
  messages.send(next, 5, spans(own));
  problems.expect(messages.receive(5, spans(received)).ok(), "receive");
  problems.expect(messages.wait_for_sent().ok(), "wait for what is sent");
  problems.expect(std::ranges::equal(received, right, same_bits), "other floats are received");
  problems.expect(messages.saved() > 20'000 && messages.saved() < 40'000, "the coding saves nothing");
  for (int root = 0; root < exchange.ranks(); ++root) {
    auto lists = lists_of(root + 100);
    if (root != exchange.rank())
      for (auto& list : lists) std::ranges::fill(list, 7.0F);
    problems.expect(messages.broadcast(root, spans(lists)).ok(), "broadcast");
    problems.expect(std::ranges::equal(lists, lists_of(root + 100), same_bits), "other floats are broadcast");
  }
  problems.expect(messages.broadcast(0, {}).ok(), "broadcast of nothing");
  return problems.text;
}

/// A message that is not what SparseMessages would send is refused.
std::string refuse_wrong_lists(Exchange& exchange) {
  Problems problems;
  const int self = exchange.rank();
  const auto refusal = [&](std::uint64_t length, Bytes text) -> std::string {
    exchange::SparseMessages messages(exchange);
    messages.expect(self, 9, 1);
    const Bytes lengths = [&] {
      Bytes out(8);
      std::memcpy(out.data(), &length, 8);
      return out;
    }();
    std::vector<Request> sent{exchange.send(self, 9, lengths)};
    if (!text.empty()) sent.push_back(exchange.send(self, 9, text));
    std::vector<float> floats(10, 7.0F);
    const std::vector<std::span<float>> lists{floats};
    const Status status = messages.receive(9, lists);
    for (const Request request : sent) (void)exchange.wait(request);
    return status.ok() ? "" : status.error().message;
  };
  problems.expect(refusal(41, {}) == "coded values: 41 bytes, for floats of 40", "a long list");
  problems.expect(refusal(0, {}) == "coded values: no bytes, for floats", "an empty list");
  problems.expect(refusal(3, {4, 1, 0}).starts_with("coded values: byte "), "a list that ends early");
  problems.expect(refusal(40, Bytes(40)).empty(), "floats as they lie");
  exchange::SparseMessages messages(exchange);
  problems.expect(messages.receive(9, {}).error().code == ErrorCode::kInternal, "an unexpected message");
  return problems.text;
}

std::string know_the_ranks(Exchange& exchange) {
  Problems problems;
  problems.expect(exchange.rank() >= 0 && exchange.rank() < exchange.ranks(), "rank");
  problems.expect(exchange.ranks_here() == exchange.ranks(), "ranks on this machine");  // in all tests
  for (int rank = 0; rank < exchange.ranks(); ++rank)
    problems.expect(!exchange.host_of(rank).empty() && exchange.host_of(rank) == exchange.host_of(0), "host");
  return problems.text;
}

}  // namespace

const std::vector<Conversation>& conversations() {
  static const std::vector<Conversation> all = {
      {"know the ranks", know_the_ranks},
      {"keep the order of a tag", keep_order},
      {"wait backwards", wait_backwards},
      {"move all sizes", move_all_sizes},
      {"refuse other lengths", refuse_other_lengths},
      {"broadcast from all roots", broadcast_from_all},
      {"gather shares", gather_shares},
      {"mix the orders", mix_orders},
      {"progress while computing", progress_while_computing},
      {"talk at random", talk_at_random},
      {"count the traffic", count_traffic},
      {"send sparse lists", send_sparse_lists},
      {"refuse wrong lists", refuse_wrong_lists},
      {"send rows", send_rows},
      {"refuse wrong rows", refuse_wrong_rows},
  };
  return all;
}

}  // namespace dgx::tests
