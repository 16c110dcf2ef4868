#include "parse.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "dgx/cli/threads.h"
#include "dgx/core/files.h"
#include "dgx/core/text.h"

namespace dgx::cli {
namespace {

using Form = OptionRow::Form;

/// A row and its CLI11 option.
struct Bound {
  OptionRow* row;
  CLI::Option* option;
};

/// Declares the rows to CLI11, which only splits the command line: required options, the meaning of values
/// and every message are decided here.
std::vector<Bound> bind(CLI::App& app, Command& command) {
  std::vector<Bound> out;
  for (OptionRow& row : command.rows()) {
    const std::string name = row.positional() ? fmt::format("positional{}", out.size())
                                              : fmt::format("{}", fmt::join(row.names, ","));
    CLI::Option* const option = row.form == Form::kFlag ? app.add_flag(name) : app.add_option(name);
    if (row.form == Form::kFlag) {
      if (row.value_name.empty()) option->disable_flag_override();
    } else {
      option->expected(1, row.form == Form::kList || row.form == Form::kRest ? 1 << 20 : 1);
    }
    // Otherwise a positional takes only its minimum.
    option->allow_extra_args(row.form == Form::kList || row.form == Form::kRest);
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    out.push_back({&row, option});
  }
  return out;
}

/// A hint at the option that was probably meant, or "".
std::string suggestion(const Command& command, std::string_view given) {
  std::vector<std::string> names;
  for (const OptionRow& row : command.rows()) names.insert(names.end(), row.names.begin(), row.names.end());
  const std::string meant = nearest(given, names);
  return meant.empty() ? "" : fmt::format("did you mean {}?", meant);
}

Error unexpected(const Command& command, const std::vector<std::string>& extras) {
  for (const std::string& extra : extras) {
    if (extra.size() < 2 || extra[0] != '-') continue;
    const std::string name = extra.substr(0, extra.find('='));
    return usage_error(fmt::format("unknown option '{}'", name), suggestion(command, name));
  }
  return usage_error(fmt::format("unexpected argument '{}'", extras.front()));
}

Status store(const Command& command, OptionRow& row, const std::vector<std::string>& values) {
  if (row.form == Form::kValue && values.size() > 1) return usage_error(row.title() + " is given twice");
  for (const std::string& value : values) {
    // CLI11 takes whatever follows an option that needs a value, even another option.
    if (!row.positional() && value.size() > 1 && value[0] == '-' && command.find(value) != nullptr) {
      return usage_error(row.title() + " needs a value");
    }
    if (!row.choices.empty() &&
        std::find(row.choices.begin(), row.choices.end(), value) == row.choices.end()) {
      const std::string meant = nearest(value, row.choices);
      return usage_error(
          fmt::format("{}: '{}' is not one of {}", row.title(), value, fmt::join(row.choices, ", ")),
          meant.empty() ? "" : fmt::format("did you mean {}?", meant));
    }
  }
  Status stored = row.store(values);
  if (!stored.ok()) return within(row.title(), std::move(stored).error());
  return {};
}

/// Those of the options for which `holds`.
template <class Holds>
std::vector<std::string> those_of(const Command& command, const std::vector<std::string>& names,
                                  const Holds& holds) {
  std::vector<std::string> out;
  std::copy_if(names.begin(), names.end(), std::back_inserter(out), [&](const std::string& name) {
    const OptionRow* const row = command.find(name);
    return row != nullptr && holds(*row);
  });
  return out;
}

/// Those of the options that were given.
std::vector<std::string> given_of(const Command& command, const std::vector<std::string>& names) {
  return those_of(command, names, [](const OptionRow& row) { return row.given; });
}

/// Refuses options that would have no effect.
Status check_rules(const Command& command) {
  for (const Command::Rule& rule : command.rules()) {
    const auto options = given_of(command, rule.options);
    const auto modes = those_of(command, rule.modes, [&](const OptionRow& row) {
      return row.given || (rule.wanted && row.by_environment);
    });
    if (options.empty() || modes.empty() != rule.wanted) continue;
    if (!rule.wanted)
      return usage_error(fmt::format("{} has no effect with {}", options.front(), modes.front()),
                         "leave out " + options.front());
    return usage_error(
        fmt::format("{} has no effect without {}", options.front(), fmt::join(rule.modes, " or ")));
  }
  return {};
}

/// True if the value of an option names this file: "FILE", or "NAME=FILE".
bool names_file(const std::string& value, const std::string& path) {
  const std::size_t equals = value.find('=');
  return is_same_file(path, value) ||
         (equals != std::string::npos && is_same_file(path, value.substr(equals + 1)));
}

/// Refuses an output that is an input, too: with --force it would be destroyed. Files that the environment
/// names are inputs like others.
Status check_outputs(const Command& command) {
  for (const OptionRow& output : command.rows()) {
    for (const OptionRow& input : command.rows()) {
      if (!output.writes || input.writes || !input.takes_file()) continue;
      for (const std::string& path : output.values) {
        for (const std::string& read : input.values) {
          if (names_file(read, path))
            return usage_error(
                fmt::format("{} {} is {}, which the command reads", output.names.back(), path, input.title()),
                "name another file");
        }
      }
    }
  }
  return {};
}

/// Stores the environment's values of options that are not given. A condition is asked first: a variable
/// stands for an option only where that is required.
Status take_environment(Command& command) {
  for (OptionRow& row : command.rows()) {
    const char* const value = row.given || row.variable.empty() ? nullptr : std::getenv(row.variable.c_str());
    if (value == nullptr || *value == '\0' || (row.required_when && !row.required_when())) continue;
    Status stored = row.store({value});
    if (!stored.ok()) return within(row.variable, std::move(stored).error());
    row.by_environment = true;
    row.values = {value};
  }
  return {};
}

Status check_needed(const Command& command) {
  for (const OptionRow& row : command.rows()) {
    const bool required = row.need == Need::kRequired || (row.required_when && row.required_when());
    if (required && !row.given && !row.by_environment) return usage_error(row.title() + " is required");
  }
  for (const Command::Group& group : command.groups()) {
    const auto given = given_of(command, group.names);
    if (given.size() > 1)
      return usage_error(fmt::format("{} and {} cannot be used together", given[0], given[1]));
    const bool required = group.need == Need::kRequired || (group.required_when && group.required_when());
    if (given.empty() && required) {
      return usage_error(fmt::format("one of {} is required", fmt::join(group.names, ", ")));
    }
  }
  return {};
}

/// CLI11's own complaints: in practice an option at the end of the line without its value, or `--flag=value`.
Error translated(const CLI::ParseError& error) {
  const std::string text = error.what();
  std::string name = text.substr(0, text.find_first_of(": "));
  if (!name.starts_with('-')) name.insert(0, "--");
  if (text.find("flag override") != std::string::npos) return usage_error(name + " takes no value");
  if (text.find("required") != std::string::npos) return usage_error(name + " needs a value");
  return usage_error(text);
}

}  // namespace

void declare_common(Command& command, Common& common, Questions& questions) {
  const std::size_t own = command.rows().size();
  common.threads = default_threads();
  command.flag("--json", common.json, "print results as JSON, one object per line");
  command.flag("--quiet,-q", common.quiet, "print nothing but errors, and with --json results");
  bool counted = false;
  command.flag("--verbose,-v", counted, "print more on standard error; -vv prints even more");
  command.rows().back().store = [&common](const std::vector<std::string>& times) -> Status {
    common.verbosity = static_cast<int>(times.size());
    return {};
  };
  command.option("--threads", "N", common.threads, "number of threads to use");
  command.rows().back().default_text = "the CPUs available to this process";
  command.rows().back().store = [&common](const std::vector<std::string>& texts) -> Status {
    DGX_CHECK(parse_value(texts.front(), common.threads));
    if (common.threads < 1) return usage_error(fmt::format("'{}' is less than 1", texts.front()));
    return {};
  };
  command.flag("--force", common.force, "replace existing output files");
  command.choice("--color", {"auto", "always", "never"}, common.color,
                 "colour messages; DGX_COLOR sets the default, NO_COLOR is honoured");
  command.option("--trust", "FILE|DIR", common.trust,
                 "accept only these signers: a public key, or a folder of public keys; else DGX_TRUST");
  command.rows().back().variable = "DGX_TRUST";
  command.flag("--help,-h", questions.help, "print this help");
  command.flag("--version", questions.version,
               "print the versions of the program, its formats and libraries");
  command.choice("--completion", {"bash", "zsh", "fish"}, questions.completion, "print a completion script");
  for (std::size_t i = own; i < command.rows().size(); ++i) command.rows()[i].common = true;
}

Status parse(Command& command, const Questions& questions, std::vector<std::string> arguments) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  const std::vector<Bound> bound = bind(app, command);
  try {
    std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them in reverse
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    return translated(error);
  }
  std::optional<Error> first;
  for (const auto& [row, option] : bound) {
    row->given = option->count() > 0;
    if (!row->given) continue;
    row->values = option->results();
    Status stored = store(command, *row, row->values);
    if (!stored.ok() && !first) first = std::move(stored).error();
  }
  if (questions.any()) return {};
  std::vector<std::string> extras = app.remaining();
  std::erase(extras, "--");  // CLI11 keeps the mark that ends the options
  if (!extras.empty()) return unexpected(command, extras);
  if (first) return *first;
  DGX_CHECK(take_environment(command));
  DGX_CHECK(check_needed(command));
  DGX_CHECK(check_rules(command));
  return check_outputs(command);
}

}  // namespace dgx::cli
