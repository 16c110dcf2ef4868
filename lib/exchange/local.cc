#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>

#include "dgx/exchange/exchange.h"

namespace dgx::exchange {
namespace {

using SharedBytes = std::shared_ptr<const Bytes>;

SharedBytes copied(ByteView bytes) { return std::make_shared<const Bytes>(bytes.begin(), bytes.end()); }

/// A sender and a tag: messages of one Channel arrive in the order in which they were sent.
using Channel = std::pair<int, Tag>;

/// A Channel's messages at their receiver, by their number in the order of sending.
struct Mailbox {
  std::int64_t sent = 0;
  std::map<std::int64_t, SharedBytes> waiting;
};

/// A broadcast is a gather to which its root alone gives something.
enum class Collective : std::size_t { kBroadcast, kGather };
constexpr std::size_t kCollectives = 2;

const char* name_of(Collective kind) { return kind == Collective::kBroadcast ? "broadcast" : "gather"; }

/// The bytes that each rank gives to one broadcast or gather. All ranks must say the same.
struct Terms {
  int root = -1;  ///< of a broadcast
  std::vector<std::int64_t> sizes;

  bool operator==(const Terms&) const = default;
  [[nodiscard]] bool gives(int rank) const { return root < 0 || root == rank; }
  [[nodiscard]] std::string text() const {
    if (root >= 0) return fmt::format("{} bytes of rank {}", sizes[static_cast<std::size_t>(root)], root);
    return fmt::format("shares of {} bytes", fmt::join(sizes, ", "));
  }
};

/// One broadcast or gather, from the rank that starts it first to the one that takes its bytes last.
struct Meeting {
  Terms terms;
  int first = 0;           ///< whose terms they are
  std::string difference;  ///< why it cannot take place, if a rank started it on other terms
  std::vector<SharedBytes> shares;
  int taken = 0;

  /// A rank whose share is missing, if there is one.
  [[nodiscard]] std::optional<int> lacks() const {
    for (int rank = 0; rank < static_cast<int>(shares.size()); ++rank)
      if (terms.gives(rank) && shares[static_cast<std::size_t>(rank)] == nullptr) return rank;
    return std::nullopt;
  }
};

/// All that ranks share, guarded by its mutex. A rank waits at its own condition variable, so that a message
/// wakes its receiver alone.
struct Hub {
  explicit Hub(int ranks)
      : mail(static_cast<std::size_t>(ranks)),
        gone(static_cast<std::size_t>(ranks)),
        news(static_cast<std::size_t>(ranks)) {}

  void wake_all() {
    for (std::condition_variable& each : news) each.notify_all();
  }

  std::mutex mutex;
  std::vector<std::map<Channel, Mailbox>> mail;  ///< by receiver
  std::array<std::map<std::int64_t, Meeting>, kCollectives> meetings;
  std::vector<bool> gone;  ///< whether the rank's Exchange is destroyed
  std::optional<int> gave_up;
  std::deque<std::condition_variable> news;
};

struct Operation {
  enum class Kind { kSend, kReceive, kMeeting } kind = Kind::kSend;
  Channel channel;
  Collective collective = Collective::kBroadcast;
  std::int64_t number = 0;  ///< among the channel's messages, or among the broadcasts or gathers
  std::span<std::uint8_t> bytes;
};

/// A rank that is a thread. Messages are copied when they are sent, and once more by their receiver in
/// wait(), in both cases without the lock.
class LocalExchange final : public Exchange {
 public:
  LocalExchange(std::shared_ptr<Hub> hub, int rank) : hub_(std::move(hub)), rank_(rank) {}
  LocalExchange(const LocalExchange&) = delete;
  LocalExchange& operator=(const LocalExchange&) = delete;
  ~LocalExchange() override {
    const std::scoped_lock lock(hub_->mutex);
    hub_->gone[static_cast<std::size_t>(rank_)] = true;
    hub_->wake_all();
  }

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int ranks() const override { return static_cast<int>(hub_->news.size()); }
  [[nodiscard]] int ranks_here() const override { return ranks(); }
  [[nodiscard]] std::string host_of(int) const override { return "this process"; }

  [[nodiscard]] Request send(int to, Tag tag, ByteView bytes) override;
  [[nodiscard]] Request receive(int from, Tag tag, std::span<std::uint8_t> bytes) override;
  [[nodiscard]] Request broadcast(int root, std::span<std::uint8_t> bytes) override;
  [[nodiscard]] Request gather(ByteView own, std::span<std::uint8_t> all,
                               std::span<const std::int64_t> sizes) override;

  [[nodiscard]] Status wait(Request request) override;
  void progress() override {}  // wait() takes what has come; nothing is under way between two calls
  void give_up(int exit_code) override;

  [[nodiscard]] Traffic traffic() const override { return traffic_; }

 private:
  using Lock = std::unique_lock<std::mutex>;

  Request start(Operation operation);
  Request meet(Collective kind, Terms terms, ByteView own, std::span<std::uint8_t> all);
  Status wait_for_message(const Operation& operation);
  Status wait_for_meeting(const Operation& operation);
  /// Waits for news, or says why none will come. `needed`: the rank that is waited for.
  Status wait_for_news(Lock& lock, int needed);
  [[nodiscard]] Status check_given_up() const;

  std::shared_ptr<Hub> hub_;
  int rank_;
  std::int64_t next_ = 0;
  std::map<std::int64_t, Operation> operations_;
  std::map<Channel, std::int64_t> received_;  ///< how many receives were started
  std::array<std::int64_t, kCollectives> met_{};
  Traffic traffic_;
};

Request LocalExchange::start(Operation operation) {
  operations_.emplace(next_, operation);
  return {next_++};
}

Request LocalExchange::send(int to, Tag tag, ByteView bytes) {
  assert(to >= 0 && to < ranks() && tag >= 0 && tag <= kMaxTag);
  traffic_.sent += static_cast<std::int64_t>(bytes.size());
  ++traffic_.messages;
  SharedBytes message = copied(bytes);
  {
    const std::scoped_lock lock(hub_->mutex);
    Mailbox& box = hub_->mail[static_cast<std::size_t>(to)][{rank_, tag}];
    box.waiting.emplace(box.sent++, std::move(message));
    hub_->news[static_cast<std::size_t>(to)].notify_all();
  }
  return start({});
}

Request LocalExchange::receive(int from, Tag tag, std::span<std::uint8_t> bytes) {
  assert(from >= 0 && from < ranks() && tag >= 0 && tag <= kMaxTag);
  Operation out;
  out.kind = Operation::Kind::kReceive;
  out.channel = {from, tag};
  out.number = received_[out.channel]++;
  out.bytes = bytes;
  return start(out);
}

Request LocalExchange::broadcast(int root, std::span<std::uint8_t> bytes) {
  assert(root >= 0 && root < ranks());
  Terms terms{root, std::vector<std::int64_t>(static_cast<std::size_t>(ranks()))};
  terms.sizes[static_cast<std::size_t>(root)] = static_cast<std::int64_t>(bytes.size());
  if (root == rank_) {
    traffic_.broadcast += static_cast<std::int64_t>(bytes.size());
    ++traffic_.messages;
  }
  return meet(Collective::kBroadcast, std::move(terms), bytes, bytes);
}

Request LocalExchange::gather(ByteView own, std::span<std::uint8_t> all,
                              std::span<const std::int64_t> sizes) {
  assert(static_cast<int>(sizes.size()) == ranks());
  assert(static_cast<std::int64_t>(own.size()) == sizes[static_cast<std::size_t>(rank_)]);
  assert(static_cast<std::int64_t>(all.size()) ==
         std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}));
  traffic_.gathered += static_cast<std::int64_t>(own.size());
  ++traffic_.messages;
  return meet(Collective::kGather, {-1, {sizes.begin(), sizes.end()}}, own, all);
}

Request LocalExchange::meet(Collective kind, Terms terms, ByteView own, std::span<std::uint8_t> all) {
  Operation out;
  out.kind = Operation::Kind::kMeeting;
  out.collective = kind;
  out.number = met_[static_cast<std::size_t>(kind)]++;
  out.bytes = all;
  SharedBytes share = terms.gives(rank_) ? copied(own) : nullptr;
  {
    const std::scoped_lock lock(hub_->mutex);
    const auto [place, is_first] = hub_->meetings[static_cast<std::size_t>(kind)].try_emplace(out.number);
    Meeting& meeting = place->second;
    if (is_first) {
      meeting.shares.resize(terms.sizes.size());
      meeting.first = rank_;
      meeting.terms = std::move(terms);
    } else if (meeting.terms != terms && meeting.difference.empty()) {
      meeting.difference = fmt::format("{} {}: rank {} expects {}, rank {} {}", name_of(kind), out.number,
                                       meeting.first, meeting.terms.text(), rank_, terms.text());
    }
    meeting.shares[static_cast<std::size_t>(rank_)] = std::move(share);
    hub_->wake_all();
  }
  return start(out);
}

Status LocalExchange::wait(Request request) {
  const auto node = operations_.extract(request.number);
  assert(!node.empty());
  const Operation& operation = node.mapped();
  switch (operation.kind) {
    case Operation::Kind::kReceive: return wait_for_message(operation);
    case Operation::Kind::kMeeting: return wait_for_meeting(operation);
    case Operation::Kind::kSend: break;
  }
  const std::scoped_lock lock(hub_->mutex);
  return check_given_up();
}

Status LocalExchange::wait_for_message(const Operation& operation) {
  const auto [from, tag] = operation.channel;
  SharedBytes message;
  {
    Lock lock(hub_->mutex);
    Mailbox& box = hub_->mail[static_cast<std::size_t>(rank_)][operation.channel];
    while (!box.waiting.contains(operation.number)) DGX_CHECK(wait_for_news(lock, from));
    DGX_CHECK(check_given_up());
    message = std::move(box.waiting.extract(operation.number).mapped());
  }
  if (message->size() != operation.bytes.size())
    return malformed(fmt::format("message {} from rank {} has {} bytes, {} are expected", tag, from,
                                 message->size(), operation.bytes.size()));
  std::copy(message->begin(), message->end(), operation.bytes.begin());
  return {};
}

Status LocalExchange::wait_for_meeting(const Operation& operation) {
  std::vector<SharedBytes> shares;
  {
    Lock lock(hub_->mutex);
    auto& meetings = hub_->meetings[static_cast<std::size_t>(operation.collective)];
    Meeting& meeting = meetings.at(operation.number);
    while (meeting.difference.empty() && meeting.lacks()) DGX_CHECK(wait_for_news(lock, *meeting.lacks()));
    DGX_CHECK(check_given_up());
    if (!meeting.difference.empty()) return malformed(meeting.difference);
    shares = meeting.shares;
    if (++meeting.taken == ranks()) meetings.erase(operation.number);
  }
  auto place = operation.bytes.begin();
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (shares[i] == nullptr) continue;
    const bool is_there =
        operation.collective == Collective::kBroadcast && static_cast<int>(i) == rank_;  // the root's memory
    if (!is_there) std::copy(shares[i]->begin(), shares[i]->end(), place);
    place += static_cast<std::ptrdiff_t>(shares[i]->size());
  }
  return {};
}

Status LocalExchange::wait_for_news(Lock& lock, int needed) {
  DGX_CHECK(check_given_up());
  if (hub_->gone[static_cast<std::size_t>(needed)])
    return internal_error(fmt::format("rank {} is lost", needed));
  hub_->news[static_cast<std::size_t>(rank_)].wait(lock);
  return {};
}

Status LocalExchange::check_given_up() const {
  if (!hub_->gave_up) return {};
  return internal_error(fmt::format("rank {} has given up", *hub_->gave_up));
}

void LocalExchange::give_up(int) {
  const std::scoped_lock lock(hub_->mutex);
  if (!hub_->gave_up) hub_->gave_up = rank_;
  hub_->wake_all();
}

}  // namespace

std::vector<std::unique_ptr<Exchange>> make_local(int ranks) {
  assert(ranks > 0);
  const auto hub = std::make_shared<Hub>(ranks);
  std::vector<std::unique_ptr<Exchange>> out;
  for (int rank = 0; rank < ranks; ++rank) out.push_back(std::make_unique<LocalExchange>(hub, rank));
  return out;
}

}  // namespace dgx::exchange
