#pragma once

#include <mpi.h>

#include <deque>
#include <map>
#include <utility>

#include "dgx/exchange/exchange.h"

namespace dgx::exchange {

/// A rank that is a process of MPI.
///
/// Messages, broadcasts and gathers have a communicator each, so that their orders are independent of each
/// other and of whatever else in the process uses MPI.
///
/// A message is received once its length is known, by MPI_Improbe, and only into as many bytes. MPI's own
/// check is not enough: Open MPI 4.1.4 reports that a message was too long, but first writes all of it (by
/// tcp, and between processes of one machine that may read each other's memory), and between a rank and
/// itself does not even report it. Its broadcasts and gathers, which nobody can probe for, have the same
/// flaw: all ranks must be sure of their lengths, as the contract says.
///
/// Each MPI request has a slot; an operation has one, or for a large gather one for each rank. progress()
/// does what can be done at once: it takes messages that have come, and tests all slots. wait() repeats it.
class MpiExchange final : public Exchange {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Exchange>> start();
  MpiExchange(const MpiExchange&) = delete;
  MpiExchange& operator=(const MpiExchange&) = delete;
  ~MpiExchange() override;

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int ranks() const override { return static_cast<int>(hosts_.size()); }
  [[nodiscard]] int ranks_here() const override { return ranks_here_; }
  [[nodiscard]] std::string host_of(int rank) const override {
    return hosts_[static_cast<std::size_t>(rank)];
  }

  [[nodiscard]] Request send(int to, Tag tag, ByteView bytes) override;
  [[nodiscard]] Request receive(int from, Tag tag, std::span<std::uint8_t> bytes) override;
  [[nodiscard]] Request broadcast(int root, std::span<std::uint8_t> bytes) override;
  [[nodiscard]] Request gather(ByteView own, std::span<std::uint8_t> all,
                               std::span<const std::int64_t> sizes) override;

  [[nodiscard]] Status wait(Request request) override;
  void progress() override;
  void give_up(int exit_code) override;

  [[nodiscard]] Traffic traffic() const override { return traffic_; }

 private:
  struct Operation {
    const char* name = "";
    int partner = -1;  ///< sender or receiver of a message, or root
    Tag tag = -1;
    std::vector<std::size_t> slots;
    int error = MPI_SUCCESS;          ///< from starting it
    std::vector<int> counts, places;  ///< of a gather, which reads them until it ends
    bool is_receive = false;          ///< has no slot before its message came
    std::span<std::uint8_t> bytes;    ///< of a receive
    MPI_Count length = -1;            ///< of the message that a receive took
    Bytes refused;                    ///< the message, if it has another length
  };
  /// A message that has come and is not received yet.
  struct Arrival {
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Count length = 0;
  };
  /// One sender's messages with one tag: those that came before their receives were started, or the other way
  /// round.
  struct Line {
    std::deque<Arrival> arrivals;
    std::deque<std::int64_t> receives;
  };

  MpiExchange() = default;
  Status connect();
  Status learn_hosts();

  Request add(Operation operation);
  MPI_Request* add_slot(Operation& operation);
  void gather_plain(Operation& operation, std::span<std::uint8_t> all, std::span<const std::int64_t> sizes);
  void gather_large(Operation& operation, std::span<std::uint8_t> all, std::span<const std::int64_t> sizes);

  void take_arrivals();
  void take(Operation& operation, Arrival arrival);
  void test_slots();
  [[nodiscard]] bool has_ended(const Operation& operation) const;
  [[nodiscard]] Status outcome_of(const Operation& operation) const;

  int rank_ = 0, ranks_here_ = 1;
  std::vector<std::string> hosts_;
  MPI_Comm messages_ = MPI_COMM_NULL, broadcasts_ = MPI_COMM_NULL, gathers_ = MPI_COMM_NULL;

  std::vector<MPI_Request> requests_;  ///< by slot; MPI_REQUEST_NULL where none is under way
  std::vector<int> errors_;            ///< by slot, of the request that ended
  std::vector<std::size_t> free_;      ///< slots of no operation
  std::vector<int> ended_;             ///< for MPI_Testsome
  std::vector<MPI_Status> statuses_;   ///< for MPI_Testsome
  std::map<std::pair<int, Tag>, Line> lines_;
  std::int64_t receives_ = 0;  ///< whose messages have not come
  int error_ = MPI_SUCCESS;    ///< of a call that is for no operation; all fail then
  std::int64_t next_ = 0;
  std::map<std::int64_t, Operation> operations_;
  Traffic traffic_;
};

}  // namespace dgx::exchange
