#include "dgx/protocol/fold_levels.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>

#include "dgx/core/checked.h"
#include "dgx/kernels/fold_order.h"
#include "dgx/protocol/message.h"
#include "dgx/protocol/scalar_text.h"
#include "fold_numbers.h"

namespace dgx::protocol {

using kernels::kDotBlock;
using kernels::kDotGroupBlocks;
using kernels::kDotGroupPositions;
using kernels::Kind;
using kernels::kSumBlock;
using kernels::kSumLanes;
using kernels::Number;
using kernels::NumberType;
using kernels::OperandRecord;
using kernels::Place;
using kernels::Running;
using kernels::ScalarRecord;
using What = FoldList::What;

namespace {

OperandRecord operand(OperandRecord::Origin origin, const Number& number) {
  OperandRecord out;
  out.origin = origin;
  out.number = number;
  return out;
}

ScalarRecord addition(Place place, std::int64_t position, const Number& to, const Number& part) {
  ScalarRecord out;
  out.place = place;
  out.position = position;
  out.op = kernels::ScalarOp::kAdd;
  out.operand_count = 2;
  out.operands[0] = operand(OperandRecord::Origin::kAccumulator, to);
  out.operands[1] = operand(OperandRecord::Origin::kPartial, part);
  out.result = add(to, part);
  return out;
}

/// The number as it is stored in a value of `dtype`.
Number stored(DType dtype, const Number& number) {
  return dtype == DType::kU8 ? Number::of(kernels::to_u8(number.integer)) : number;
}

bool same(const Running& a, const Running& b, Kind kind) {
  return a.value == b.value && (kind != Kind::kArgmax || a.where == b.where);
}

void append(Bytes& out, std::uint64_t bits, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) out.push_back(static_cast<std::uint8_t>(bits >> (8 * i)));
}
std::uint64_t take_bits(ByteView bytes) {
  std::uint64_t bits = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) bits = bits << 8 | bytes[i];
  return bits;
}

std::size_t size_of(NumberType type) { return type == NumberType::kFloat ? 4 : 8; }

Result<Running> decode(ByteView bytes, NumberType type) {
  Running out;
  const std::uint64_t bits = take_bits(bytes.first(size_of(type)));
  if (type == NumberType::kFloat) {
    out.value = Number::of(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    if (out.value.bits() != bits) return malformed("a NaN that is not 0x7FC00000");
  } else {
    out.value = Number::of(static_cast<std::int64_t>(bits));
  }
  if (bytes.size() > size_of(type))
    out.where = static_cast<std::int64_t>(take_bits(bytes.subspan(size_of(type))));
  return out;
}

}  // namespace

Bytes encode_numbers(std::span<const Running> numbers, NumberType type, bool with_position) {
  Bytes out;
  for (const Running& number : numbers) {
    append(out, number.value.bits(), size_of(type));
    if (with_position) append(out, static_cast<std::uint64_t>(number.where), 8);
  }
  return out;
}

FoldLevels::FoldLevels(const kernels::Primitive& line, std::int64_t positions, const Number& element)
    : kind_(line.kind),
      dtype_(line.dtype),
      type_(kernels::number_type(line.dtype)),
      type_known_(line.kind != Kind::kArgmax),
      element_(element) {
  if (kind_ == Kind::kDot) {
    list_ = running(What::kTotals, 0, ceil_div(positions, kDotGroupPositions));
    before_ = Running{zero_of(type_), 0};
    level_sizes_ = {positions};
  } else if (kind_ == Kind::kSum) {
    level_sizes_ = {positions};
    while (level_sizes_.back() > kSumBlock) level_sizes_.push_back(ceil_div(level_sizes_.back(), kSumBlock));
    list_ = {What::kSum, static_cast<int>(level_sizes_.size()), 0, 1, 1};
  } else {
    list_ = running(What::kRunning, 0, positions);
  }
}

FoldList FoldLevels::running(What what, std::int64_t begin, std::int64_t end) const {
  const auto limit = static_cast<std::int64_t>(kind_ == Kind::kArgmax ? kMaxNumbers / 2 : kMaxNumbers);
  return {what, 0, begin, end, ceil_div(end - begin, limit)};
}

/// The members of block `block` of a sum's level `level`.
FoldList FoldLevels::block_of(int level, std::int64_t block) const {
  const std::int64_t begin = block * kSumBlock;
  const std::int64_t end = std::min(begin + kSumBlock, level_sizes_[static_cast<std::size_t>(level)]);
  return {level == 0 ? What::kLanes : What::kItems, level, begin, end, 1};
}

std::size_t FoldLevels::entry_bytes() const { return size_of(type_) + (kind_ == Kind::kArgmax ? 8 : 0); }

bool FoldLevels::at_position() const {
  const bool fine = list_.what == What::kRunning && list_.stride == 1;
  return fine || list_.what == What::kBlock || list_.what == What::kLanes;
}

Result<std::optional<FoldLevels::Contradiction>> FoldLevels::post(ByteView numbers) {
  if (!type_known_) {
    // The line alone does not tell whether an argmax compares floats or integers; the length does.
    type_ = numbers.size() == static_cast<std::size_t>(list_.count()) * 12 ? NumberType::kFloat
                                                                           : NumberType::kInteger;
    type_known_ = true;
  }
  for (bool first = true; first || leaves_nothing_to_name(); first = false) {
    if (!first) name(0);
    const std::size_t bytes = static_cast<std::size_t>(list_.count()) * entry_bytes();
    if (numbers.size() < bytes)
      return malformed(fmt::format("numbers: {} bytes are missing", bytes - numbers.size()));
    std::vector<Running> entries;
    for (std::size_t at = 0; at < bytes; at += entry_bytes()) {
      DGX_TRY(const Running entry, decode(numbers.subspan(at, entry_bytes()), type_));
      entries.push_back(entry);
    }
    numbers = numbers.subspan(bytes);
    if (auto contradiction = take(std::move(entries))) return contradiction;
  }
  if (!numbers.empty()) return malformed(fmt::format("numbers: {} bytes too many", numbers.size()));
  return std::optional<Contradiction>();
}

Result<Bytes> FoldLevels::compose(const Show& show) const {
  FoldLevels ahead = *this;
  Bytes out;
  for (bool first = true; first || ahead.leaves_nothing_to_name(); first = false) {
    if (!first) ahead.name(0);
    DGX_TRY(std::vector<Running> entries, show(ahead.list_));
    assert(static_cast<std::int64_t>(entries.size()) == ahead.list_.count());
    if (!ahead.type_known_) ahead.type_ = entries.front().value.type;
    ahead.type_known_ = true;
    const Bytes bytes = encode_numbers(entries, ahead.type_, kind_ == Kind::kArgmax);
    out.insert(out.end(), bytes.begin(), bytes.end());
    if (ahead.take(std::move(entries))) break;
  }
  return out;
}

std::optional<FoldLevels::Contradiction> FoldLevels::take(std::vector<Running> entries) {
  shown_ = std::move(entries);
  switch (list_.what) {
    case What::kRunning:
    case What::kTotals:
    case What::kSum: return check_end();
    case What::kGroup:
    case What::kBlock: return check_added();
    case What::kItems:
    case What::kLanes: return check_combined();
  }
  return std::nullopt;
}

/// Checks that the last entry is the result known before: the element as stored, or an entry of an earlier
/// list.
std::optional<FoldLevels::Contradiction> FoldLevels::check_end() const {
  const Running& last = shown_.back();
  const Number result = kind_ == Kind::kArgmax ? Number::of(last.where) : last.value;
  const bool agrees = after_ ? same(last, *after_, kind_) : is_posted(stored(dtype_, result), element_);
  if (agrees) return std::nullopt;
  return Contradiction{std::nullopt, element_, list_.end - 1,
                       "the last of the running results is not the one shown before"};
}

/// Checks a dot's list: the result before it plus its last entry must be the result after it.
std::optional<FoldLevels::Contradiction> FoldLevels::check_added() const {
  const bool group = list_.what == What::kGroup;
  const std::int64_t part = list_.begin / (group ? kDotGroupBlocks : kDotBlock);
  const ScalarRecord sum =
      addition(group ? Place::kDotGroup : Place::kDotBlock, part, before_->value, shown_.back().value);
  if (sum.result == after_->value) return std::nullopt;
  const std::int64_t positions = list_.end * (group ? kDotBlock : 1);
  return Contradiction{sum, after_->value, std::min(positions, level_sizes_[0]) - 1, {}};
}

/// Checks a sum's list: its items, added up in their lanes, or the lanes' last results must combine to the
/// result after it.
std::optional<FoldLevels::Contradiction> FoldLevels::check_combined() const {
  std::array<Number, kSumLanes> lanes;
  lanes.fill(zero_of(type_));
  for (std::size_t i = 0; i < shown_.size(); ++i) {
    Number& lane = lanes[i % kSumLanes];
    lane = list_.what == What::kLanes ? shown_[i].value : add(lane, shown_[i].value);
  }
  kernels::LaneSum sum = kernels::combine_lanes(type_, lanes);
  if (sum.result == after_->value) return std::nullopt;
  sum.last.step = list_.level;
  sum.last.position = list_.begin / kSumBlock;
  std::int64_t positions = list_.end;
  for (int level = 0; level < list_.level; ++level) positions *= kSumBlock;
  return Contradiction{sum.last, after_->value, std::min(positions, level_sizes_[0]) - 1, {}};
}

void FoldLevels::name(std::int64_t entry) {
  assert(!at_position() && entry < static_cast<std::int64_t>(shown_.size()));
  const Running named = shown_[static_cast<std::size_t>(entry)];
  const std::optional<Running> previous = entry > 0 ? shown_[static_cast<std::size_t>(entry) - 1] : before_;
  const FoldList from = list_;
  const std::int64_t begin = from.begin + entry * from.stride;
  before_ = previous;
  after_ = named;
  switch (from.what) {
    case What::kRunning: list_ = running(What::kRunning, begin, from.end_of(entry)); break;
    case What::kTotals:
      list_ = running(What::kTotals, begin, from.end_of(entry));
      if (from.stride == 1) {
        const std::int64_t blocks = ceil_div(level_sizes_[0], kDotBlock);
        list_ = {What::kGroup, 0, begin * kDotGroupBlocks, std::min((begin + 1) * kDotGroupBlocks, blocks),
                 1};
      }
      break;
    case What::kGroup:
      if (entry == 0) before_ = Running{zero_of(type_), 0};
      list_ = {What::kBlock, 0, begin * kDotBlock, std::min((begin + 1) * kDotBlock, level_sizes_[0]), 1};
      break;
    case What::kSum: list_ = block_of(from.level - 1, 0); break;
    case What::kItems: list_ = block_of(from.level - 1, begin); break;
    case What::kBlock:
    case What::kLanes: break;
  }
  shown_.clear();
}

FoldLevels::Position FoldLevels::position(std::int64_t entry) const {
  const std::int64_t back = list_.what == What::kLanes ? static_cast<std::int64_t>(kSumLanes) : 1;
  Position out{list_.begin + entry, std::nullopt, shown_[static_cast<std::size_t>(entry)]};
  if (entry >= back) {
    out.before = shown_[static_cast<std::size_t>(entry - back)];
  } else if (list_.what == What::kRunning) {
    out.before = before_;
  } else {
    out.before = Running{zero_of(type_), 0};
  }
  return out;
}

}  // namespace dgx::protocol
