#pragma once

#include <sys/types.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace dgx::bench {

/// A process that takes a peer's training steps. It first says "ready"; then it answers a number of steps,
/// one a line on its standard input, with the seconds they took. In a process of its own a peer has the
/// allocator and the threads that suit it best.
class Peer {
 public:
  struct Command {
    std::string name;
    std::vector<std::string> words;
    std::vector<std::pair<std::string, std::string>> environment = {};  ///< added to ours
  };

  /// nullptr, with the reason on standard error, if the process ends before it is ready.
  [[nodiscard]] static std::unique_ptr<Peer> start(const Command& command);
  /// Ends the process.
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }
  /// Takes that many steps and returns their total seconds. Exits with a message if the process has died.
  [[nodiscard]] double steps(int count);

 private:
  Peer(std::string name, pid_t process, int to, int from);

  std::string name_;
  pid_t process_;
  FILE* to_;
  FILE* from_;
};

/// The fastest of several ways to start the same peer: each takes steps for about `seconds`, in turns; the
/// others are ended. nullptr if none starts.
[[nodiscard]] std::unique_ptr<Peer> fastest_of(const std::vector<Peer::Command>& commands, double seconds);

/// Answers as a Peer expects, with steps of this process, until standard input ends.
void serve(const std::function<void()>& step);

}  // namespace dgx::bench
