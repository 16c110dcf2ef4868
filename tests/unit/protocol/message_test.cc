#include "dgx/protocol/message.h"

#include <catch2/catch.hpp>

#include "dgx/merkle/tree.h"
#include "dgx/protocol/opened_tree.h"
#include "played.h"

using namespace dgx;
using namespace dgx::test;
using namespace dgx::protocol;

TEST_CASE("A node has 2 to 256 children, which hash to it") {
  for (const std::uint64_t count :
       {2U, 3U, 255U, 256U, 257U, 511U, 512U, 513U, 1000U, 65'535U, 65'536U, 65'537U}) {
    std::vector<Digest> leaves;
    for (std::uint64_t i = 0; i < count; ++i) {
      Digest leaf;
      for (std::size_t b = 0; b < 8; ++b) leaf.bytes[b] = static_cast<std::uint8_t>(i >> 8 * b);
      leaves.push_back(leaf);
    }
    const Node top{0, count};
    const std::uint64_t size = top.child_size();
    INFO(count);
    CHECK(top.children() >= 2);
    CHECK(top.children() <= 256);
    CHECK(size < count);
    CHECK((size == 1 || size == 256 || size == 65'536));
    CHECK(merkle::root_of(children_of(leaves, top)) == merkle::root_of(leaves));
    const Node last = top.child(top.children() - 1);
    CHECK(last.first + last.count == count);
    if (!last.is_leaf()) {
      const auto part = std::span(leaves).subspan(last.first, last.count);
      CHECK(merkle::root_of(children_of(leaves, last)) == merkle::root_of(part));
    }
  }
  CHECK(Node{0, std::uint64_t{1} << 53}.children() == 32);
  CHECK(Node{5, 1}.is_leaf());
}

TEST_CASE("What moves say prints to itself") {
  std::size_t says = 0;
  for (const Example& example : examples()) {
    for (const auto& move : example.moves) {
      const auto message = parse_message(move.body.say);
      REQUIRE(message.ok());
      CHECK(print_message(*message) == move.body.say);
      ++says;
    }
  }
  CHECK(says > 60);
}

TEST_CASE("What no move says is refused, with the field") {
  const std::string zeros(64, '0');
  const auto refused = [](json::Object object) {
    const auto message = parse_message(object);
    INFO(json::Value(object).dump());
    REQUIRE(!message.ok());
    return message.error().message;
  };
  using Object = json::Object;
  const auto list = [](std::size_t digests) { return to_base64(Bytes(32 * digests)); };
  CHECK(refused({}).find("kind") != std::string::npos);
  static_cast<void>(refused({{"kind", "nothing"}}));
  static_cast<void>(refused({{"kind", "accept"}, {"more", 1}}));
  static_cast<void>(refused({{"kind", "name"}}));
  static_cast<void>(refused({{"kind", "name"}, {"index", -1}}));
  static_cast<void>(refused({{"kind", "name"}, {"index", "1"}}));
  static_cast<void>(refused({{"kind", "interior"}, {"digest", std::string(63, '0')}}));
  static_cast<void>(refused({{"kind", "interior"}, {"digest", std::string(64, 'A')}}));
  static_cast<void>(refused({{"kind", "states"}, {"digests", list(257)}}));
  static_cast<void>(refused({{"kind", "states"}, {"digests", to_base64(Bytes(33))}}));
  static_cast<void>(refused({{"kind", "states"}, {"digests", "AA=A"}}));
  static_cast<void>(refused({{"kind", "tensor"}, {"bytes", ""}, {"root", zeros}}));
  static_cast<void>(refused({{"kind", "tensor"}, {"nodes", list(2)}}));
  static_cast<void>(refused({{"kind", "leaf"}, {"bytes", to_base64(Bytes(1025))}}));
  static_cast<void>(refused({{"kind", "numbers"}, {"numbers", to_base64(Bytes(2 * 16'384))}}));
  static_cast<void>(refused({{"kind", "claim"}, {"claim", "e"}}));
  static_cast<void>(refused({{"kind", "claim"}, {"claim", "b"}}));
  static_cast<void>(refused({{"kind", "claim"}, {"claim", "b"}, {"digest", zeros}}));
  static_cast<void>(refused({{"kind", "claim"}, {"claim", "d"}, {"index", 0}}));
  static_cast<void>(refused({{"kind", "claim"}, {"claim", "d"}, {"index", 0}, {"operands", Object{}}}));
  const Object operand{{"bytes", to_base64(Bytes(1024))},
                       {"leaf", 0},
                       {"path", list(40)},
                       {"shape", json::Array{1}},
                       {"t", "f32"},
                       {"table", list(16)},
                       {"value", 1}};
  json::Array many(6, operand);
  CHECK(parse_message(
            Object{{"kind", "claim"}, {"claim", "d"}, {"index", 0}, {"operands", json::Array(5, operand)}})
            .ok());
  const std::string evidence = refused({{"kind", "claim"}, {"claim", "d"}, {"index", 0}, {"operands", many}});
  CHECK(evidence.find("evidence") != std::string::npos);
}
