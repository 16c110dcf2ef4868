// A claim's evidence against an unchecked line: whatever line, shapes, places and openings say, judging them
// neither reads outside what is opened nor takes longer than one element or position. The input's first line
// is the program line, the second the claim, the third running results.

#include "claims.h"

#include "dgx/merkle/digests.h"
#include "dgx/merkle/openings.h"
#include "dgx/program/line.h"
#include "played.h"
#include "statements.h"
#include "target.h"

using namespace dgx;
using namespace dgx::protocol;

namespace {

constexpr kernels::ValueIndex kValue{40};
constexpr std::int64_t kLines = 64;

/// The table that the first opening leads to, since a cheat makes their openings fit.
Digest table_of(const OperationClaim& claim) {
  for (const Operand& operand : claim.operands) {
    if (!operand.table) continue;
    const auto digest =
        operand.root ? Result<Digest>(merkle::tensor_digest(operand.dtype, operand.shape, *operand.root))
                     : merkle::tensor_digest_of({operand.dtype, operand.shape,
                                                 static_cast<std::uint64_t>(operand.leaf), operand.bytes,
                                                 operand.path});
    if (!digest.ok()) continue;
    const auto root = merkle::root_from_path(
        merkle::value_leaf(*digest), static_cast<std::uint64_t>(operand.value), kLines, *operand.table);
    if (root.ok()) return *root;
  }
  return {};
}

void judge_fold(const Step& step, const kernels::Primitive& line, const OperationClaim& claim,
                std::string_view text) {
  const auto positions = element_count(line.fold);
  const auto count = element_count(line.shape);
  if (!positions.ok() || *positions == 0) return;
  FoldLevels fold(line, *positions, kernels::Number::of(0.0F));
  // Element and entries are taken from what is shown first, so that the list is not refused at once.
  const ByteView bytes = as_bytes(text);
  for (int lists = 0; lists < 8; ++lists) {
    const std::size_t size =
        static_cast<std::size_t>(fold.list().count()) * (line.kind == kernels::Kind::kArgmax ? 12
                                                         : line.dtype == DType::kF32         ? 4
                                                                                             : 8);
    Bytes numbers(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(std::min(bytes.size(), size)));
    numbers.resize(size);
    const auto contradiction = fold.post(numbers);
    if (!contradiction.ok() || fold.shown().empty()) return;
    const std::int64_t entry = claim.index % std::ssize(fold.shown());
    if (fold.at_position()) {
      static_cast<void>(
          judge_position(step, line, kValue, claim.index % *count, fold.position(entry), claim));
      return;
    }
    if (*contradiction) return;
    fold.name(entry);
  }
}

void judge(std::string_view line_text, std::string_view claim_text, std::string_view numbers) {
  const auto line = program::parse_line(line_text, kValue);
  const auto value = json::parse(claim_text);
  if (!line.ok() || !value.ok() || value->as_object() == nullptr) return;
  const auto count = element_count(line->shape);
  const auto message = parse_message(*value->as_object());
  if (!message.ok() || !count.ok() || *count == 0) return;  // open_line() refuses such a line
  static const manifest::Task kTask = [] {
    manifest::Task task = test::task();
    task.program.lines = kLines;
    return task;
  }();
  if (const auto* claim = std::get_if<OperationClaim>(&*message)) {
    const Step step{kTask, 3, {}, {}, table_of(*claim)};
    if (line->kind == kernels::Kind::kMap)
      static_cast<void>(
          judge_element(step, *line, kValue, claim->index % *count, kernels::Number::of(0.0F), *claim));
    if (line->kind != kernels::Kind::kMap && line->kind != kernels::Kind::kInput)
      judge_fold(step, *line, *claim, numbers);
  }
  if (const auto* claim = std::get_if<InputClaim>(&*message);
      claim != nullptr && line->kind == kernels::Kind::kInput) {
    static_cast<void>(
        judge_input({kTask, 3, {}, {}, {}}, *line, claim->index % *count, kernels::Number::of(0.0F), *claim));
  }
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  std::vector<std::string> lines;
  const test::Scene scene = test::small_scene();
  for (kernels::Primitive value : scene.program.values) lines.push_back(program::print_line(value, kValue));
  for (
      const char* huge :
      {R"({"f":[9007199254740992],"k":"sum","s":[],"t":"f32","v":40,"x":["2@1[k0]?0x0p0"]})",
       R"({"f":[94906265,94906265],"k":"dot","s":[3],"t":"f32","v":40,"x":["2[i0,k0]?0x0p0","2[k1,i0]?0x0p0"]})",
       R"({"do":["add acc x0"],"f":[9007199254740992],"init":"x1","k":"chain","s":[2],"t":"f32","v":40,)"
       R"("when":["ge k0 3"],"x":["2[i0,$2]?0x0p0","2[0,0]","1[k0//1048576]?0"]})",
       R"({"f":[4503599627370496],"k":"argmax","s":[],"t":"i64","v":40,"x":["1[k0/7]?-3"]})"})
    lines.push_back(huge);
  std::vector<std::string> out;
  std::vector<std::string> claims;
  for (const test::Example& example : test::examples()) {
    if (example.moves.empty()) continue;
    const auto message = parse_message(example.moves.back().body.say);
    if (message.ok() &&
        (std::holds_alternative<OperationClaim>(*message) || std::holds_alternative<InputClaim>(*message)))
      claims.push_back(json::Value(print_message(*message)).dump());
  }
  claims.push_back(R"({"claim":"d","index":3,"kind":"claim","operands":[]})");
  for (std::size_t i = 0; i < std::max(lines.size(), claims.size()); ++i)
    out.push_back(lines[i % lines.size()] + "\n" + claims[i % claims.size()] + "\n" +
                  std::string(300, static_cast<char>(i)));
  return out;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  const std::size_t first = text.find('\n');
  if (first == std::string_view::npos) return 0;
  const std::size_t second = text.find('\n', first + 1);
  if (second == std::string_view::npos) return 0;
  judge(text.substr(0, first), text.substr(first + 1, second - first - 1), text.substr(second + 1));
  return 0;
}
