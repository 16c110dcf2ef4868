#include "dgx/jobs/settle.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "dgx/core/files.h"
#include "dgx/crypto/key_file.h"
#include "statements.h"
#include "verify/store.h"

using namespace dgx;
using namespace dgx::manifest;

namespace {

constexpr std::uint8_t kOperator = 1;
constexpr std::uint8_t kSubmitter = 2;

/// A ledger in a folder of its own, with a clock set by hand.
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
  /// Logs statements given as a file, one a line.
  Status log(const std::vector<Signed<Body>>& statements) const {
    std::string lines;
    for (const auto& statement : statements) lines += statement.envelope + "\n";
    put("lines.jsonl", lines);
    const auto done = jobs::append_statements(writer, {folder + "/lines.jsonl"});
    return done.ok() ? Status() : Status(done.error());
  }
  [[nodiscard]] Signed<Body> deposit(const std::string& reference = "first") const {
    return *seal_any(Deposit{test::key_id(kSubmitter), 1'000, reference, id()}, test::key(kOperator));
  }
  [[nodiscard]] Signed<Body> withdrawal(std::int64_t amount) const {
    return *seal_any(Withdrawal{test::key_id(kSubmitter).hex(), amount, "out", id()}, test::key(kSubmitter));
  }
  [[nodiscard]] Signed<Body> task(std::uint64_t seed = 1) const {
    Task task = test::task();
    task.seed = seed;
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
  CHECK(jobs::run_ledger(market.writer, {})->size() == 1);  // only the clock
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

TEST_CASE("no money is locked in a ledger whose time is ahead of the clock") {
  Market market;
  REQUIRE(market.log({market.deposit()}).ok());
  constexpr std::int64_t kDay = 24 * 3'600'000;
  market.now += 30 * kDay;
  REQUIRE(market.log({market.deposit("in time")}).ok());
  market.now += 30 * kDay + 1;
  const auto status = market.log({market.deposit("far ahead")});
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().message == "the ledger's last receipt is 30 days old");
  CHECK(jobs::run_ledger(market.writer, {}).error().code == ErrorCode::kNotAllowed);
  market.writer.after_pause = true;
  REQUIRE(market.log({market.deposit("far ahead")}).ok());
  market.writer.after_pause = false;
  market.now -= kDay;  // the clock was wrong
  const auto refused = market.log({market.task()});
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == ErrorCode::kNotAllowed);
  CHECK(refused.error().message.find("no deadline would pass") != std::string::npos);
  CHECK(market.log({market.withdrawal(2'000)}).ok());
}

TEST_CASE("what waits for a fetch has the time at which it was handed in, or the last receipt's") {
  Market market;
  const Signed<Body> task = market.task();
  const Delivery nowhere{task.id, {}, {}, "nowhere"};
  const Signed<Body> delivery = *seal_any(nowhere, test::key(kSubmitter));
  market.put("lines.jsonl",
             market.deposit().envelope + "\n" + delivery.envelope + "\n" + task.envelope + "\n");
  market.writer.store = market.folder;
  market.writer.clock = [&] { return market.now += 1'000'000; };
  const auto done = jobs::append_statements(market.writer, {market.folder + "/lines.jsonl"});
  REQUIRE(done.ok());
  CHECK(done->refused.size() == 1);
  REQUIRE(done->logged.size() == 2);
  CHECK(done->logged[0].receipt.body.milliseconds == 2'000'000);
  CHECK(done->logged[1].statement.id == task.id);
  CHECK(done->logged[1].receipt.body.milliseconds == 2'000'000);
}

TEST_CASE("a stranger's file takes the time and the room that its owner spent on it") {
  Market market;
  const jobs::Store store{market.folder};
  const Digest who = test::key_id(kSubmitter);
  REQUIRE(store.make_folders(who, "holes").ok());
  constexpr std::int64_t kSize = std::int64_t{1} << 40;
  constexpr std::int64_t kPage = 4096;
  const std::vector<std::int64_t> places{0, kPage * 3, (std::int64_t{1} << 39) + 5, kSize - 4};
  {
    std::ofstream file(store.at(who, "holes"), std::ios::binary);
    for (const std::int64_t at : places) file.seekp(at).write("data", 4);
  }
  CHECK(store.size(who, "holes") == kSize);
  CHECK_FALSE(store.size(who, "nowhere"));
  CHECK(store.copy(who, "holes", market.folder + "/copy", kSize - 1).error().code == ErrorCode::kMalformed);
  REQUIRE(store.copy(who, "holes", market.folder + "/copy", kSize).ok());

  struct stat info {};
  REQUIRE(::stat((market.folder + "/copy").c_str(), &info) == 0);
  CHECK(info.st_size == kSize);
  CHECK(info.st_blocks * 512 < 1 << 20);
  std::ifstream copy(market.folder + "/copy", std::ios::binary);
  for (const std::int64_t at : places) {
    std::string found(4, '\0');
    copy.seekg(at).read(found.data(), 4);
    CHECK(found == "data");
  }
}

TEST_CASE("one statement that is not allowed keeps all of them out") {
  Market market;
  const auto message = market.log({market.deposit(), market.withdrawal(1'001)});
  REQUIRE_FALSE(message.ok());
  CHECK(message.error().message.find("lines.jsonl: line 2: withdrawal ") != std::string::npos);
  CHECK(jobs::head_of_ledger(market.writer.file)->head.count == 1);
}

TEST_CASE("with keep-going the others are logged, and each refusal is told") {
  Market market;
  market.put("lines.jsonl", market.withdrawal(5).envelope + "\n" + market.deposit().envelope + "\n{}\n" +
                                market.task().envelope + "\n" + market.withdrawal(446).envelope + "\n");
  const auto done = jobs::append_statements(market.writer,
                                            {market.folder + "/nowhere.json", market.folder + "/lines.jsonl"},
                                            jobs::OnRefusal::kKeepGoing);
  REQUIRE(done.ok());
  REQUIRE(done->logged.size() == 2);
  CHECK(kind_of(done->logged[1].statement.body) == Kind::kTask);
  REQUIRE(done->refused.size() == 4);
  CHECK(done->refused[0].code == ErrorCode::kMissing);
  CHECK(done->refused[1].message.find("lines.jsonl: line 1: withdrawal ") != std::string::npos);
  CHECK(done->refused[2].message.find("lines.jsonl: line 3: ") != std::string::npos);
  CHECK(done->refused[3].message.find("has 445, the withdrawal needs 446") != std::string::npos);
  CHECK(jobs::view_ledger(market.writer.file)->log.entries.size() == 3);
}

TEST_CASE("the same append again completes what a crash cut off") {
  Market market;
  const auto size = [&](const std::string& name) {
    return std::filesystem::file_size(market.folder + "/" + name);
  };
  const std::vector<Signed<Body>> batch{market.deposit(), market.task(), market.withdrawal(301)};
  const auto before = size("L.receipts.jsonl");
  REQUIRE(market.log(batch).ok());
  const auto receipt = (size("L.receipts.jsonl") - before) / batch.size();
  for (std::size_t counted = 0; counted <= batch.size(); ++counted) {
    std::filesystem::resize_file(market.folder + "/L.receipts.jsonl",
                                 before + counted * receipt + (counted < 3 ? 1 : 0));
    const auto again = jobs::append_statements(market.writer, {market.folder + "/lines.jsonl"});
    REQUIRE(again.ok());
    CHECK(again->skipped == static_cast<std::int64_t>(counted));
    CHECK(again->logged.size() == batch.size() - counted);
    CHECK(jobs::view_ledger(market.writer.file)->log.entries.size() == 4);
  }
}

TEST_CASE("a ledger that strangers filled still ends what is open, and pays balances out") {
  Market market;
  REQUIRE(market.log({market.deposit(), market.task()}).ok());
  const auto reserved = jobs::view_ledger(market.writer.file)->market.reserved_bytes();
  const auto longer = std::max(std::filesystem::file_size(market.folder + "/L.jsonl"),
                               std::filesystem::file_size(market.folder + "/L.receipts.jsonl"));
  market.writer.most_bytes = longer + reserved;
  for (const Signed<Body>& statement :
       {market.withdrawal(1), market.withdrawal(444), market.task(60), market.deposit("next")}) {
    const Status status = market.log({statement});
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().code == ErrorCode::kNotAllowed);
    CHECK(status.error().message.find(": no room: ") != std::string::npos);
  }
  CHECK(market.log({market.withdrawal(445)}).ok());
  market.now += test::policy().window_proof_ms + 1;
  REQUIRE(jobs::run_ledger(market.writer, {})->size() == 2);
  CHECK(market.log({market.withdrawal(555)}).ok());
  CHECK(jobs::view_ledger(market.writer.file)->market.total() == 0);
  // With a little more room the task has ended, and another one is accepted.
  market.writer.most_bytes += 20'000;
  CHECK(market.log({market.deposit("next")}).ok());
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
  const auto offer = *seal_any(BeaconCommitment{market.task().id, test::digest("c"), test::digest("dataset"),
                                                test::digest("initial"), 1},
                               test::key(3));
  market.put("offer.json", offer.envelope);
  jobs::MakeStatement options{"assign",
                              market.folder + "/task.json",
                              market.folder + "/offer.json",
                              {},
                              {},
                              market.key(kOperator),
                              {},
                              {}};
  Progress progress;
  const StopFlag stop;
  const JobContext context{.progress = progress, .stop = stop};
  CHECK(jobs::make_statement(options, context).error().message == "segment_milliseconds: is missing");
  options.settings = {"segment_milliseconds=51"};
  CHECK(jobs::make_statement(options, context).error().message.find("takes 51 ms") != std::string::npos);
  options.settings = {"segment_milliseconds=50"};
  const auto assign = jobs::make_statement(options, context);
  REQUIRE(assign.ok());
  options.settings.clear();
  CHECK(std::get<Assign>(assign->body).commitment == offer.id);
  CHECK(std::get<Assign>(assign->body).dataset == test::digest("dataset"));
  options.kind = "deposit";
  options.about_path.reset();
  const auto money = jobs::make_statement(options, context);
  REQUIRE(money.ok());
  CHECK(std::get<Deposit>(money->body).account == test::key_id(kSubmitter));
  CHECK(std::get<Deposit>(money->body).amount == 555);
  CHECK(jobs::make_statement(options, context)->id != money->id);  // its reference is random
  options.kind = "receipt";
  CHECK(jobs::make_statement(options, context).error().code == ErrorCode::kUsage);
}
