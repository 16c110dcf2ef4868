#include "dgx/lowering/ends.h"

#include <catch2/catch.hpp>

#include "exported_tree.h"

namespace dgx::lowering {
namespace {

using Matched = std::vector<std::optional<std::size_t>>;

Matched matched(const std::vector<ModelArgument>& arguments, const std::vector<std::string>& fields,
                const std::string& given = "") {
  const auto map = given.empty() ? InputMap{} : *parse_input_map(given);
  const auto out = match_inputs(arguments, fields, map, true);
  if (!out.ok()) FAIL(out.error().message);
  return *out;
}

std::string refusal(const std::vector<ModelArgument>& arguments, const std::vector<std::string>& fields,
                    const std::string& given = "", bool loss_takes_y = true) {
  const auto map = given.empty() ? InputMap{} : *parse_input_map(given);
  const auto out = match_inputs(arguments, fields, map, loss_takes_y);
  return out.ok() ? "" : out.error().message;
}

}  // namespace

TEST_CASE("inputs take the fields of their names, labels y, and the first other one x") {
  CHECK(matched({{"x"}}, {"x", "y"}) == Matched{0});
  CHECK(matched({{"ids"}, {"mask"}, {"labels"}}, {"mask", "x", "y"}) == Matched{1, 0, 2});
  CHECK(matched({{"mask"}, {"ids"}}, {"mask", "x", "y"}) == Matched{0, 1});
  CHECK(matched({{"labels"}, {"ids"}}, {"labels", "x", "y"}) == Matched{0, 1});
  CHECK(matched({{"a"}, {"b"}}, {"x", "y"}, "b=x,a=y") == Matched{1, 0});
  CHECK(matched({{"ids"}, {"labels"}}, {"x"}, "ids=x,labels=x") == Matched{0, 0});
  CHECK(matched({{"ids"}, {"bias", true}}, {"x", "y"}) == Matched{0, std::nullopt});
  CHECK(matched({{"ids"}}, {"mask", "x"}, "None=mask") == Matched{1});
}

TEST_CASE("an input without a field and a field without an input are refused by name") {
  CHECK(refusal({{"ids"}, {"mask"}}, {"x", "y"}) == "forward() takes mask, for which there is no field");
  // Labels are never taken from x unless the user says so.
  CHECK(refusal({{"labels"}}, {"x"}) == "forward() takes labels, for which there is no field");
  CHECK(refusal({{"ids"}}, {"mask", "x"}) == "no input takes the field mask of the data");
  CHECK(refusal({{"ids"}}, {"x", "y"}, "", false) == "no input takes the field y of the data");
  CHECK(refusal({{"ids"}}, {"x"}, "id=x") == "--inputs: forward() takes no tensor 'id'");
  CHECK(refusal({{"ids"}}, {"x"}, "ids=y") == "--inputs: the data has no field 'y'");
  for (const char* text : {"", "a", "=x", "a=", "a=x,", ",a=x", "a=x,a=y", "a=x,,b=y"}) {
    INFO(text);
    CHECK(!parse_input_map(text).ok());
  }
}

TEST_CASE("a result is named by keys or by positions, and keys count first") {
  const std::vector<ModelResult> results = {{"loss", "0"}, {"past.0", "1.0"}, {"1", "2"}};
  CHECK(*choose_result(results, "loss") == 0);
  CHECK(*choose_result(results, "0") == 0);
  CHECK(*choose_result(results, "1.0") == 1);
  CHECK(*choose_result(results, "past.0") == 1);
  CHECK(*choose_result(results, "1") == 2);
  CHECK(*choose_result({{}}, "") == 0);
  CHECK(!choose_result({{}}, "logits").ok());
  CHECK(choose_result(results, "").error().message == "forward() returns 3 tensors: loss, past.0 and 1");
  CHECK(choose_result(results, "los").error().hint == "did you mean loss?");
  CHECK(choose_result({}, "").error().message == "forward() returns no tensor");
}

TEST_CASE("a tree of results is read from PyTorch's text") {
  const std::string leaf = R"({"type":null,"context":null,"children_spec":[]})";
  const auto tree = [](const std::string& node) { return leaves_of_tree("[1, " + node + "]"); };
  const auto plain = tree(leaf);
  REQUIRE(plain.ok());
  REQUIRE(plain->size() == 1);
  CHECK(plain->front().keys.empty());
  const auto nested =
      tree(R"({"type":"builtins.dict","context":"[\"a\", \"b\"]","children_spec":[)" + leaf +
           R"(,{"type":"builtins.tuple","context":"null","children_spec":[)" + leaf + "," + leaf + "]}]}");
  REQUIRE(nested.ok());
  REQUIRE(nested->size() == 3);
  CHECK((*nested)[0].keys == "a");
  CHECK((*nested)[2].keys == "b.1");
  CHECK((*nested)[2].positions == "1.1");
  // Keys that are not as many as the children are no keys.
  const auto odd =
      tree(R"({"type":"other","context":"[\"a\"]","children_spec":[)" + leaf + "," + leaf + "]}");
  REQUIRE(odd.ok());
  CHECK((*odd)[1].keys == "1");
  const std::string long_key =
      R"({"type":"d","context":"[\")" + std::string(1025, 'k') + R"(\"]","children_spec":[)";
  CHECK_FALSE(tree(long_key + leaf + "]}").ok());
  std::string deep(70, '[');
  for (const std::string& text : {std::string("[]"), std::string("[1]"), std::string("{}"),
                                  std::string("[1, 2]"), std::string(R"([1, {"type":"a"}])"), deep,
                                  std::string(R"([1, {"type":"a","context":null,"children_spec":3}])")}) {
    INFO(text);
    CHECK(!leaves_of_tree(text).ok());
  }
}

}  // namespace dgx::lowering
