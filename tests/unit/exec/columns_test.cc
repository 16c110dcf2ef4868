// Columns of pipelines: codes of a cut of the model, which their ranks give each other packed, and nothing
// that is zero.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "dgx/core/files.h"
#include "dgx/exchange/exchange.h"
#include "dgx/exec/parts_executor.h"
#include "dgx/program/stages.h"
#include "exchanges.h"
#include "rank_threads.h"
#include "stored_steps.h"

namespace dgx::exec {
namespace {

using kernels::ValueIndex;
using test::Stored;

/// The max, the code and what passes plain in `placement/cut`, whose first four steps are plain.
constexpr int kMax = 16, kCode = 17, kPlain = 18;
constexpr std::int64_t kFirst = 4;

Stored stored_at(const Result<std::string>& program, std::int64_t step) {
  Stored out(program);
  for (Entry& entry : out.state)
    if (entry.name == "step") entry.tensor.as<std::int64_t>()[0] = step;
  return out;
}

Result<std::string> text_of_cut() {
  return read_file(DGX_VECTORS "/placement/cut.program.jsonl", program::kMaxProgramBytes);
}

/// The same program with codes of 3 bits instead of 2, so that a sample's 12 do not end with a byte.
std::string with_three_bits() {
  std::string text = text_of_cut().value();
  const auto replace = [&](const std::string& old, const std::string& now) {
    const auto at = text.find(old);
    REQUIRE(at != std::string::npos);
    REQUIRE(text.find(old, at + 1) == std::string::npos);
    text.replace(at, old.size(), now);
  };
  replace(
      R"("mul t1 0x1p1","rint t2","max t3 -0x1p1","min t4 0x1p0","add t5 0x1p1","i64 t6","select t0 2 t7")",
      R"("mul t1 0x1p2","rint t2","max t3 -0x1p2","min t4 0x1.8p1","add t5 0x1p2","i64 t6","select t0 4 t7")");
  replace(R"("sub t1 0x1p1","div x2 0x1p1")", R"("sub t1 0x1p2","div x2 0x1p2")");
  return text;
}

/// A rank that notes how many bytes it sends with each tag, and may spoil those with one.
class ToldExchange final : public test::ForwardingExchange {
 public:
  enum class Spoils { kNothing, kPadding, kLength };

  ToldExchange(Exchange& to, int tag, Spoils spoils) : ForwardingExchange(to), tag_(tag), spoils_(spoils) {}

  [[nodiscard]] exchange::Request send(int to, exchange::Tag tag, ByteView bytes) override {
    sent[tag] += std::ssize(bytes);
    if (tag != tag_ || spoils_ == Spoils::kNothing) return ForwardingExchange::send(to, tag, bytes);
    copy_.assign(bytes.begin(), bytes.end());
    if (spoils_ == Spoils::kPadding) copy_.back() |= 0x80U;
    if (spoils_ == Spoils::kLength) copy_.pop_back();
    return ForwardingExchange::send(to, tag, copy_);
  }

  std::map<int, std::int64_t> sent;

 private:
  int tag_;
  Spoils spoils_;
  std::vector<std::uint8_t> copy_;
};

struct Stepped {
  Status status;
  std::map<int, std::int64_t> sent;  ///< bytes, by value
  std::int64_t saved = 0;
};

/// One step of a column of two ranks, without other stages, of which the second spoils messages.
std::vector<Stepped> step_in_column(const Stored& stored, const std::vector<std::int64_t>& bounds,
                                    ToldExchange::Spoils spoils = ToldExchange::Spoils::kNothing) {
  const auto exchanges = exchange::make_local(2);
  std::vector<Stepped> out(2);
  const auto statuses = test::run_ranks(exchanges, [&](std::size_t r) -> Status {
    ToldExchange own(*exchanges[r], kCode, r == 1 ? spoils : ToldExchange::Spoils::kNothing);
    DGX_TRY(auto executor, PartsExecutor::create_stage(own, stored.program, stored.inputs(), 1, {}, bounds));
    DGX_CHECK(executor->load(stored.state));
    Status status = executor->step();
    out[r].saved = executor->saved_bytes();
    out[r].sent = own.sent;
    return status;
  });
  for (std::size_t r = 0; r < out.size(); ++r) out[r].status = statuses[r];
  return out;
}

}  // namespace

TEST_CASE("a column is given codes in their bits, what they are divided by, and nothing that is zero") {
  const std::vector<std::int64_t> bounds = {0, 5, 12};
  for (const std::int64_t step : {kFirst - 1, kFirst}) {
    const auto ranks = step_in_column(stored_at(text_of_cut(), step), bounds);
    for (std::size_t r = 0; r < 2; ++r) {
      CAPTURE(step, r);
      REQUIRE(ranks[r].status.ok());
      const std::int64_t samples = r == 0 ? 5 : 7;
      std::map<int, std::int64_t> expected = {{kMax, 4 * samples}, {kCode, 12 * samples * 2 / 8}};
      if (step < kFirst) expected[kPlain] = 4 * 12 * samples;
      std::map<int, std::int64_t> of_cut;
      for (const auto& [value, bytes] : ranks[r].sent)
        if (value >= kMax - 3 && value <= 21) of_cut[value] = bytes;  // the lines of the cut, and before it
      CHECK(of_cut == expected);
      CHECK(ranks[r].saved == 12 * samples - 12 * samples * 2 / 8);
    }
  }
}

TEST_CASE("a code of a column that is not what a sender writes is the failure of a machine") {
  const Stored stored = stored_at(with_three_bits(), kFirst);
  const std::vector<std::int64_t> bounds = {0, 5, 12};  // 252 bits of the second, in 32 bytes
  for (const auto spoils :
       {ToldExchange::Spoils::kNothing, ToldExchange::Spoils::kPadding, ToldExchange::Spoils::kLength}) {
    CAPTURE(static_cast<int>(spoils));
    const auto ranks = step_in_column(stored, bounds, spoils);
    CHECK(ranks[1].sent.at(kCode) == 32);
    const Status& found = ranks[0].status;
    CHECK(found.ok() == (spoils == ToldExchange::Spoils::kNothing));
    if (found.ok()) continue;
    CHECK(found.error().code == ErrorCode::kInternal);
    CHECK_THAT(found.error().message, Catch::StartsWith("a message of another rank: "));
  }
}

TEST_CASE("a rank of a column takes what was counted") {
  for (const char* name : {"placement/cut", "placement/cut-gpt"}) {
    const Stored stored(name);
    const auto forward =
        program::forward_lines(*stored.program, *program::classify(*stored.program, stored.batch));
    const std::vector<ValueIndex> cuts = {forward[forward.size() / 2]};
    const std::vector<std::int64_t> bounds = {0, 1, 2, 4, stored.batch};
    const auto exchanges = exchange::make_local(4);
    for (int rank = 0; rank < 4; ++rank) {
      CAPTURE(name, rank);
      const auto stage = PartsExecutor::create_stage(*exchanges[static_cast<std::size_t>(rank)],
                                                     stored.program, stored.inputs(), 1, cuts, bounds);
      REQUIRE(stage.ok());
      const auto counted =
          PartsExecutor::bytes_of_stage(stored.program, stored.inputs(), 1, rank, 4, cuts, bounds);
      CHECK(counted.value() >= (*stage)->planned_bytes());
    }
  }
}

}  // namespace dgx::exec
