// Drives one fuzz target without libFuzzer, so that every build and every compiler runs it as a test:
//
//   replay_X N             the seeds, then N damaged ones; the same in every run
//   replay_X --input I     only input I of those, after writing it to standard output
//   replay_X --seeds DIR   writes the seeds: a corpus for libFuzzer
//   replay_X --file FILE   one input
//
// Input I depends on I alone. After a crash its number is the last line on standard error.

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iostream>
#include <span>

#include "scratch.h"
#include "target.h"

// From a sanitizer: sets a function to call before it ends the process.
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace {

using dgx::fuzz::require;

std::uint64_t current_input = 0;

void tell_input() {
  std::array<char, 64> line{};
  constexpr std::string_view kStart = "crashed at --input ";
  char* at = std::copy(kStart.begin(), kStart.end(), line.begin());
  at = std::to_chars(at, line.end() - 1, current_input).ptr;
  *at++ = '\n';
  static_cast<void>(!::write(STDERR_FILENO, line.data(), static_cast<std::size_t>(at - line.data())));
}

void on_signal(int number) {
  tell_input();
  ::signal(number, SIG_DFL);
  ::raise(number);
}

/// SplitMix64: the same on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  std::size_t below(std::size_t bound) { return bound == 0 ? 0 : static_cast<std::size_t>(next() % bound); }

 private:
  std::uint64_t state_;
};

/// Edge values for readers of integers, shapes and floats.
constexpr std::array<std::string_view, 18> kNumbers = {"0",
                                                       "1",
                                                       "-1",
                                                       "2",
                                                       "7",
                                                       "8",
                                                       "255",
                                                       "256",
                                                       "65535",
                                                       "65536",
                                                       "4294967296",
                                                       "9007199254740992",
                                                       "9007199254740993",
                                                       "9223372036854775807",
                                                       "-9223372036854775808",
                                                       "99999999999999999999",
                                                       "0x1p-149",
                                                       "1e9"};

/// [begin, end) of the first run of digits after `at`, or an empty range.
std::pair<std::size_t, std::size_t> digits_after(const std::string& text, std::size_t at) {
  constexpr std::string_view kDigits = "0123456789";
  const std::size_t begin = text.find_first_of(kDigits, at);
  if (begin == std::string::npos) return {0, 0};
  const std::size_t end = text.find_first_not_of(kDigits, begin);
  return {begin, end == std::string::npos ? text.size() : end};
}

/// [begin, end) of the line around `at`, newline included.
std::pair<std::size_t, std::size_t> line_around(const std::string& text, std::size_t at) {
  const std::size_t before = at == 0 ? std::string::npos : text.rfind('\n', at - 1);
  const std::size_t after = text.find('\n', at);
  return {before == std::string::npos ? 0 : before + 1, after == std::string::npos ? text.size() : after + 1};
}

void damage(std::string& text, std::span<const std::string> seeds, Random& random) {
  const std::size_t at = random.below(text.size() + 1);
  const std::size_t length = 1 + random.below(random.below(4) == 0 ? 64 : 8);
  if (text.empty()) {
    text = seeds[random.below(seeds.size())];
    return;
  }
  switch (random.below(10)) {
    case 0:
    case 1:
      text[at % text.size()] = static_cast<char>(text[at % text.size()] ^ (1 << random.below(8)));
      break;
    case 2: text[at % text.size()] = static_cast<char>(random.next()); break;
    case 3: text.erase(at, length); break;
    case 4: text.insert(at, text.substr(random.below(text.size()), length)); break;
    case 5: {
      const std::string& other = seeds[random.below(seeds.size())];
      text.replace(at, length, other.substr(random.below(other.size() + 1), length));
      break;
    }
    case 6:
    case 7: {
      const auto [begin, end] = digits_after(text, at);
      text.replace(begin, end - begin, kNumbers[random.below(kNumbers.size())]);
      break;
    }
    case 8: {
      const auto [begin, end] = line_around(text, at);
      const std::string line = text.substr(begin, end - begin);
      if (random.below(2) == 0) text.erase(begin, end - begin);
      if (random.below(2) == 0) text.insert(line_around(text, random.below(text.size() + 1)).first, line);
      break;
    }
    default: text.resize(random.below(8) == 0 ? at : text.size() - std::min(text.size(), random.below(4)));
  }
}

/// Input `index`: a seed, or a damaged one.
std::string input(std::uint64_t index, std::span<const std::string> seeds) {
  if (index < seeds.size()) return seeds[index];
  Random random(index * 0x2545f4914f6cdd1d + 1);
  std::string text = seeds[random.below(seeds.size())];
  const std::size_t times = 1 + random.below(random.below(4) == 0 ? 8 : 2);
  for (std::size_t i = 0; i < times; ++i) damage(text, seeds, random);
  return text;
}

void run(std::string_view text) {
  // A copy of exactly this size, so that a sanitizer sees a read past the end.
  const std::vector<std::uint8_t> bytes(text.begin(), text.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

std::uint64_t number(std::string_view text) {
  std::uint64_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  require(error == std::errc() && end == text.data() + text.size(), "the argument is a number");
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string_view> arguments(argv + 1, argv + argc);
  require(!arguments.empty(), "usage: replay_X N | --input I | --seeds DIR | --file FILE");
  if (arguments[0] == "--file") {
    run(dgx::fuzz::Scratch::read(argv[2]));
    return 0;
  }
  const std::vector<std::string> seeds = dgx::fuzz::seeds();
  if (arguments[0] == "--seeds") {
    for (std::size_t i = 0; i < seeds.size(); ++i) {
      std::ofstream(std::filesystem::path(argv[2]) / ("seed-" + std::to_string(i)), std::ios::binary)
          << seeds[i];
    }
    return 0;
  }
  if (arguments[0] == "--input") {
    const std::string text = input(number(argv[2]), seeds);
    std::cout << text << std::flush;
    run(text);
    return 0;
  }
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGALRM}) ::signal(signal, on_signal);
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(tell_input);
  const std::uint64_t count = seeds.size() + number(arguments[0]);
  for (current_input = 0; current_input < count; ++current_input) {
    ::alarm(60);  // no input may occupy a parser longer
    run(input(current_input, seeds));
  }
  return 0;
}
