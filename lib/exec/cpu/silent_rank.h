#pragma once

#include <string>

#include "dgx/exchange/exchange.h"

namespace dgx::exec {

/// A rank that is there to be planned for: it has a number, and nobody hears it.
class SilentRank final : public exchange::Exchange {
 public:
  SilentRank(int rank, int ranks) : rank_(rank), ranks_(ranks) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int ranks() const override { return ranks_; }
  [[nodiscard]] int ranks_here() const override { return 1; }
  [[nodiscard]] std::string host_of(int) const override { return "nowhere"; }
  [[nodiscard]] exchange::Request send(int, exchange::Tag, ByteView) override { return {}; }
  [[nodiscard]] exchange::Request receive(int, exchange::Tag, std::span<std::uint8_t>) override { return {}; }
  [[nodiscard]] exchange::Request broadcast(int, std::span<std::uint8_t>) override { return {}; }
  [[nodiscard]] exchange::Request gather(ByteView, std::span<std::uint8_t>,
                                         std::span<const std::int64_t>) override {
    return {};
  }
  [[nodiscard]] Status wait(exchange::Request) override {
    return internal_error("a planned rank has no peers");
  }
  void progress() override {}
  void give_up(int) override {}
  [[nodiscard]] exchange::Traffic traffic() const override { return {}; }

 private:
  int rank_, ranks_;
};

}  // namespace dgx::exec
