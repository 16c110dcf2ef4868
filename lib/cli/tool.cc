#include "dgx/cli/tool.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <optional>

#include "completion.h"
#include "dgx/cli/signals.h"
#include "dgx/core/files.h"
#include "dgx/core/text.h"
#include "dgx/core/version.h"
#include "help.h"
#include "parse.h"
#include "version.h"

namespace dgx::cli {
namespace {

struct Later final : Tool::Runner {
  void declare(Command&) override {}
  Result<Verdict> run(Out&) override { return Verdict::kDone; }
};

/// The command line's command (nullptr: none), and the arguments without its name.
struct Request {
  const Tool::Entry* entry = nullptr;
  std::optional<std::string> unknown;
  std::vector<std::string> arguments;
};

const Tool::Entry* find_entry(const Tool& tool, std::string_view name) {
  for (const Tool::Entry& entry : tool.commands()) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

/// The position of the first argument that is neither a common option nor the value of one.
std::size_t first_word(const std::vector<std::string>& arguments) {
  const Command common = common_table();
  std::size_t at = 0;
  while (at < arguments.size() && arguments[at].size() > 1 && arguments[at][0] == '-') {
    const OptionRow* const row = common.find(arguments[at]);
    at += row != nullptr && row->form == OptionRow::Form::kValue ? 2 : 1;
  }
  return std::min(at, arguments.size());
}

Request request_of(const Tool& tool, std::vector<std::string> arguments) {
  Request out{find_entry(tool, ""), {}, std::move(arguments)};
  const std::size_t at = first_word(out.arguments);
  if (at == out.arguments.size()) return out;
  if (const Tool::Entry* const named = find_entry(tool, out.arguments[at]); named != nullptr) {
    out.entry = named;
    out.arguments.erase(out.arguments.begin() + static_cast<std::ptrdiff_t>(at));
  } else if (out.entry == nullptr) {
    out.unknown = out.arguments[at];
  }
  return out;
}

Status answer(const Tool& tool, const Tool::Entry* entry, const Questions& questions, Common common) {
  common.quiet = false;
  Out out(tool.name(), std::move(common));
  if (questions.help) {
    out.raw(help_text(tool, entry));
  } else if (questions.version) {
    if (!out.common().json) out.raw(tool.name() + "\n");
    print_version(out);
  } else {
    out.raw(completion_script(tool, *questions.completion));
  }
  return out.flush();
}

std::string help_command(const Tool& tool, const Tool::Entry* entry) {
  const std::string command = entry == nullptr || entry->name.empty() ? "" : " " + entry->name;
  return fmt::format("{}{} --help", tool.name(), command);
}

Status no_command(const Tool& tool, const Request& request, Status parsed) {
  if (request.unknown) {
    std::vector<std::string> names;
    for (const Tool::Entry& entry : tool.commands()) names.push_back(entry.name);
    const std::string meant = nearest(*request.unknown, names);
    return usage_error(fmt::format("unknown command '{}'", *request.unknown),
                       meant.empty() ? "" : fmt::format("did you mean {} {}?", tool.name(), meant));
  }
  if (!parsed.ok()) return parsed;
  return usage_error("no command given");
}

void tell_versions(Out& out) {
  std::string libraries(kLinkedLibraries);
  if (libraries.ends_with('\n')) libraries.pop_back();
  std::replace(libraries.begin(), libraries.end(), '\n', ',');
  out.detail(fmt::format("version {} with {}; threads {}", version(), libraries, out.common().threads), 2);
}

/// Warns of private keys that others can use. A public key may be readable by all; one given for a private
/// key is an error when it is used.
void warn_of_open_keys(const Command& table, Out& out) {
  constexpr std::size_t kMostPem = 16384;
  for (const std::string* path : table.keys()) {
    const std::string warning = warning_of_secret(*path, "private key");
    if (warning.empty()) continue;
    const auto pem = read_file(*path, kMostPem);
    if (pem.ok() && pem->find("PRIVATE KEY-----") != std::string::npos) out.warning(warning);
  }
}

/// Prints, with -v, the time and memory that the call took. `ru_maxrss` is in KiB, getrusage(2).
void tell_cost(Out& out, std::chrono::duration<double> elapsed) {
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return;
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  out.detail(fmt::format("took {:.3f} s, {:.3f} s of processor time, at most {} MiB", elapsed.count(),
                         seconds(usage.ru_utime) + seconds(usage.ru_stime), usage.ru_maxrss / 1024));
}

void name_keys(const Tool& tool, Out& out) {
  if (!tool.read_names() || !out.common().trust) return;
  auto names = tool.read_names()(*out.common().trust, out.progress());
  if (names.ok()) out.name_keys(*std::move(names));
}

/// True if --json is among the arguments, even those of a command line that cannot be parsed.
bool asks_for_json(const std::vector<std::string>& arguments) {
  const auto end = std::find(arguments.begin(), arguments.end(), "--");
  return std::find(arguments.begin(), end, "--json") != end;
}

/// DGX_COLOR, unless --color is given.
Status color_from_environment(const Command& table, Common& common) {
  const OptionRow& row = *table.find("--color");
  const char* const color = std::getenv("DGX_COLOR");
  if (row.given || color == nullptr || *color == '\0') return {};
  if (std::find(row.choices.begin(), row.choices.end(), color) == row.choices.end())
    return usage_error(fmt::format("DGX_COLOR: '{}' is not one of {}", color, fmt::join(row.choices, ", ")));
  common.color = color;
  return {};
}

int finish(Out& out, const Error& error) {
  out.error(error);
  return exit_code(error.code);
}

int run_request(const Tool& tool, Request request) {
  Common common;
  Questions questions;
  Command table;
  Later nothing;
  const std::unique_ptr<Tool::Runner> made = request.entry == nullptr ? nullptr : request.entry->make();
  Tool::Runner& runner = made == nullptr ? nothing : *made;
  runner.declare(table);
  declare_common(table, common, questions);

  Status parsed = parse(table, questions, request.arguments);
  if (parsed.ok() && !questions.any()) parsed = color_from_environment(table, common);
  common.json = common.json || asks_for_json(request.arguments);
  Out out(tool.name(), common);
  if (parsed.ok() && questions.any()) {
    const Status answered = answer(tool, request.entry, questions, common);
    return answered.ok() ? 0 : finish(out, answered.error());
  }
  if (request.entry == nullptr) parsed = no_command(tool, request, std::move(parsed));
  if (request.entry != nullptr && request.entry->later) {
    return finish(out, usage_error(request.entry->name + " is not in this version"));
  }
  if (!parsed.ok()) {
    Error error = std::move(parsed).error();
    if (error.hint.empty()) error.hint = help_command(tool, request.entry);
    return finish(out, error);
  }

  const auto start = std::chrono::steady_clock::now();
  tell_versions(out);
  name_keys(tool, out);
  warn_of_open_keys(table, out);
  const Result<Verdict> verdict = runner.run(out);
  tell_cost(out, std::chrono::steady_clock::now() - start);
  if (!verdict.ok()) return finish(out, verdict.error());
  const Status flushed = out.flush();
  return flushed.ok() ? static_cast<int>(*verdict) : finish(out, flushed.error());
}

/// Opens /dev/null for each standard stream that is closed, in the direction that cannot be used, so that the
/// stream still fails. Otherwise the next file opened would take its number, and messages would go into that.
void fill_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0) ::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

}  // namespace

Tool::Tool(std::string name, std::string summary) : name_(std::move(name)), summary_(std::move(summary)) {}

Tool& Tool::later(std::string name, std::string summary) {
  commands_.push_back({std::move(name), std::move(summary) + " (not in this version)",
                       [] { return std::make_unique<Later>(); }, true});
  return *this;
}

int Tool::run(int argc, char** argv) const {
  fill_standard_streams();
  ignore_write_signals();
  tidy_on_signals();
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  Common common;
  common.json = asks_for_json(arguments);
  try {
    return run_request(*this, request_of(*this, arguments));
  } catch (const std::bad_alloc&) {
    Out out(name_, common);
    return finish(out, internal_error("not enough memory"));
  } catch (const std::exception& error) {
    Out out(name_, common);
    return finish(out, internal_error(error.what()));
  }
}

}  // namespace dgx::cli
