#include "peer.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "row.h"

namespace dgx::bench {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (std::string& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

std::vector<std::string> environment_of(const Peer::Command& command) {
  std::vector<std::string> out;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string word = *each;
    const bool replaced = std::any_of(command.environment.begin(), command.environment.end(),
                                      [&](const auto& own) { return word.starts_with(own.first + "="); });
    if (!replaced) out.push_back(word);
  }
  for (const auto& [name, value] : command.environment) out.push_back(name + "=" + value);
  return out;
}

}  // namespace

Peer::Peer(std::string name, pid_t process, int to, int from)
    : name_(std::move(name)), process_(process), to_(fdopen(to, "w")), from_(fdopen(from, "r")) {}

Peer::~Peer() {
  std::fclose(to_);
  std::fclose(from_);
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
}

std::unique_ptr<Peer> Peer::start(const Command& command) {
  std::signal(SIGPIPE, SIG_IGN);
  int to[2], from[2];
  if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0) return nullptr;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
  std::vector<std::string> words = command.words, environment = environment_of(command);
  pid_t process = 0;
  const int failed = posix_spawnp(&process, words[0].c_str(), &actions, nullptr, pointers(words).data(),
                                  pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  close(to[0]);
  close(from[1]);
  if (failed != 0) {
    std::fprintf(stderr, "%s: cannot be started\n", words[0].c_str());
    close(to[1]);
    close(from[0]);
    return nullptr;
  }
  std::unique_ptr<Peer> peer(new Peer(command.name, process, to[1], from[0]));
  char line[16];
  const bool ready = std::fgets(line, sizeof line, peer->from_) != nullptr && std::string(line) == "ready\n";
  return ready ? std::move(peer) : nullptr;
}

double Peer::steps(int count) {
  double seconds = 0;
  std::fprintf(to_, "%d\n", count);
  if (std::fflush(to_) == 0 && std::fscanf(from_, "%lf", &seconds) == 1) return seconds;
  std::fprintf(stderr, "%s: its process has died\n", name_.c_str());
  std::exit(70);
}

std::unique_ptr<Peer> fastest_of(const std::vector<Peer::Command>& commands, double seconds) {
  constexpr int kRounds = 5;
  std::vector<std::unique_ptr<Peer>> peers;
  for (const Peer::Command& command : commands) {
    if (auto peer = Peer::start(command)) peers.push_back(std::move(peer));
  }
  if (peers.size() < 2) return peers.empty() ? nullptr : std::move(peers[0]);
  std::vector<int> counts;
  for (const auto& peer : peers) {
    static_cast<void>(peer->steps(3));
    counts.push_back(std::max(1, static_cast<int>(seconds / kRounds / std::max(peer->steps(1), 1e-6))));
  }
  std::vector<std::vector<double>> times(peers.size());
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t p = 0; p < peers.size(); ++p) times[p].push_back(peers[p]->steps(counts[p]) / counts[p]);
  }
  std::size_t best = 0;
  for (std::size_t p = 1; p < peers.size(); ++p) {
    if (median(times[p]) < median(times[best])) best = p;
  }
  return std::move(peers[best]);
}

void serve(const std::function<void()>& step) {
  std::puts("ready");
  std::fflush(stdout);
  for (int count = 0; std::scanf("%d", &count) == 1;) {
    const double begin = now();
    for (int n = 0; n < count; ++n) step();
    std::printf("%.9f\n", now() - begin);
    std::fflush(stdout);
  }
}

}  // namespace dgx::bench
