#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "dgx/core/json.h"
#include "dgx/core/json_document.h"
#include "dgx/core/text.h"

namespace dgx::json {
namespace {

constexpr std::int64_t kMaxInteger = std::int64_t{1} << 53;

Error error_at(std::size_t position, std::string_view what) {
  return malformed(fmt::format("json: {} at byte {}", what, position));
}

/// Walks the text and counts bytes, because nlohmann tells its handler no positions.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, std::size_t* count) : at_(at), count_(count) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    ++*count_;
    return *this;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  std::size_t* count_;
};

bool is_printable_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c <= 0x7e; });
}

/// Takes WHAT out of a message "[json.exception…] parse error at line 1, column 5: WHAT; last read: '…'", or
/// "[json.exception…] WHAT": the rest quotes input.
std::string reason_of(std::string_view message) {
  if (const std::size_t kind = message.find("] "); message.starts_with('[') && kind != std::string_view::npos)
    message.remove_prefix(kind + 2);
  const std::size_t column = message.find("column");
  const std::size_t start = column == std::string_view::npos ? column : message.find(": ", column);
  if (start != std::string_view::npos) message.remove_prefix(start + 2);
  return std::string(message.substr(0, message.find("; last read")));
}

/// Builds a tree of values from nlohmann's events. `Tree` is Value, and JSON that dgx does not write is
/// refused, or Document, which holds any.
template <class Tree>
class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  Builder(Tree& root, int max_depth, const std::size_t& position)
      : next_(&root), max_depth_(max_depth), position_(position) {}

  [[nodiscard]] std::optional<Error> take_error() { return std::exchange(error_, std::nullopt); }

  bool null() override {
    if constexpr (kIsOurs) return refuse("null is not allowed");
    return scalar(Tree());
  }
  bool boolean(bool value) override { return scalar(value); }
  bool number_integer(number_integer_t value) override {
    if (kIsOurs && value < -kMaxInteger) return refuse("integer beyond 2^53");
    return scalar(std::int64_t{value});
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (kIsOurs && value > kMaxInteger) return refuse("integer beyond 2^53");
    if (value > std::numeric_limits<std::int64_t>::max()) return refuse("integer beyond 64 bits");
    return scalar(static_cast<std::int64_t>(value));
  }
  bool number_float([[maybe_unused]] number_float_t value, const string_t& text) override {
    const bool integer = text.find_first_not_of("-0123456789") == std::string::npos;
    if constexpr (kIsOurs) {
      return refuse(integer ? "integer beyond 2^53" : "float is not allowed");
    } else {
      return integer ? refuse("integer beyond 64 bits") : scalar(Tree(value));
    }
  }
  bool string(string_t& value) override { return scalar(std::move(value)); }
  bool binary(binary_t&) override { return refuse("binary is not allowed"); }
  bool start_object(std::size_t) override { return open(Members{}); }
  bool start_array(std::size_t) override { return open(Items{}); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& key) override {
    if (kIsOurs && !is_printable_ascii(key)) return refuse("key is not printable ASCII");
    const auto [member, added] = open_.back()->as_object()->try_emplace(std::move(key));
    if (!added) return refuse(fmt::format("duplicate key \"{}\"", printable(member->first)));
    next_ = &member->second;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception& error) override {
    error_ = error_at(position == 0 ? 0 : position - 1, reason_of(error.what()));
    return false;
  }

 private:
  static constexpr bool kIsOurs = std::is_same_v<Tree, Value>;
  using Items = std::vector<Tree>;
  using Members = std::map<std::string, Tree, std::less<>>;

  bool refuse(std::string_view what) {
    error_ = malformed(fmt::format("json: {} before byte {}", what, position_));
    return false;
  }
  /// The place of the next value: the root, the member whose key came last, or a new item of the open array.
  /// Pointers into an array stay valid, since it does not grow while one of its items is open.
  Tree& slot() {
    if (!open_.empty()) {
      if (auto* items = open_.back()->as_array()) return items->emplace_back();
    }
    return *next_;
  }
  bool scalar(Tree value) {
    slot() = std::move(value);
    return true;
  }
  bool open(Tree empty) {
    if (static_cast<int>(open_.size()) == max_depth_)
      return refuse(fmt::format("deeper than {}", max_depth_));
    Tree& value = slot();
    value = std::move(empty);
    open_.push_back(&value);
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  Tree* next_;
  std::vector<Tree*> open_;
  int max_depth_;
  const std::size_t& position_;
  std::optional<Error> error_;
};

/// Refuses input that nlohmann's lexer would let through: it skips a byte-order mark, and takes a NUL for the
/// end of the input.
Status check_raw(std::string_view text, std::size_t max_bytes) {
  if (text.size() > max_bytes)
    return malformed(fmt::format("json: {} bytes, at most {} allowed", text.size(), max_bytes));
  if (text.substr(0, 1) == "\xEF") return error_at(0, "byte-order mark");
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos)
    return error_at(nul, "NUL byte");
  return {};
}

/// Parses a text that is most likely right: nullopt if it is not, without the position.
template <class Tree>
std::optional<Tree> parse_right(std::string_view text, int depth) {
  const std::size_t unknown = 0;
  Tree root;
  Builder<Tree> builder(root, depth, unknown);
  try {
    if (nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) return root;
  } catch (const std::exception&) {
    return std::nullopt;
  }
  return std::nullopt;
}

/// Counting bytes takes as long as all the rest, so it is left to texts that turn out to be wrong.
template <class Tree>
Result<Tree> parse_as(std::string_view text, Limits limits) {
  DGX_CHECK(check_raw(text, limits.bytes));
  if (auto right = parse_right<Tree>(text, limits.depth)) return *std::move(right);
  std::size_t position = 0;
  Tree root;
  Builder<Tree> builder(root, limits.depth, position);
  const char* const end = text.data() + text.size();
  try {
    const bool done = nlohmann::json::sax_parse(CountingIterator(text.data(), &position),
                                                CountingIterator(end, &position), &builder);
    if (auto error = builder.take_error()) return *std::move(error);
    if (!done) return error_at(position, "not a value");
  } catch (const std::exception& error) {
    return error_at(position, reason_of(error.what()));
  }
  return root;
}

}  // namespace

const Document* Document::find(std::string_view key) const {
  const Object* const members = as_object();
  if (members == nullptr) return nullptr;
  const auto found = members->find(key);
  return found == members->end() ? nullptr : &found->second;
}

std::string_view Document::type_name() const {
  static constexpr std::string_view kNames[] = {"null",   "bool",  "integer", "number",
                                                "string", "array", "object"};
  return kNames[data_.index()];
}

Result<Value> parse(std::string_view text, Limits limits) { return parse_as<Value>(text, limits); }

Result<Document> parse_document(std::string_view text, Limits limits) {
  return parse_as<Document>(text, limits);
}

Result<Value> parse_canonical(std::string_view text, Limits limits) {
  DGX_TRY(Value value, parse(text, limits));
  const std::string canonical = value.dump();
  if (canonical == text) return value;
  const auto [ours, theirs] = std::mismatch(canonical.begin(), canonical.end(), text.begin(), text.end());
  return error_at(static_cast<std::size_t>(ours - canonical.begin()), "not canonical (RFC 8785)");
}

}  // namespace dgx::json
