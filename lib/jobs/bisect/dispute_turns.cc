#include "bisect/dispute_turns.h"

#include <fmt/format.h>

#include "dgx/core/text.h"

namespace dgx::jobs {

using namespace protocol;

namespace {

std::string counted(std::int64_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", grouped(count), count == 1 ? one : many);
}

/// The name of a tree's leaves, for one and for several.
struct LeafName {
  std::string_view one, many;
};
constexpr LeafName kValues{"value", "values"}, kParts{"part", "parts"}, kEntries{"entry", "entries"};

/// The leaves of a tree that a node covers: "values 0 to 255".
std::string words_of_node(const Node& node, const LeafName& name) {
  const auto first = static_cast<std::int64_t>(node.first);
  const auto last = first + static_cast<std::int64_t>(node.count) - 1;
  if (first == last) return fmt::format("{} {}", name.one, grouped(first));
  return fmt::format("{} {} to {}", name.many, grouped(first), grouped(last));
}

std::int64_t numbers_in(const NamedValue& value, std::size_t bytes) {
  return static_cast<std::int64_t>(bytes / size_of(value.line.dtype));
}

/// Says in words what a side says in a stage. Every pair of message and stage that the rules do not allow
/// gives the words of the message alone.
struct Teller {
  const GameState& before;
  const GameState& after;
  StepLines lines;

  [[nodiscard]] std::string step() const { return "step " + grouped(before.first_step); }
  [[nodiscard]] std::string role(std::int64_t value) const {
    const std::string role = role_of_value(lines, value);
    const std::string number = "value " + grouped(value);
    return role == number ? number : fmt::format("{} ({})", number, role);
  }

  // The defender shows.

  std::string operator()(const RowPost& said) const {
    return fmt::format("shows the verdict's row of segment {}: it {} ({})", grouped(said.opened.row.index),
                       said.opened.row.agrees ? "agrees" : "disagrees",
                       manifest::name_of(said.opened.row.reason));
  }
  std::string operator()(const InteriorPost&) const {
    return fmt::format("shows the state after {}, to which the witness commits",
                       words_of_steps(before.end_step - 1, before.end_step));
  }
  std::string operator()(const StatesPost& said) const {
    const std::int64_t stride = stride_of_states(before.steps());
    return fmt::format("shows {} inside {}{}", counted(std::ssize(said.digests), "state", "states"),
                       words_of_steps(before.first_step, before.end_step),
                       stride == 1 ? "" : fmt::format(", every {} steps", grouped(stride)));
  }
  std::string operator()(const ValuesPost& said) const {
    return fmt::format("shows the table of all values of {}: {}", step(),
                       counted(std::ssize(said.nodes), "digest", "digests"));
  }
  std::string operator()(const NodesPost& said) const {
    return fmt::format("shows the {} below it", counted(std::ssize(said.nodes), "digest", "digests"));
  }
  std::string operator()(const TensorPost& said) const {
    const NamedValue* value = before.value();
    if (value == nullptr) return "shows a value";
    const std::string name = role(to_number(value->index));
    if (said.root) return fmt::format("shows {} by its parts", name);
    return fmt::format("shows {}: {}", name,
                       counted(numbers_in(*value, said.bytes.size()), "number", "numbers"));
  }
  std::string operator()(const LeafPost& said) const {
    const auto* stage = std::get_if<ChooseElement>(&after.stage);
    if (stage == nullptr) return "shows the numbers there";
    const std::int64_t first = stage->element_at(0);
    const std::int64_t last = first + numbers_in(stage->value, said.bytes.size()) - 1;
    return fmt::format("shows the numbers {} to {}", grouped(first), grouped(last));
  }
  std::string operator()(const NumbersPost&) const {
    const auto* stage = std::get_if<ShowNumbers>(&before.stage);
    if (stage == nullptr) return "shows running results";
    return fmt::format("shows running results of number {}", grouped(stage->element));
  }
  std::string operator()(const EntriesPost& said) const {
    return fmt::format("shows the {} of the state after {}", counted(said.count, "entry", "entries"), step());
  }
  std::string operator()(const EntryPost& said) const {
    return fmt::format("shows {}", words_of_entry(said.name));
  }
  std::string operator()(const FaultPost& said) const {
    if (said.step)
      return fmt::format("shows that the state after step {} has a number that is not finite",
                         grouped(*said.step - 1));
    return "shows why nothing can be computed from the state at the start";
  }
  std::string operator()(const ChunkPost& said) const {
    return fmt::format("says where the bytes of {} can be had: {}", words_of_entry(said.entry.name),
                       said.location);
  }

  // The challenger chooses.

  std::string operator()(const Name& said) const {
    return std::visit([&](const auto& stage) { return name_in(stage, said); }, before.stage);
  }
  std::string operator()(const Accept&) const {
    return fmt::format("accepts all values of {}, and says that the state after it is not made of them",
                       step());
  }

  std::string name_in(const ChooseRow&, const Name& said) const {
    return said.index == 0 ? "rejects what the row says of the segment's end" : "rejects the row's witness";
  }
  std::string name_in(const ChooseState& stage, const Name& said) const {
    if (said.index > std::ssize(stage.states)) return rejects(said);
    return fmt::format("accepts the state before step {}, and rejects the one after {}",
                       grouped(after.first_step),
                       after.steps() == 1 ? "it" : "step " + grouped(after.end_step - 1));
  }
  std::string name_in(const ChooseValueNode& stage, const Name& said) const {
    return fmt::format("rejects {} first", words_in(stage.table, said.index, kValues));
  }
  std::string name_in(const ChooseValue& stage, const Name& said) const {
    if (said.index >= std::ssize(stage.table.last().children)) return rejects(said);
    const auto value = static_cast<std::int64_t>(stage.table.child(said.index).node.first);
    return fmt::format("rejects {} first, and so accepts every value before it", role(value));
  }
  std::string name_in(const ChooseTensorNode& stage, const Name& said) const {
    return fmt::format("rejects {} of it first", words_in(stage.tensor, said.index, kParts));
  }
  std::string name_in(const ChooseElement& stage, const Name& said) const {
    return fmt::format("rejects number {} first", grouped(stage.element_at(said.index)));
  }
  std::string name_in(const ChooseNumber&, const Name& said) const {
    return fmt::format("rejects running result {} first", grouped(said.index));
  }
  std::string name_in(const ChooseEntryNode& stage, const Name& said) const {
    return fmt::format("rejects {} first", words_in(stage.entries, said.index, kEntries));
  }
  std::string name_in(const ChooseEntry& stage, const Name& said) const {
    return fmt::format("rejects {} first", words_in(stage.entries, said.index, kEntries));
  }
  template <class Other>
  std::string name_in(const Other&, const Name& said) const {
    return rejects(said);
  }

  static std::string rejects(const Name& said) {
    return fmt::format("rejects number {} of what was shown", grouped(said.index));
  }
  static std::string words_in(const OpenedTree& tree, std::int64_t index, const LeafName& name) {
    if (index >= std::ssize(tree.last().children)) return fmt::format("node {}", grouped(index));
    return words_of_node(tree.child(index).node, name);
  }

  // The challenger claims.

  std::string operator()(const StateInputClaim& said) const {
    return fmt::format("claims that value {} is not {} of the state before the step",
                       grouped(said.line.index), words_of_entry(said.entry.name));
  }
  std::string operator()(const EntryClaim& said) const {
    if (said.digest) return "claims that the entry shown is not the value that it is made of";
    if (said.line) return fmt::format("claims that the entry of line {} is missing", said.line->index);
    return "claims that the entries are out of order";
  }
  std::string operator()(const InputClaim& said) const {
    return fmt::format("claims that number {} is not what task, data and step give", element(said.index));
  }
  std::string operator()(const OperationClaim& said) const {
    const std::string evidence = counted(std::ssize(said.operands), "piece", "pieces");
    if (!std::holds_alternative<ChooseElement>(before.stage))
      return fmt::format("claims that running result {} is wrong, and opens {} of what it is made of",
                         grouped(said.index), evidence);
    return fmt::format("claims that number {} is wrong, and opens {} of what it is computed from",
                       element(said.index), evidence);
  }
  std::string operator()(const NonFiniteClaim& said) const {
    return fmt::format("claims that {} after the step has a number that is not finite",
                       words_of_entry(said.entry.name));
  }

  [[nodiscard]] std::string element(std::int64_t index) const {
    const auto* stage = std::get_if<ChooseElement>(&before.stage);
    return grouped(stage == nullptr ? index : stage->element_at(index));
  }
};

}  // namespace

std::string words_of_steps(std::int64_t first, std::int64_t end) {
  if (end - first == 1) return "step " + grouped(first);
  return fmt::format("steps {} to {}", grouped(first), grouped(end - 1));
}

StepLines lines_of(const GameState& state, const program::Program* program) {
  const NamedValue* value = state.value();
  if (value == nullptr) return {program};
  return {program, to_number(value->index), &value->line};
}

std::string tell_move(const manifest::Move& move, const GameState& before, const GameState& after,
                      const program::Program* program) {
  if (move.say == concession()) return "gives the game up";
  const auto message = parse_message(move.say);
  if (!message.ok()) return "says something that is not a move: " + message.error().message;
  const bool names_now = after.value() != nullptr;
  return std::visit(Teller{before, after, lines_of(names_now ? after : before, program)}, *message);
}

}  // namespace dgx::jobs
