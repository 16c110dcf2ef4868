#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dgx/cli/command.h"
#include "dgx/cli/out.h"
#include "dgx/core/result.h"

namespace dgx::cli {

/// The exit code of a program that ended without an error. Errors never give 0, 1 or 3, except kInconclusive.
enum class Verdict : int { kDone = 0, kAccepted = 0, kRefuted = 1, kDiverged = 1, kInconclusive = 3 };

/// A program: its commands, and everything that all programs have in common (common options, --help,
/// --version, --completion, exit codes). A command is a type
///
///     struct New {
///       jobs::NewKey options;
///       void declare(cli::Command& command) { command.positional("NAME", options.name, "…"); }
///       Result<cli::Verdict> run(cli::Out& out) const;
///     };
///
/// and a program is `Tool tool("dgx-key", "…"); tool.add<New>("new", "…"); return tool.run(argc, argv);`.
class Tool {
 public:
  /// `summary` is the line under the name in help.
  Tool(std::string name, std::string summary);

  /// Adds a command. One with an empty name runs when the first argument names no command.
  template <class T>
  Tool& add(std::string name, std::string summary) {
    commands_.push_back({std::move(name), std::move(summary), [] { return std::make_unique<Model<T>>(); }});
    return *this;
  }

  /// Adds a command that is planned but not in this version: it exits with 2 and says so.
  Tool& later(std::string name, std::string summary);

  /// The names by which text calls keys (Out::name_keys): `read` gives those of a --trust, and warns of what
  /// it passes over there. Without it, or if it fails, keys are called by their ids; that a --trust cannot be
  /// read is for the command to say.
  using ReadNames =
      std::function<Result<std::map<std::string, std::string>>(const std::string& trust, Progress& warned)>;
  Tool& names(ReadNames read) { return read_names_ = std::move(read), *this; }

  /// Parses, runs and prints; returns the exit code. Throws nothing.
  [[nodiscard]] int run(int argc, char** argv) const;

  struct Runner {
    virtual ~Runner() = default;
    virtual void declare(Command& command) = 0;
    virtual Result<Verdict> run(Out& out) = 0;
  };
  struct Entry {
    std::string name;
    std::string summary;
    std::function<std::unique_ptr<Runner>()> make;
    bool later = false;
  };
  [[nodiscard]] const ReadNames& read_names() const { return read_names_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& summary() const { return summary_; }
  [[nodiscard]] const std::vector<Entry>& commands() const { return commands_; }

 private:
  template <class T>
  struct Model final : Runner {
    T command;
    void declare(Command& table) override { command.declare(table); }
    Result<Verdict> run(Out& out) override { return command.run(out); }
  };

  std::string name_;
  std::string summary_;
  std::vector<Entry> commands_;
  ReadNames read_names_;
};

}  // namespace dgx::cli
