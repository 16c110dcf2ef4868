// dgx-bisect: from "these two differ" to one scalar operation. dgx-bisect(1).
#include "dgx/cli/tool.h"
#include "dgx/jobs/bisect.h"

namespace {

using namespace dgx;

struct Trace {
  jobs::TraceOptions options;

  void declare(cli::Command& command) {
    command.positional("TASK.json", options.task, "the signed task; its step program lies beside it");
    command.required("--from", "START.h5|RUN", options.from,
                     "where the segment starts: a run, a state bundle, or a sample that has the segment");
    command.required("--segment", "N", options.segment, "the segment to recompute");
    command.option("--step", "S", options.step, "digest every value of this step, too");
    command.option("--value", "V", options.value, "keep the numbers of this value of that step");
    command.required("--data", "DATA.h5", options.data, "the task's dataset");
    command.output(options.output, "TRACE.h5", cli::Need::kRequired);
    command.option("--program", "FILE", options.program, "the step program, if it is not beside the task");
    command.isa(options.isa);
    command.about("From a run made with --drill, the trace defends the run's fault as a cheat would.");
  }

  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_TRY(const jobs::TraceResult result, jobs::trace(options, out.brief_job()));
    out.field("segment", result.segment);
    out.field("first_step", result.first_step);
    out.field("steps", result.steps);
    out.field("start", result.start);
    out.field("end", result.end);
    if (result.step) {
      out.field("step", *result.step);
      out.field("values", result.values);
    }
    if (result.value) {
      out.field("value", *result.value);
      out.field("value_digest", *result.value_digest);
    }
    if (result.drill) {
      out.field("drill", *result.drill);
      out.warning("the run was made with a drill: this trace defends its fault");
    }
    return cli::Verdict::kDone;
  }
};

struct Diff {
  jobs::DiffOptions options;

  void declare(cli::Command& command) {
    command.positional("TASK.json", options.task, "the signed task; its step program lies beside it");
    command.positional("OURS", options.ours, "a run's folder or a trace");
    command.positional("THEIRS", options.theirs, "the other side's");
    command.required("--data", "DATA.h5", options.data, "the task's dataset");
    command.option("--from", "START.h5|RUN", options.from,
                   "where the traces' segment starts, so that a replay can tell who is right");
    command.option("--program", "FILE", options.program, "the step program, if it is not beside the task");
    command.isa(options.isa);
  }

  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_TRY(const jobs::DiffResult result, jobs::diff(options, out.brief_job()));
    out.field("same", !result.segment.has_value());
    out.field("compared_segments", result.compared);
    if (!result.segment) return cli::Verdict::kAccepted;
    out.field("segment", *result.segment);
    if (result.step) out.field("step", *result.step);
    if (result.value) out.field("value", value_json(*result.value));
    if (result.element) out.field("element", *result.element);
    if (result.scalar) out.field("scalar", scalar_json(*result.scalar));
    out.field("confirmed", confirmed_text(result));
    if (!result.ended.empty()) out.field("ended", result.ended);
    return cli::Verdict::kRefuted;
  }

  static std::optional<std::string> confirmed_text(const jobs::DiffResult& result) {
    if (!result.confirmed) return std::nullopt;
    return std::string(jobs::name_of(*result.confirmed));
  }

  static json::Object value_json(const jobs::DivergentValue& value) {
    return {{"number", value.number}, {"kind", value.kind}, {"from", value.from}};
  }

  static json::Object scalar_json(const jobs::DivergentScalar& scalar) {
    json::Array operands;
    for (const auto& operand : scalar.operands) operands.emplace_back(json::Object{{"bits", operand.bits}, {"from", operand.from}});
    json::Object out{{"operation", scalar.operation},
                     {"operands", operands},
                     {"ours", scalar.ours},
                     {"result", scalar.result},
                     {"theirs", scalar.theirs}};
    if (scalar.index) {
      out.emplace("index", *scalar.index);
      out.emplace("place", scalar.place);
    }
    return out;
  }
};

}  // namespace

int main(int argc, char** argv) {
  cli::Tool tool("dgx-bisect", "find the segment, step, value, element and scalar operation at which two parties part");
  tool.later("open", "challenge a signed statement");
  tool.later("move", "make the next signed move of a dispute");
  tool.later("show", "say where a dispute stands");
  tool.add<Trace>("trace", "recompute a segment and write the digests of its states and values");
  tool.add<Diff>("diff", "lead two runs or traces to where they part, and say which side a replay confirms");
  return tool.run(argc, argv);
}
