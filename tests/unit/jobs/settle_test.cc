#include "dgx/jobs/settle.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "dgx/core/files.h"
#include "dgx/crypto/key_file.h"
#include "statements.h"

using namespace dgx;
using namespace dgx::manifest;

namespace {

constexpr std::uint8_t kOperator = 1;
constexpr std::uint8_t kSubmitter = 2;

/// A ledger of its own, with a clock that is set by hand.
struct Market {
  Market() {
    std::string name = (std::filesystem::temp_directory_path() / "dgx-settle-XXXXXX").string();
    folder = ::mkdtemp(name.data());
    put("policy.json", json::Value(test::policy().to_json()).dump());
    for (const std::uint8_t who : {kOperator, kSubmitter}) {
      REQUIRE(crypto::write_secret_key(key(who).path, test::key(who), {}, Clobber::kReplace).ok());
    }
    writer = {{folder + "/L.jsonl", {}}, key(kOperator), [this] { return now; }};
    REQUIRE(jobs::init_ledger(writer, folder + "/policy.json").ok());
  }
  ~Market() { std::filesystem::remove_all(folder); }

  void put(const std::string& name, const std::string& text) const {
    REQUIRE(write_file(folder + "/" + name, text, Clobber::kReplace).ok());
  }
  [[nodiscard]] jobs::KeyFile key(std::uint8_t who) const {
    return {folder + "/" + std::to_string(who) + ".pem", {}};
  }
  /// Logs statements, one a line.
  Status log(const std::vector<Signed<Body>>& statements) const {
    std::string lines;
    for (const auto& statement : statements) lines += statement.envelope + "\n";
    put("lines.jsonl", lines);
    const auto done = jobs::append_statements(writer, {folder + "/lines.jsonl"});
    return done.ok() ? Status() : Status(done.error());
  }
  [[nodiscard]] Signed<Body> deposit() const {
    return *seal_any(Deposit{test::key_id(kSubmitter), 1'000, "first", id()}, test::key(kOperator));
  }
  [[nodiscard]] Signed<Body> task() const {
    Task task = test::task();
    task.ledger = id();
    return *seal_any(task, test::key(kSubmitter));
  }
  [[nodiscard]] Digest id() const { return jobs::head_of_ledger(writer.file)->ledger; }
  [[nodiscard]] std::int64_t time() const { return jobs::head_of_ledger(writer.file)->milliseconds; }

  std::string folder;
  std::int64_t now = 1'000'000;
  jobs::LedgerWriter writer;
};


}  // namespace

TEST_CASE("a task is settled one millisecond after its deadline and not before") {
  Market market;
  REQUIRE(market.log({market.deposit(), market.task()}).ok());
  market.now += test::policy().window_proof_ms;
  CHECK(jobs::run_ledger(market.writer, {})->size() == 1);  // the clock alone
  market.now += 1;
  const auto logged = jobs::run_ledger(market.writer, {});
  REQUIRE(logged.ok());
  REQUIRE(logged->size() == 2);
  CHECK(std::get<Settlement>((*logged)[1].statement.body).reason == Reason::kNoAssignment);
  CHECK((*logged)[1].receipt.body.index == 5);
  const auto view = jobs::view_ledger(market.writer.file);
  CHECK(jobs::accounts_of(*view, {})->at(test::key_id(kSubmitter).hex()) == 1'000);
}

TEST_CASE("a clock that goes back does not take the ledger's time back") {
  Market market;
  market.now += 500;
  REQUIRE(market.log({market.deposit()}).ok());
  market.now -= 10'000;
  REQUIRE(market.log({market.task()}).ok());
  CHECK(market.time() == 1'000'500);
  REQUIRE(jobs::run_ledger(market.writer, {}).ok());
  CHECK(market.time() == 1'000'500);
  CHECK(jobs::sign_head(market.writer)->body.milliseconds == 1'000'500);
}

TEST_CASE("one statement that is not allowed keeps all of them out") {
  Market market;
  const auto message = market.log({market.deposit(), market.deposit()});
  REQUIRE_FALSE(message.ok());
  CHECK(message.error().message.find("lines.jsonl: line 2: deposit ") != std::string::npos);
  CHECK(jobs::head_of_ledger(market.writer.file)->head.count == 1);
}

TEST_CASE("a task is named by its id, by the beginning of it, or by its file") {
  Market market;
  REQUIRE(market.log({market.deposit(), market.task()}).ok());
  market.put("task.json", market.task().envelope);
  const auto view = jobs::view_ledger(market.writer.file);
  REQUIRE(view.ok());
  const std::string id = market.task().id.hex();
  for (const std::string& name : {id, id.substr(0, 8), market.folder + "/task.json"}) {
    const auto found = jobs::find_task(view->market, name);
    REQUIRE(found.ok());
    CHECK((*found)->task.id == market.task().id);
  }
  CHECK_FALSE(jobs::find_task(view->market, id.substr(0, 7)).ok());
  CHECK_FALSE(jobs::find_task(view->market, std::string(64, '0')).ok());
}

TEST_CASE("every kind that can be made is made from what it follows from") {
  Market market;
  market.put("task.json", market.task().envelope);
  const auto offer = *seal_any(
      BeaconCommitment{market.task().id, test::digest("c"), test::digest("dataset"), test::digest("initial")},
      test::key(3));
  market.put("offer.json", offer.envelope);
  jobs::MakeStatement options{"assign", market.folder + "/task.json", market.folder + "/offer.json",
                              {},       {},       market.key(kOperator), {}};
  const auto assign = jobs::make_statement(options);
  REQUIRE(assign.ok());
  CHECK(std::get<Assign>(assign->body).commitment == offer.id);
  CHECK(std::get<Assign>(assign->body).dataset == test::digest("dataset"));
  options.kind = "deposit";
  const auto money = jobs::make_statement(options);
  REQUIRE(money.ok());
  CHECK(std::get<Deposit>(money->body).account == test::key_id(kSubmitter));
  CHECK(std::get<Deposit>(money->body).amount == 555);
  CHECK(jobs::make_statement(options)->id != money->id);  // its reference is random
  options.kind = "receipt";
  CHECK(jobs::make_statement(options).error().code == ErrorCode::kUsage);
}
