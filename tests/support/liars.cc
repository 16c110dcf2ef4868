#include "liars.h"

#include <algorithm>

#include "dgx/merkle/openings.h"
#include "dgx/merkle/tree.h"
#include "party_view.h"
#include "statements.h"

namespace dgx::test {

using namespace protocol;

Liar::Liar(const Scene& scene, Party& story, Party& truth, Style style, Dice& dice)
    : scene_(scene),
      story_(story),
      style_(style),
      dice_(dice),
      departs_in_(dice.below(8)),
      player_(scene.program, story),
      true_player_(scene.program, truth),
      view_(std::make_unique<PartyView>(scene.program, story)) {}
Liar::~Liar() = default;

std::optional<json::Object> Liar::by_story(const Game& game, bool truly) {
  auto said = (truly ? true_player_ : player_).next(game);
  if (!said.ok() || !*said) return std::nullopt;
  if (auto* numbers = std::get_if<NumbersPost>(&**said); numbers != nullptr && style_ != Style::kStory) {
    if (auto fitting = numbers_that_fit(game, numbers->numbers)) numbers->numbers = *std::move(fitting);
  }
  return print_message(**said);
}

std::optional<json::Object> Liar::say(const Game& game) {
  std::optional<json::Object> out;
  const bool departs =
      style_ == Style::kWild ? dice_.one_in(2) : style_ == Style::kOnce && departs_in_-- == 0;
  if (departs) out = depart(game);
  if (!out) out = by_story(game, false);
  if (!out) out = depart(game);
  if (out) said_.push_back(*out);
  return out;
}

std::optional<json::Object> Liar::depart(const Game& game) {
  const std::int64_t kind = dice_.below(12);
  if (kind == 0 && !said_.empty()) return dice_.pick(said_);
  if (kind == 1) return json::Object{{"kind", "accept"}};
  if (kind == 2) return by_story(game, true);
  if (kind < 7) {
    const auto invented = invent(game);
    return invented ? std::optional(print_message(*invented)) : std::nullopt;
  }
  std::optional<json::Object> base;
  if (kind < 10) {
    base = by_story(game, false);
  } else if (const auto invented = invent(game)) {
    base = print_message(*invented);
  }
  return base ? std::optional(changed(*std::move(base))) : std::nullopt;
}

// Running results.

/// Searches for a list that passes the game's check but is false elsewhere: a liar's best move.
std::optional<Bytes> Liar::numbers_that_fit(const Game& game, Bytes bytes) {
  const ShowNumbers& stage = *game.stage<ShowNumbers>();
  const kernels::Primitive& line = stage.value.line;
  const bool floats = line.dtype == DType::kF32 || line.kind == kernels::Kind::kArgmax;
  const std::size_t size = floats ? 4 : 8;
  for (int tries = 0; tries < 24 && bytes.size() >= size; ++tries) {
    Bytes other = bytes;
    const std::size_t count = bytes.size() / size;
    const std::size_t at =
        dice_.one_in(2) ? count - 1 : static_cast<std::size_t>(dice_.below(static_cast<std::int64_t>(count)));
    // Changes a power of two of the last bits, up or down, in one entry, or in all from it to the last but
    // one.
    std::uint32_t low = 0;
    std::copy_n(other.begin() + static_cast<std::ptrdiff_t>(at * size), 4,
                reinterpret_cast<std::uint8_t*>(&low));
    const auto shift = static_cast<std::uint32_t>(1U << dice_.below(25));
    low = dice_.one_in(2) ? low + shift : low - shift;
    const std::size_t end = dice_.one_in(2) ? at + 1 : std::max(at + 1, count - 1);
    for (std::size_t i = at; i < end; ++i)
      std::copy_n(reinterpret_cast<const std::uint8_t*>(&low), 4,
                  other.begin() + static_cast<std::ptrdiff_t>(i * size));
    FoldLevels fold = stage.fold;
    const auto contradiction = fold.post(other);
    if (contradiction.ok() && !*contradiction) return other;
  }
  return std::nullopt;
}

// Inventions.

std::int64_t Liar::index_below(std::size_t count) {
  if (dice_.one_in(30)) return dice_.one_in(2) ? static_cast<std::int64_t>(count) : std::int64_t{1} << 53;
  return dice_.below(static_cast<std::int64_t>(std::max<std::size_t>(count, 1)));
}

OpenedLine Liar::any_line() {
  return view_->line(kernels::ValueIndex(dice_.below(std::ssize(scene_.program.values))));
}

merkle::EntryOpening Liar::entry_opening(std::int64_t step) {
  const auto entries = story_.entries(step);
  if (!entries.ok() || entries->empty()) return {};
  auto opening = merkle::open_entry(*entries, dice_.pick(*entries).name);
  return opening.ok() ? *std::move(opening) : merkle::EntryOpening{"a", digest("a"), 0, 1, {}};
}

Message Liar::non_finite(std::int64_t step) {
  if (auto claim = view_->non_finite(step); claim.ok() && *claim) return **std::move(claim);
  NonFiniteClaim out{entry_opening(step), {}};
  const auto tensor = story_.entry(step, out.entry.name);
  if (tensor.ok()) {
    auto opened = merkle::open_tensor(tensor->view(), 0);
    if (opened.ok()) out.tensor = *std::move(opened);
  }
  return out;
}

Message Liar::entry_claim(const Game& game) {
  const std::int64_t step = game.state().first_step;
  EntryClaim claim;
  const std::int64_t kind = dice_.below(4);
  if (kind == 0) {
    const auto values = story_.values(step);
    const auto leaves = view_->value_leaves(step);
    auto at = static_cast<std::size_t>(dice_.below(std::ssize(*values)));
    const auto* stage = game.stage<ClaimEntry>();
    if (stage != nullptr && !dice_.one_in(4)) {
      const auto line = kernels::ValueIndex(stage->shown.line.index);
      at = static_cast<std::size_t>(*scene_.program.values[line].next);
    }
    claim.digest = dice_.one_in(4) ? digest("other") : (*values)[at];
    claim.path = *merkle::inclusion_path(*leaves, at);
    return claim;
  }
  if (kind != 1) claim.before = entry_opening(step + 1);
  if (kind != 2) claim.line = any_line();
  return claim;
}

Message Liar::name_child(const OpenedTree& tree) {
  return Name{index_below(tree.last().children.size()), std::nullopt};
}

std::optional<Message> Liar::at_value(const Game& game, const ChooseValue& stage) {
  const std::int64_t step = game.state().first_step;
  const std::int64_t kind = dice_.below(8);
  const NodeList& list = stage.table.last();
  const std::int64_t index = index_below(list.children.size());
  const auto value = kernels::ValueIndex(static_cast<std::int64_t>(list.node.first) + index);
  const bool there = scene_.program.values.contains(value) && index < 256;
  OpenedLine line = there && !dice_.one_in(20) ? view_->line(value) : any_line();
  if (kind == 0) return Accept{};
  if (kind == 1) return non_finite(step + 1);
  if (kind == 2) return StateInputClaim{index, std::move(line), entry_opening(step)};
  return Name{index, std::move(line)};
}

std::optional<Message> Liar::at_element(const Game& game, const ChooseElement& stage) {
  const kernels::Primitive& line = stage.value.line;
  const std::int64_t index = index_below(static_cast<std::size_t>(stage.count()));
  if (index >= stage.count()) return Name{index, std::nullopt};
  if (line.kind == kernels::Kind::kMap && !dice_.one_in(10)) {
    auto operands =
        view_->operands(game.state().first_step, stage.value, stage.element_at(index), std::nullopt);
    if (operands.ok()) return OperationClaim{index, *std::move(operands)};
  }
  if (line.kind == kernels::Kind::kInput && !dice_.one_in(10)) {
    InputClaim claim{index, std::nullopt};
    if (line.source.kind == kernels::Source::Kind::kBatch) {
      // The samples' numbers are no field, and the claim about them shows none: a forged one may.
      const bool is_field = find_entry(scene_.dataset, line.source.name) != nullptr;
      const std::string field = is_field ? line.source.name : scene_.dataset.front().name;
      auto data = story_.data(field, dice_.below(find_entry(scene_.dataset, field)->tensor.count()));
      if (data.ok() && (is_field || dice_.one_in(2))) claim.data = *std::move(data);
    }
    return claim;
  }
  return Name{index, std::nullopt};
}

std::optional<Message> Liar::at_number(const Game& game, const ChooseNumber& stage) {
  const std::int64_t index = index_below(stage.fold.shown().size());
  if (!stage.fold.at_position() || index >= std::ssize(stage.fold.shown())) return Name{index, std::nullopt};
  auto operands =
      view_->operands(game.state().first_step, stage.value, stage.element, stage.fold.position(index));
  if (!operands.ok()) return std::nullopt;
  return OperationClaim{index, *std::move(operands)};
}

std::optional<Message> Liar::choose(const Game& game) {
  if (const auto* stage = game.stage<ChooseState>())
    return Name{index_below(stage->states.size() + 1), std::nullopt};
  if (const auto* stage = game.stage<ChooseValueNode>()) return name_child(stage->table);
  if (const auto* stage = game.stage<ChooseTensorNode>()) return name_child(stage->tensor);
  if (const auto* stage = game.stage<ChooseValue>()) return at_value(game, *stage);
  if (const auto* stage = game.stage<ChooseElement>()) return at_element(game, *stage);
  if (const auto* stage = game.stage<ChooseNumber>()) return at_number(game, *stage);
  const auto* nodes = game.stage<ChooseEntryNode>();
  const auto* entries = game.stage<ChooseEntry>();
  if (nodes == nullptr && entries == nullptr) return entry_claim(game);
  if (dice_.one_in(6)) return non_finite(game.state().first_step + 1);
  if (dice_.one_in(4)) return entry_claim(game);
  return name_child(nodes != nullptr ? nodes->entries : entries->entries);
}

Message Liar::fault_post(const Game& game) {
  const std::int64_t first = game.state().first_step;
  FaultPost post;
  const std::int64_t kind = dice_.below(5);
  if (kind == 0) {
    auto claim = std::get<NonFiniteClaim>(non_finite(first + 1));
    post.step = first + 1;
    post.digest = *story_.state(first + 1);
    post.entry = std::move(claim.entry);
    post.tensor = std::move(claim.tensor);
  } else if (kind == 1) {
    auto claim = std::get<NonFiniteClaim>(non_finite(first));
    post.entry = std::move(claim.entry);
    post.tensor = std::move(claim.tensor);
  } else if (kind == 2) {
    post.line = any_line();
    if (dice_.one_in(2)) post.before = entry_opening(first);
    if (dice_.one_in(2)) post.after = entry_opening(first);
  } else if (kind == 3) {
    post.entry = entry_opening(first);
  } else {
    post.before = entry_opening(first);
    post.after = entry_opening(first);
  }
  return post;
}

std::optional<Message> Liar::invent(const Game& game) {
  if (game.due().side == Side::kChallenger) return choose(game);
  if (game.stage<ShowFault>()) return fault_post(game);
  auto said = (dice_.one_in(2) ? true_player_ : player_).next(game);
  if (!said.ok() || !*said) return std::nullopt;
  // Lists that no hash binds: any digests will do.
  if (auto* states = std::get_if<StatesPost>(&**said); states != nullptr && !states->digests.empty()) {
    for (std::int64_t n = 1 + dice_.below(3); n > 0; --n) {
      const auto at = static_cast<std::size_t>(dice_.below(std::ssize(states->digests)));
      states->digests[at] = dice_.one_in(2) ? digest("state") : dice_.pick(states->digests);
    }
  }
  return **said;
}

// Changes.

namespace {

void change_bytes(Bytes& bytes, Dice& dice) {
  const std::int64_t size = std::ssize(bytes);
  switch (size == 0 ? 2 : dice.below(5)) {
    case 0:
      bytes.resize(static_cast<std::size_t>(std::max<std::int64_t>(0, size - (dice.one_in(2) ? 32 : 1))));
      break;
    case 1:
    case 2: bytes.resize(static_cast<std::size_t>(size + (dice.one_in(2) ? 32 : 1 + dice.below(40)))); break;
    default:
      bytes[static_cast<std::size_t>(dice.below(size))] ^= static_cast<std::uint8_t>(1U << dice.below(8));
  }
}

bool is_hex(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

void Liar::change(json::Value& value) {
  if (auto* object = value.as_object(); object != nullptr && !object->empty()) {
    auto at = object->begin();
    std::advance(at, dice_.below(std::ssize(*object)));
    switch (dice_.below(12)) {
      case 0: object->erase(at); break;
      case 1: object->emplace(dice_.one_in(2) ? "line" : "extra", std::int64_t{1}); break;
      default: change(at->second);
    }
  } else if (auto* array = value.as_array(); array != nullptr && !array->empty()) {
    const auto at = array->begin() + static_cast<std::ptrdiff_t>(dice_.below(std::ssize(*array)));
    const std::int64_t kind = dice_.below(8);
    if (kind == 0) array->erase(at);
    if (kind == 1) array->insert(at, json::Value(*at));
    if (kind > 1) change(*at);
  } else if (const auto* integer = value.as_int()) {
    const std::vector<std::int64_t> others{*integer + 1, *integer - 1,         0, 1, 255, 256, *integer ^ 256,
                                           -1,           std::int64_t{1} << 53};
    value = dice_.pick(others);
  } else if (const auto* text = value.as_string()) {
    if (dice_.one_in(20)) {
      value = json::Object{};
    } else if (is_hex(*text)) {
      value = digest(*text).hex();
    } else if (auto bytes = from_base64(*text); bytes.ok() && text->size() % 4 == 0 && text->size() > 8) {
      change_bytes(*bytes, dice_);
      value = to_base64(*bytes);
    } else {
      const std::vector<std::string> others{"",  "a", *text + "x", "f32",  "i64",  "u8",
                                            "b", "d", "claim",     "name", "leaf", "entry"};
      value = dice_.pick(others);
    }
  }
}

json::Object Liar::changed(json::Object object) {
  json::Value value(std::move(object));
  change(value);
  return *value.as_object();
}

}  // namespace dgx::test
