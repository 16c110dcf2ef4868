// dgx-inspect: show the content of any dgx file. dgx-inspect(1).
#include <fmt/format.h>

#include <algorithm>

#include "dgx/cli/tool.h"
#include "dgx/core/text.h"
#include "dgx/jobs/check_model.h"
#include "dgx/jobs/inspect.h"
#include "dgx/jobs/key.h"
#include "dgx/jobs/plot.h"
#include "dgx/jobs/report.h"
#include "dgx/jobs/verdict_words.h"

namespace {

using namespace dgx;

cli::Cell cell_of(const json::Output& value) {
  if (value.is_null()) return {value, "-"};
  if (const double* number = value.as_float()) return {value, decimal(*number)};
  if (const auto hex = value.hex()) return {value, *hex};
  if (const std::string* text = value.as_string()) return *text;
  if (const bool* yes = value.as_bool()) return *yes;
  if (const std::int64_t* number = value.as_int()) return *number;
  return {value, value.dump()};
}

cli::Table table_of(const jobs::Description::Field& field) {
  cli::Table table{field.columns};
  for (const json::Output& row : *field.value.as_array()) {
    std::vector<cli::Cell> cells;
    for (const std::string& column : field.columns) cells.push_back(cell_of(row.as_object()->at(column)));
    table.rows.push_back(std::move(cells));
  }
  return table;
}

cli::Cell words(const std::vector<std::string>& list) {
  json::Array values;
  for (const std::string& word : list) values.emplace_back(word);
  return {std::move(values), list.empty() ? "none" : fmt::format("{}", fmt::join(list, ", "))};
}

/// Many verdicts, counted.
class Tally {
 public:
  void add(const std::string& file, const manifest::Verdict& verdict) {
    const bool refutes = verdict.outcome == manifest::Outcome::kRefuted;
    ++(refutes ? refuted_ : accepted_);
    // An audit settles only if its signer was drawn, which the ledger knows.
    settling_ += !verdict.audits && (refutes || verdict.draw == manifest::Draw::kPolicy);
    replayed_ += verdict.replayed;
    segments_ += verdict.segments;
    work_ += verdict.work;
    if (refutes) refuting_.rows.push_back({file, verdict.proof});
  }
  void print(cli::Out& out) const {
    out.field("verdicts", accepted_ + refuted_);
    out.field("accepted", accepted_);
    out.field("refuted", refuted_);
    out.field("settling", settling_);
    out.field("replayed", replayed_);
    out.field("proof_segments", segments_);
    out.field("work", work_);
    if (!refuting_.rows.empty()) out.field("refuting", refuting_);
  }
  [[nodiscard]] cli::Verdict verdict() const {
    return refuted_ > 0 ? cli::Verdict::kRefuted : cli::Verdict::kDone;
  }

 private:
  std::int64_t accepted_ = 0;
  std::int64_t refuted_ = 0;
  std::int64_t settling_ = 0;
  std::int64_t replayed_ = 0;
  std::int64_t segments_ = 0;
  std::int64_t work_ = 0;
  cli::Table refuting_{{"file", "proof"}};
};

struct Show {
  std::vector<std::string> files;
  bool check = false;
  bool summary = false;
  std::optional<double> max_miss;

  void declare(cli::Command& command) {
    command.positional("FILE|RUN", files,
                       "bundles, runs, statements, programs, ledgers, keys: anything that dgx writes");
    command.flag("--check", check, "recompute every digest and signature");
    command.option(
        "--max-miss", "P", max_miss,
        "the files are verdicts: exit 1 if one refutes, else 3 if one would miss a cheat on 10 % of the "
        "segments with a chance above P, 0 to 1");
    command.flag("--summary", summary, "the files are verdicts: count them, and name those that refute");
    command.at_most_one({"--summary", "--max-miss"});
    command.about(
        "--check says that a file is intact, not that its claims are true: dgx-verify checks those.");
  }

  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_CHECK(jobs::check_max_miss(max_miss));
    const auto recompute = check ? jobs::Recompute::kYes : jobs::Recompute::kNo;
    cli::Verdict worst = cli::Verdict::kDone;
    std::vector<Error> errors;
    Tally tally;
    for (const std::string& file : files) {
      auto found = jobs::describe(file, recompute, out.brief_job());
      if (summary && found.ok() && !found->verdict)
        found = usage_error(file + ": is a " + found->kind + ", --summary is for verdicts");
      if (!found.ok() && files.size() == 1) return std::move(found).error();
      if (!found.ok()) {
        DGX_CHECK(out.flush());  // so that the error comes after the results before it
        out.error(found.error());
        errors.push_back(std::move(found).error());
        continue;
      }
      if (summary) {
        tally.add(file, *found->verdict);
        continue;
      }
      out.next();
      DGX_TRY(const cli::Verdict verdict, show(file, *found, out));
      if (worst != cli::Verdict::kRefuted && verdict != cli::Verdict::kDone) worst = verdict;
    }
    if (summary) tally.print(out);
    if (errors.empty()) return summary ? tally.verdict() : worst;
    DGX_CHECK(out.flush());
    return Error{errors.front().code,
                 fmt::format("{} of {} files could not be shown", errors.size(), files.size()),
                 {}};
  }

  /// Shows one file. With --max-miss it must be a verdict, which is judged.
  Result<cli::Verdict> show(const std::string& file, const jobs::Description& found, cli::Out& out) const {
    out.field("file", file);
    out.field("kind", found.kind);
    for (const auto& field : found.fields) show(field, out);
    if (check) out.field("digests_recomputed", words(found.recomputed));
    if (check && !found.absent.empty()) out.field("not_at_hand", words(found.absent));
    if (!max_miss) return found.is_usable ? cli::Verdict::kDone : cli::Verdict::kRefuted;
    if (!found.verdict) return usage_error(file + ": is a " + found.kind + ", --max-miss is for verdicts");
    return judge(*found.verdict, *max_miss, out);
  }

  /// Judges a verdict by the reader's --max-miss.
  static cli::Verdict judge(const manifest::Verdict& verdict, double max_miss, cli::Out& out) {
    if (verdict.outcome == manifest::Outcome::kRefuted) return cli::Verdict::kRefuted;
    const jobs::Sufficiency found = jobs::judge_miss(verdict, max_miss);
    out.field("enough", cli::Cell(found.enough, found.words));
    out.data("segments_needed", found.needed);
    return found.enough ? cli::Verdict::kDone : cli::Verdict::kInconclusive;
  }

  static void show(const jobs::Description::Field& field, cli::Out& out) {
    if (!field.columns.empty()) return out.field(field.name, table_of(field));
    if (field.value.as_object() != nullptr || field.value.as_array() != nullptr)
      return out.field(field.name, field.value);
    out.field(field.name, cell_of(field.value));
  }
};

struct Diff {
  std::string a;
  std::string b;

  void declare(cli::Command& command) {
    command.positional("A", a, "a task, a run, a statement, or any other dgx file");
    command.positional("B", b, "another of the same kind");
  }

  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_TRY(const jobs::Comparison found, jobs::compare(a, b, out.brief_job()));
    out.field("kind", found.kind);
    out.field("same", found.differences.empty());
    cli::Table table{{"field", "a", "b"}};
    for (const auto& difference : found.differences) {
      table.rows.push_back({difference.field, side(difference.a), side(difference.b)});
    }
    if (!table.rows.empty()) out.field("differences", table);
    return found.differences.empty() ? cli::Verdict::kAccepted : cli::Verdict::kRefuted;
  }

  static cli::Cell side(const std::optional<std::string>& text) {
    return cell_of(text ? json::Output(*text) : json::Output());
  }
};

struct Export {
  jobs::ExportOptions options;

  void declare(cli::Command& command) {
    command.positional("RUN", options.from, "a run's folder, or a state bundle");
    command.option("--step", "N", options.step, "the checkpoint at this step instead of the last");
    command.flag("--ema", options.averages, "parameters as their moving averages, of a task with --ema");
    command.output(options.output, "MODEL.safetensors|.npz|.h5", cli::Need::kRequired);
  }

  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_TRY(const jobs::ExportResult made, jobs::export_model(options, out.brief_job()));
    out.field("step", made.step);
    out.field("state", made.state);
    out.field("tensors", made.tensors);
    out.field("numbers", made.numbers);
    return cli::Verdict::kDone;
  }
};

struct CheckModel {
  jobs::CheckModelOptions options;

  void declare(cli::Command& command) {
    command.positional("MODEL", options.model, "a model as export writes it, or a state bundle");
    command.positional("PROOF.json", options.proof, "the proof whose final state it should be");
    command.flag("--ema", options.averages,
                 "the file is to have the parameters' moving averages, export --ema");
    command.about("Whether the proof is true is for dgx-verify to find out.");
  }

  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_TRY(const jobs::CheckModelResult result, jobs::check_model(options, out.brief_job()));
    const jobs::ModelComparison& found = result.found;
    const bool other_state = found.state != result.final_state;
    const bool same = found.same && !result.is_other_kind;
    out.field("same", {same, same                   ? yes()
                             : result.is_other_kind ? no_kind()
                             : other_state          ? "no, the file is from another state"
                                           : "no, its numbers are not those of the state that it names"});
    out.field("form", found.form);
    if (found.averages) out.field("weights", "ema");
    out.field("state", found.state);
    out.field("proof", result.proof);
    out.field("signer", result.signer);
    out.field("identity", result.identity);
    out.field("final", result.final_state);
    out.field("step", result.steps);
    out.field("tensors", found.tensors);
    if (!found.differences.empty()) {
      out.field("differing", found.differing);
      cli::Table table{{"tensor", "difference"}};
      for (const auto& [tensor, difference] : found.differences) table.rows.push_back({tensor, difference});
      out.field("differences", table);
    }
    return same ? cli::Verdict::kAccepted : cli::Verdict::kRefuted;
  }

  [[nodiscard]] const char* yes() const {
    return options.averages ? "yes, these are the averages that the proof commits to"
                            : "yes, this is the model that the proof commits to";
  }
  [[nodiscard]] const char* no_kind() const {
    return options.averages ? "no, the file does not say that it has averages"
                            : "no, the file has averages of the parameters";
  }
};

struct Plot {
  std::string folder;
  std::optional<int> columns;
  std::optional<std::string> output;

  void declare(cli::Command& command) {
    command.positional("RUN", folder, "a run's folder, finished or not");
    command.option("--columns", "N", columns, "width of the plot; unless given, that of the terminal");
    command.option("--output,-o", "PLOT.svg", output, "write an SVG instead of text; - is standard output");
    command.writes({"--output"});
    command.not_with({"--columns"}, {"--output"});
  }

  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_TRY(Output file, out.claim(output.value_or("-")));
    const cli::Out::Screen screen = cli::Out::screen();
    const jobs::PlotForm text = screen.unicode ? jobs::PlotForm::kBraille : jobs::PlotForm::kAscii;
    const int least = jobs::kLeastPlotColumns;
    const jobs::PlotOptions options{
        folder, output ? jobs::PlotForm::kSvg : text,
        columns.value_or(std::clamp(screen.columns, least, jobs::kMostPlotColumns))};
    DGX_TRY(const std::string picture, jobs::plot(options));
    DGX_CHECK(out.output(file, picture));
    return cli::Verdict::kDone;
  }
};

struct Report {
  jobs::ReportOptions options;
  std::string output = "-";

  void declare(cli::Command& command) {
    command.positional("FILE|RUN|LEDGER", options.files,
                       "a ledger, signed statements, transcripts, runs, the step program");
    command.option("--task", "ID", options.task,
                   "the task, of several in a ledger: its id, eight digits of it or more, or TASK.json");
    command.output(output, "REPORT.html|.txt", cli::Need::kOptional, "the page, or the same as text");
    command.about("Signatures are checked, disputes replayed; all else is told as its signer says it.");
  }

  Result<cli::Verdict> run(cli::Out& out) const {
    const bool is_page = output.ends_with(".html");
    if (!is_page && output != "-" && !output.ends_with(".txt"))
      return usage_error(output + ": a report is a .html or a .txt file");
    DGX_TRY(Output file, out.claim(output));
    DGX_TRY(const jobs::Story story, jobs::report(options, out.brief_job()));
    const std::string text = is_page ? jobs::print_page(story) : jobs::print_text(story);
    DGX_CHECK(out.output(file, text));
    if (output == "-") return cli::Verdict::kDone;
    out.field("title", story.title);
    out.field("disputes", story.disputes.size());
    out.field("bytes", text.size());
    return cli::Verdict::kDone;
  }
};

}  // namespace

int main(int argc, char** argv) {
  cli::Tool tool(
      "dgx-inspect",
      "say what is in any dgx file, compare two, export or check a model, plot a run, report on a task");
  tool.names(jobs::names_of_trust);
  tool.add<Show>("", "show files; with --check, recompute their digests");
  tool.add<Diff>("diff", "compare two tasks, runs or statements field by field");
  tool.add<Export>("export", "write a run's model as safetensors, npz or plain HDF5");
  tool.add<CheckModel>("check-model", "compare a received model with a proof's final state");
  tool.add<Plot>("plot", "draw a run's loss and validation, as text or as SVG");
  tool.add<Report>("report", "tell a task's life on one page: work, checks, disputes, money");
  return tool.run(argc, argv);
}
