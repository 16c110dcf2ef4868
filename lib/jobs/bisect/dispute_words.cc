#include <fmt/format.h>

#include "dgx/jobs/dispute.h"

namespace dgx::jobs {

using namespace protocol;

namespace {

std::string counted(std::size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

struct Words {
  std::string operator()(const RowPost& said) const {
    return fmt::format("row of segment {}: {}", said.opened.row.index,
                       manifest::name_of(said.opened.row.reason));
  }
  std::string operator()(const InteriorPost& said) const {
    return fmt::format("interior state {}", said.digest.brief());
  }
  std::string operator()(const StatesPost& said) const { return counted(said.digests.size(), "state"); }
  std::string operator()(const ValuesPost& said) const {
    return fmt::format("value table {}, {}", said.root.brief(), counted(said.nodes.size(), "node"));
  }
  std::string operator()(const NodesPost& said) const { return counted(said.nodes.size(), "node"); }
  std::string operator()(const TensorPost& said) const {
    if (!said.root) return fmt::format("tensor of {}", counted(said.bytes.size(), "byte"));
    return fmt::format("tensor {}, {}", said.root->brief(), counted(said.nodes.size(), "node"));
  }
  std::string operator()(const LeafPost& said) const {
    return fmt::format("leaf of {}", counted(said.bytes.size(), "byte"));
  }
  std::string operator()(const NumbersPost& said) const {
    return fmt::format("running results, {}", counted(said.numbers.size(), "byte"));
  }
  std::string operator()(const EntriesPost& said) const {
    return fmt::format("{} of the state after", counted(static_cast<std::size_t>(said.count), "entry node"));
  }
  std::string operator()(const EntryPost& said) const {
    return fmt::format("entry {}, {}", said.name, said.digest.brief());
  }
  std::string operator()(const FaultPost& said) const {
    if (said.step)
      return fmt::format("fault: entry {} is not finite after step {}", said.entry ? said.entry->name : "?",
                         *said.step - 1);
    if (said.entry) return fmt::format("fault: entry {} of the start state", said.entry->name);
    return said.line ? fmt::format("fault: the entry of line {} is missing", said.line->index)
                     : "fault: the order of entries";
  }
  std::string operator()(const ChunkPost& said) const {
    return fmt::format("chunk of {} at {}", said.entry.name, said.location);
  }
  std::string operator()(const Name& said) const {
    return said.line ? fmt::format("names {}: line {}", said.index, said.line->index)
                     : fmt::format("names {}", said.index);
  }
  std::string operator()(const Accept&) const { return "accepts all values"; }
  std::string operator()(const StateInputClaim& said) const {
    return fmt::format("claim a: value {} is not entry {}", said.line.index, said.entry.name);
  }
  std::string operator()(const EntryClaim& said) const {
    if (said.line && !said.digest)
      return fmt::format("claim b: the entry of line {} is missing", said.line->index);
    return said.before ? "claim b: the order of entries" : "claim b: the entry's digest";
  }
  std::string operator()(const InputClaim& said) const {
    return fmt::format("claim c: index {}", said.index);
  }
  std::string operator()(const OperationClaim& said) const {
    return fmt::format("claim d: index {}, {}", said.index, counted(said.operands.size(), "operand"));
  }
  std::string operator()(const NonFiniteClaim& said) const {
    return fmt::format("claim f: entry {}", said.entry.name);
  }
};

}  // namespace

std::string in_words(const Message& say) { return std::visit(Words{}, say); }

}  // namespace dgx::jobs
