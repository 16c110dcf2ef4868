// A dispute at full size: 10^6 steps in segments of 100, a program of 4,096 lines, tensors of 10^7 elements,
// and one scalar operation among a dot's 4,096. The parties hold only the tensors in question instead of a
// training.
//
//   dispute_bench make FOLDER [--json]            plays the game and writes FOLDER/dispute.jsonl
//   dispute_bench judge FOLDER REFEREE [--json]   has it judged by the built dgx-referee with
//   FOLDER/referee.pem
//
// Two calls, since a process's peak memory starts at that of the process that starts it.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "dgx/kernels/evaluate.h"
#include "dgx/merkle/digests.h"
#include "dgx/protocol/player.h"
#include "dgx/protocol/segments.h"
#include "disputes.h"
#include "statements.h"

namespace {

using namespace dgx;
using namespace dgx::test;

constexpr std::int64_t kRows = 2'442, kWidth = 4'096;  // 10^7 elements
constexpr int kLines = 4'096;
constexpr std::int64_t kSegment = 4'321, kStep = kSegment * 100 + 67;
constexpr std::int64_t kElement = 7'654'321;

struct Size {
  program::Program program;
  int left = 0, right = 0, product = 0;
};

Size sketch() {
  Sketch s;
  Size out;
  out.left = s.state("model/a", "f32", {kRows, kWidth});
  out.right = s.state("model/b", "f32", {kWidth, kWidth});
  const int other = s.state("model/z", "f32", {});
  int last = other;
  while (last < kLines - 200)
    last = s.add({"map", {}, {fmt::format("{}[]", last)}, {"mul x0 0x1.8p0", "tanh t0"}});
  out.product = s.add({"dot",
                       {kRows, kWidth},
                       {fmt::format("{}[i0,k0]", out.left), fmt::format("{}[i1,k0]", out.right)},
                       {},
                       {kWidth}});
  // Loss, step and its successor take three more lines.
  while (last < kLines - 4)
    last = s.add({"map", {}, {fmt::format("{}[]", last)}, {"mul x0 0x1.8p0", "tanh t0"}});
  s.next(out.left, out.product);
  s.next(other, last);
  out.program = s.finish();
  return out;
}

/// A party in which every digest that no move opens is a digest of nothing.
class Paper : public protocol::Party {
 public:
  Paper(const Size& size, const Tensor& left, const Tensor& right, Tensor product, bool lies)
      : size_(size), left_(left), right_(right), product_(std::move(product)), lies_(lies) {
    for (int v = 0; v < kLines; ++v)
      values_.push_back(digest(fmt::format("value {}{}", v, lies && v > size.product ? "'" : "")));
    values_[static_cast<std::size_t>(size.left)] = merkle::tensor_digest(left_.view());
    values_[static_cast<std::size_t>(size.right)] = merkle::tensor_digest(right_.view());
    values_[static_cast<std::size_t>(size.product)] = merkle::tensor_digest(product_.view());
  }
  Result<std::optional<std::int64_t>> non_finite_after() override { return std::optional<std::int64_t>(); }
  Result<Digest> state(std::int64_t step) override {
    return digest(fmt::format("state {}{}", step, lies_ && step > kStep ? "'" : ""));
  }
  Result<std::vector<merkle::NamedDigest>> entries(std::int64_t) override {
    return malformed("not asked for");
  }
  Result<std::vector<Digest>> values(std::int64_t) override { return values_; }
  Result<Tensor> value(std::int64_t, kernels::ValueIndex v) override {
    return to_number(v) == size_.left ? left_ : to_number(v) == size_.right ? right_ : product_;
  }
  Result<protocol::DataOpening> data(std::string_view, std::int64_t) override {
    return malformed("not asked for");
  }
  Result<Tensor> entry(std::int64_t, std::string_view) override { return malformed("not asked for"); }

 private:
  const Size& size_;
  const Tensor &left_, &right_;
  Tensor product_;
  bool lies_;
  std::vector<Digest> values_;
};

Tensor drawn(const Shape& shape, std::uint64_t seed) {
  Tensor out(DType::kF32, shape);
  Dice dice(seed);
  for (float& number : out.as<float>()) number = static_cast<float>(dice.below(2001) - 1000) * 0x1p-10F;
  return out;
}

/// Running results that pass the game's check but are false from a block in the middle on; found by trying.
Bytes fitting(const protocol::FoldLevels& fold, const Bytes& numbers) {
  for (std::uint32_t away = 0; away < 1U << 20; ++away) {
    for (const bool up : {true, false}) {
      Bytes other = numbers;
      const std::size_t first = numbers.size() == 17 * 4 ? 8 : numbers.size() / 4 - 1;  // a total, 16 blocks
      for (std::size_t i = first; i < numbers.size() / 4; ++i) {
        std::uint32_t bits = 0;
        std::memcpy(&bits, numbers.data() + 4 * i, 4);
        bits = up ? bits + away : bits - away;
        std::memcpy(other.data() + 4 * i, &bits, 4);
      }
      if (numbers.size() == 17 * 4) std::memcpy(other.data() + 4 * 16, other.data(), 4);
      protocol::FoldLevels copy = fold;
      const auto contradiction = copy.post(other);
      if (contradiction.ok() && !*contradiction) return other;
    }
  }
  return numbers;
}

struct Game {
  std::string transcript;
  std::size_t messages = 0, claim = 0;
};

Game play_game(const Scene& scene, const protocol::Dispute& dispute, protocol::Party& cheat,
               protocol::Party& honest) {
  protocol::Player shows(scene.program, cheat), objects(scene.program, honest);
  auto game = protocol::Game::open(dispute);
  std::vector<manifest::Signed<manifest::Move>> moves;
  while (game.ok() && !game->decision()) {
    const protocol::Side side = game->due().side;
    auto message = (side == protocol::Side::kDefender ? shows : objects).next(*game);
    if (!message.ok() || !*message) break;
    if (auto* numbers = std::get_if<protocol::NumbersPost>(&**message))
      numbers->numbers = fitting(game->stage<protocol::ShowNumbers>()->fold, numbers->numbers);
    moves.push_back(move_of(*game, side, protocol::print_message(**message), true));
    if (!game->apply(moves.back()).ok()) break;
  }
  if (!game.ok() || !game->decision() || !game->decision()->falls) {
    fmt::print(stderr, "dispute_bench: the cheat is not convicted\n");
    std::exit(1);
  }
  return {transcript_of(dispute, moves), moves.size() + 1, payload_bytes(moves.back(), kChallenges)};
}

struct Run {
  double milliseconds = 0;
  double mebibytes = 0;
};

/// Runs the referee in one process and measures its time from fork to end, and its peak memory.
Run run_referee(const char* referee, const std::string& transcript, const std::string& key) {
  const auto begin = std::chrono::steady_clock::now();
  const pid_t child = vfork();
  if (child == 0) {
    close(STDOUT_FILENO);
    open("/dev/null", O_WRONLY);
    execl(referee, referee, transcript.c_str(), "--key", key.c_str(), "-o", "/dev/null", "--force", "--quiet",
          static_cast<char*>(nullptr));
    _exit(127);
  }
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  if (!WIFEXITED(status) || WEXITSTATUS(status) > 1) {
    fmt::print(stderr, "dispute_bench: the referee ends with {}\n", WEXITSTATUS(status));
    std::exit(1);
  }
  const double took =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  return {took, static_cast<double>(usage.ru_maxrss) / 1024};
}

/// Prints a row in the format of tests/bench/run.sh.
void report(bool json, const char* name, double value, const char* unit) {
  constexpr std::string_view kJson =
      "{{\"name\":\"dispute-{}\",\"dgx\":{:.5g},\"peer\":null,\"peer_name\":null,\"ratio\":null,\"threads\":"
      "1,"
      "\"unit\":\"{}\"}}\n";
  constexpr std::string_view kText = "dispute-{:<26} 1  dgx {:9.4g} {}\n";
  fmt::print(fmt::runtime(json ? kJson : kText), name, value, unit);
}

int make(const std::string& folder, bool json) {
  const Size size = sketch();
  const Tensor left = drawn({kRows, kWidth}, 1), right = drawn({kWidth, kWidth}, 2);
  Tensor product(DType::kF32, {kRows, kWidth});  // both parties' products are zero where they agree
  const kernels::ByValue<kernels::ValueType> types{{DType::kF32, left.shape()}, {DType::kF32, right.shape()}};
  const auto line = kernels::compile(size.program.values[kernels::ValueIndex{size.product}], types);
  const kernels::ByValue<TensorView> read{left.view(), right.view()};
  product.as<float>()[kElement] = kernels::evaluate_element(*line, read, kElement)->real;
  Tensor false_product = product;
  false_product.bytes()[kElement * 4] ^= 1;
  Paper honest(size, left, right, std::move(product), false);
  Paper cheat(size, left, right, std::move(false_product), true);

  Scene scene;
  scene.program = size.program;
  manifest::Task task = test::task();
  task.program = {program::program_root(size.program), kLines};
  task.steps = 1'000'000;
  task.checkpoint_every = 100;
  task.caps.steps = task.steps;
  task.initial.digest = *honest.state(0);
  scene.task = *manifest::seal(task, test::key(2));
  Setup setup;
  setup.segment = kSegment;
  setup.sealed = true;
  const Game game = play_game(scene, dispute_of(scene, setup, cheat), cheat, honest);
  std::ofstream(folder + "/dispute.jsonl", std::ios::binary) << game.transcript;
  report(json, "messages", static_cast<double>(game.messages), "statements");
  report(json, "claim", static_cast<double>(game.claim) / 1024, "KiB");
  report(json, "transcript", static_cast<double>(game.transcript.size()) / 1024, "KiB");
  return 0;
}

int judge(const char* referee, const std::string& folder, bool json) {
  constexpr std::size_t kRuns = 51;
  std::vector<double> milliseconds;
  double mebibytes = 0;
  for (std::size_t i = 0; i < kRuns; ++i) {
    const Run run = run_referee(referee, folder + "/dispute.jsonl", folder + "/referee.pem");
    milliseconds.push_back(run.milliseconds);
    mebibytes = std::max(mebibytes, run.mebibytes);
  }
  std::nth_element(milliseconds.begin(), milliseconds.begin() + kRuns / 2, milliseconds.end());
  report(json, "referee", milliseconds[kRuns / 2], "ms");
  report(json, "referee-memory", mebibytes, "MiB");
  struct stat file {};
  if (stat(referee, &file) == 0)
    report(json, "referee-file", static_cast<double>(file.st_size) / 1048576, "MiB");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string_view> arguments(argv + 1, argv + argc);
  const bool json = !arguments.empty() && arguments.back() == "--json";
  if (arguments.size() >= 2 && arguments[0] == "make") return make(argv[2], json);
  if (arguments.size() >= 3 && arguments[0] == "judge") return judge(argv[3], argv[2], json);
  fmt::print(
      stderr,
      "usage: dispute_bench make FOLDER [--json]\n       dispute_bench judge FOLDER REFEREE [--json]\n");
  return 2;
}
