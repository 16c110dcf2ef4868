#include "dgx/program/line.h"

#include <fmt/format.h>

#include <algorithm>

#include "dgx/core/json.h"
#include "dgx/merkle/digests.h"
#include "line_text.h"

namespace dgx::program {

using kernels::Kind;
using kernels::Primitive;
using kernels::Source;

namespace {

constexpr std::size_t kMaxOf = 1024;  // the line's length is the real limit

json::Array integers(const Shape& shape) { return {shape.begin(), shape.end()}; }

template <class T>
json::Array texts(const std::vector<T>& items, std::string (*print)(const T&)) {
  json::Array array;
  for (const T& item : items) array.emplace_back(print(item));
  return array;
}

std::string print_source(const Source& source) {
  switch (source.kind) {
    case Source::Kind::kState: return "state " + source.name;
    case Source::Kind::kBatch: return "batch " + source.name;
    case Source::Kind::kSchedule: return "schedule";
    case Source::Kind::kConstant: return "constant";
    case Source::Kind::kUniform: return "uniform " + source.name;
  }
  return {};
}

bool is_entry_name(std::string_view name) {
  const auto printable = [](char letter) { return letter > ' ' && letter <= '~'; };
  return !name.empty() && name.size() <= kMaxNameBytes && std::all_of(name.begin(), name.end(), printable);
}

Result<Source> parse_source(std::string_view text) {
  const std::size_t space = text.find(' ');
  const std::string_view word = text.substr(0, space);
  const std::string name(space == std::string_view::npos ? "" : text.substr(space + 1));
  const bool named = space != std::string_view::npos;
  if (word == "state" && is_entry_name(name)) return Source{Source::Kind::kState, name, {}};
  if (word == "batch" && merkle::is_field_name(name)) return Source{Source::Kind::kBatch, name, {}};
  if (word == "schedule" && !named) return Source{Source::Kind::kSchedule, "", {}};
  if (word == "constant" && !named) return Source{Source::Kind::kConstant, "", {}};
  if (word == "uniform" && named) {
    DGX_TRY(const std::int64_t ordinal, parse_integer(name));
    if (ordinal >= 0 && ordinal < (1 << 24)) return Source{Source::Kind::kUniform, name, {}};
  }
  return malformed(fmt::format("unknown source '{}'", text),
                   "use state NAME, batch NAME, schedule, constant or uniform N");
}

void print_input(const Primitive& primitive, json::Object& out) {
  out["src"] = print_source(primitive.source);
  if (!primitive.source.of.empty())
    out["of"] = json::Array(primitive.source.of.begin(), primitive.source.of.end());
  if (primitive.next) out["next"] = to_number(*primitive.next);
}

void print_operation(const Primitive& primitive, json::Object& out) {
  out["x"] = texts(primitive.accesses, &print_access);
  if (primitive.iteration) out["i"] = integers(*primitive.iteration);
  if (primitive.kind != Kind::kMap) out["f"] = integers(primitive.fold);
  if (!primitive.steps.empty()) out["do"] = texts(primitive.steps, &print_step);
  if (!primitive.when.empty()) out["when"] = texts(primitive.when, &print_step);
  if (primitive.init) out["init"] = print_operand(*primitive.init);
}

Shape read_shape(json::Fields& in, std::string_view key) {
  Shape shape;
  for (const json::Value& item : in.array(key, kMaxRank)) {
    const std::int64_t* dimension = item.as_int();
    if (!dimension || *dimension < 1) in.fail(key, "dimensions are positive integers");
    shape.push_back(dimension ? *dimension : 1);
  }
  return shape;
}

template <class T>
std::vector<T> read_texts(json::Fields& in, std::string_view key, std::size_t max,
                          Result<T> (*parse)(std::string_view)) {
  std::vector<T> items;
  for (const json::Value& item : in.array(key, max)) {
    const std::string* text = item.as_string();
    auto parsed = text ? parse(*text) : Result<T>(malformed("expected a string"));
    if (!parsed.ok()) {
      in.fail(key, fmt::format("item {}: {}", items.size(), parsed.error().message));
      return items;
    }
    items.push_back(std::move(parsed).value());
  }
  return items;
}

Result<std::string> any_text(std::string_view text) { return std::string(text); }

Kind read_kind(json::Fields& in) {
  const std::string name = in.string("k");
  for (const Kind kind :
       {Kind::kInput, Kind::kMap, Kind::kDot, Kind::kSum, Kind::kMax, Kind::kArgmax, Kind::kChain}) {
    if (name == kernels::name_of(kind)) return kind;
  }
  in.fail("k", fmt::format("unknown kind '{}'", name));
  return Kind::kInput;
}

void read_input(json::Fields& in, Primitive& out) {
  auto source = parse_source(in.string("src"));
  if (!source) in.fail("src", source.error().message);
  if (source) out.source = std::move(source).value();
  const bool has_list =
      out.source.kind == Source::Kind::kSchedule || out.source.kind == Source::Kind::kConstant;
  if (has_list) out.source.of = read_texts(in, "of", kMaxOf, &any_text);
  if (has_list && out.source.of.empty()) in.fail("of", "is empty");
  if (out.source.kind == Source::Kind::kState && in.has("next")) {
    out.next = kernels::ValueIndex(in.integer("next", 0, 65535));
  }
}

void read_operation(json::Fields& in, Primitive& out) {
  out.accesses = read_texts(in, "x", kMaxAccesses, &parse_access);
  if (in.has("i")) out.iteration = read_shape(in, "i");
  if (out.kind != Kind::kMap) out.fold = read_shape(in, "f");
  if (out.kind != Kind::kDot && in.has("do")) out.steps = read_texts(in, "do", kMaxSteps, &parse_step);
  if (out.kind != Kind::kChain) return;
  if (in.has("when")) out.when = read_texts(in, "when", kMaxSteps, &parse_step);
  auto init = parse_operand(in.string("init"));
  if (!init) in.fail("init", init.error().message);
  if (init) out.init = *init;
}

Result<Primitive> read_fields(const json::Value& value, kernels::ValueIndex number) {
  json::Fields in(value, "value");
  Primitive out;
  out.kind = read_kind(in);
  (void)in.integer("v", to_number(number), to_number(number));
  auto dtype = dtype_from_name(in.string("t"));
  if (!dtype) in.fail("t", dtype.error().message);
  if (dtype) out.dtype = *dtype;
  out.shape = read_shape(in, "s");
  if (in.has("g")) out.provenance = in.string("g", 256);
  out.kind == Kind::kInput ? read_input(in, out) : read_operation(in, out);
  DGX_CHECK(in.finish());
  return out;
}

}  // namespace

std::string print_line(const Primitive& primitive, kernels::ValueIndex value) {
  json::Object out;
  out["v"] = to_number(value);
  out["k"] = kernels::name_of(primitive.kind);
  out["t"] = name_of(primitive.dtype);
  out["s"] = integers(primitive.shape);
  if (!primitive.provenance.empty()) out["g"] = primitive.provenance;
  primitive.kind == Kind::kInput ? print_input(primitive, out) : print_operation(primitive, out);
  return json::Value(std::move(out)).dump();
}

Result<Primitive> parse_line(std::string_view text, kernels::ValueIndex value) {
  const std::string where = fmt::format("line {}", value);
  if (text.size() > kMaxLineBytes) {
    return malformed(fmt::format("{}: byte {}: longer than {} bytes", where, kMaxLineBytes, kMaxLineBytes));
  }
  auto parsed = json::parse_canonical(text, {kMaxLineBytes, 4});
  if (!parsed) return within(where, std::move(parsed).error());
  auto primitive = read_fields(*parsed, value);
  if (!primitive) return within(where, std::move(primitive).error());
  const std::string again = print_line(*primitive, value);
  if (again != text) {
    const auto differs =
        std::mismatch(text.begin(), text.end(), again.begin(), again.end()).first - text.begin();
    return malformed(fmt::format("{}: byte {}: not in canonical form, which is {}", where, differs, again));
  }
  return primitive;
}

}  // namespace dgx::program
