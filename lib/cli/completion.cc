#include "completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "help.h"

namespace dgx::cli {
namespace {

using Form = OptionRow::Form;

/// A command as the completion scripts need it.
struct View {
  std::string name;
  std::string summary;
  Command table;
};

std::vector<View> views_of(const Tool& tool) {
  std::vector<View> out;
  for (const Tool::Entry& entry : tool.commands()) {
    const auto runner = entry.make();
    out.push_back({entry.name, entry.summary, table_of(*runner)});
  }
  return out;
}

/// All commands, and for a program whose first argument must be a command, a nameless one with the common
/// options only.
std::vector<View> with_main(const Tool& tool) {
  std::vector<View> views = views_of(tool);
  const bool has_main =
      std::any_of(views.begin(), views.end(), [](const View& view) { return view.name.empty(); });
  if (!has_main) views.push_back({"", tool.summary(), common_table()});
  return views;
}

std::string joined_names(const Command& table) {
  std::vector<std::string> names;
  for (const OptionRow& row : table.rows()) names.insert(names.end(), row.names.begin(), row.names.end());
  return fmt::format("{}", fmt::join(names, " "));
}

std::string joined_commands(const std::vector<View>& views) {
  std::vector<std::string> names;
  for (const View& view : views) {
    if (!view.name.empty()) names.push_back(view.name);
  }
  return fmt::format("{}", fmt::join(names, " "));
}

bool positional_files(const Command& table) {
  return std::any_of(table.rows().begin(), table.rows().end(),
                     [](const OptionRow& row) { return row.positional() && row.takes_file(); });
}

/// A word in single quotes, for a shell.
std::string shell_word(std::string_view text) {
  std::string out = "'";
  for (const char c : text) c == '\'' ? out += "'\\''" : out += c;
  return out + "'";
}

std::string function_name(const Tool& tool) {
  std::string out = "_" + tool.name();
  std::replace(out.begin(), out.end(), '-', '_');
  return out;
}

/// The words that a shell offers as an option's value.
const std::vector<std::string>& words_for(const OptionRow& row) {
  return row.choices.empty() ? row.suggestions : row.choices;
}

std::string bash_values(const OptionRow& row) {
  std::vector<std::string> ways;
  if (row.takes_file()) ways.emplace_back("compgen -f -- \"$word\"");
  if (!words_for(row).empty())
    ways.push_back(fmt::format("compgen -W '{}' -- \"$word\"", fmt::join(words_for(row), " ")));
  return ways.empty() ? ":" : fmt::format("{}", fmt::join(ways, "; "));
}

std::string bash_value_cases(const std::vector<View>& views) {
  std::string out;
  for (const View& view : views) {
    for (const OptionRow& row : view.table.rows()) {
      if (row.positional() || row.form == Form::kFlag) continue;
      for (const std::string& name : row.names) {
        out += fmt::format("    '{}:{}') mapfile -t COMPREPLY < <({}); return;;\n", view.name, name,
                           bash_values(row));
      }
    }
  }
  return out;
}

std::string bash_script(const Tool& tool, const std::vector<View>& views) {
  const std::string function = function_name(tool);
  const std::string commands = joined_commands(views);
  std::string out = fmt::format(
      "# bash completion for {0}, written by {0} --completion bash\n"
      "{1}() {{\n"
      "  local word=\"${{COMP_WORDS[COMP_CWORD]}}\" before=\"${{COMP_WORDS[COMP_CWORD-1]}}\" command='' i\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    case \" {2} \" in *\" ${{COMP_WORDS[i]}} \"*) command=\"${{COMP_WORDS[i]}}\"; break;; esac\n"
      "  done\n"
      "  case \"$command:$before\" in\n"
      "{3}  esac\n"
      "  case \"$command\" in\n",
      tool.name(), function, commands, bash_value_cases(views));
  for (const View& view : views) {
    const std::string words = view.name.empty() && !commands.empty() ? commands + " " : "";
    const std::string files = positional_files(view.table) ? "; compgen -f -- \"$word\"" : "";
    out += fmt::format(
        "    '{0}')\n"
        "      if [[ $word == -* ]]; then mapfile -t COMPREPLY < <(compgen -W '{1}' -- \"$word\")\n"
        "      else mapfile -t COMPREPLY < <(compgen -W '{2}' -- \"$word\"{3}); fi;;\n",
        view.name, joined_names(view.table), words, files);
  }
  return out + fmt::format("  esac\n}}\ncomplete -o filenames -F {} {}\n", function, tool.name());
}

/// The value part of a zsh _arguments specification.
std::string zsh_action(const OptionRow& row) {
  if (row.form == Form::kFlag) return "";
  std::string title = row.value_name;
  std::replace(title.begin(), title.end(), ':', ' ');
  std::string words = fmt::format("{}", fmt::join(words_for(row), " "));
  for (std::size_t at = words.find(':'); at != std::string::npos; at = words.find(':', at + 2))
    words.insert(at, "\\");
  const std::string action = row.takes_file() && !words.empty()
                                 ? fmt::format("{{compadd -- {}; _files}}", words)
                             : row.takes_file() ? "_files"
                             : words.empty()    ? " "
                                                : fmt::format("({})", words);
  return fmt::format(":{}:{}", title, action);
}

std::string zsh_specification(const OptionRow& row) {
  std::string help;
  for (const char c : row.help) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') help += '\\';
    help += c;
  }
  if (row.positional()) {
    const char* const prefix = row.form == Form::kRest ? "*" : row.need == Need::kOptional ? ":" : "";
    return shell_word(prefix + zsh_action(row));
  }
  if (row.names.size() == 1) return shell_word(fmt::format("{}[{}]{}", row.names[0], help, zsh_action(row)));
  return fmt::format("{{{}}}{}", fmt::join(row.names, ","),
                     shell_word(fmt::format("[{}]{}", help, zsh_action(row))));
}

std::string zsh_script(const Tool& tool, const std::vector<View>& views) {
  const std::string commands = joined_commands(views);
  std::string out = fmt::format(
      "#compdef {0}\n# zsh completion for {0}, written by {0} --completion zsh\n{1}() {{\n"
      "  local command='' word\n"
      "  for word in \"${{(@)words[2,CURRENT-1]}}\"; do\n"
      "    case \" {2} \" in *\" $word \"*) command=$word; break;; esac\n  done\n",
      tool.name(), function_name(tool), commands);
  if (!commands.empty()) {
    out +=
        "  if [[ -n $command ]]; then words=(\"$words[1]\" \"${(@)words[2,-1]:#$command}\"); ((CURRENT--)); "
        "fi\n";
  }
  out += "  case $command in\n";
  for (const View& view : views) {
    out += fmt::format("    {})\n", shell_word(view.name));
    if (view.name.empty() && !commands.empty()) out += fmt::format("      compadd -- {}\n", commands);
    out += "      _arguments -s";
    for (const OptionRow& row : view.table.rows()) out += " \\\n        " + zsh_specification(row);
    out += ";;\n";
  }
  return out + fmt::format("  esac\n}}\ncompdef {} {}\n", function_name(tool), tool.name());
}

std::string fish_option(const Tool& tool, const OptionRow& row, const std::string& condition) {
  std::string out = fmt::format("complete -c {}{}", tool.name(), condition);
  for (const std::string& name : row.names) {
    out += name.starts_with("--") ? fmt::format(" -l {}", name.substr(2))
                                  : fmt::format(" -s {}", name.substr(1));
  }
  if (row.form != Form::kFlag) out += row.takes_file() ? " -r -F" : " -x";
  if (!words_for(row).empty()) out += fmt::format(" -a '{}'", fmt::join(words_for(row), " "));
  return out + fmt::format(" -d {}\n", shell_word(row.help));
}

std::string fish_script(const Tool& tool, const std::vector<View>& views) {
  const std::string commands = joined_commands(views);
  std::string out = fmt::format("# fish completion for {0}, written by {0} --completion fish\n", tool.name());
  const Command common = common_table();
  for (const OptionRow& row : common.rows()) out += fish_option(tool, row, "");
  for (const View& view : views) {
    if (!view.name.empty()) {
      out += fmt::format("complete -c {} -n 'not __fish_seen_subcommand_from {}' -a {} -d {}\n", tool.name(),
                         commands, view.name, shell_word(view.summary));
    }
    const std::string condition = commands.empty() ? ""
                                  : view.name.empty()
                                      ? fmt::format(" -n 'not __fish_seen_subcommand_from {}'", commands)
                                      : fmt::format(" -n '__fish_seen_subcommand_from {}'", view.name);
    for (const OptionRow& row : view.table.rows()) {
      if (!row.common && !row.positional()) out += fish_option(tool, row, condition);
    }
    if (!positional_files(view.table)) out += fmt::format("complete -c {}{} -f\n", tool.name(), condition);
  }
  return out;
}

}  // namespace

std::string completion_script(const Tool& tool, std::string_view shell) {
  const std::vector<View> views = with_main(tool);
  if (shell == "bash") return bash_script(tool, views);
  if (shell == "zsh") return zsh_script(tool, views);
  return fish_script(tool, views);
}

}  // namespace dgx::cli
