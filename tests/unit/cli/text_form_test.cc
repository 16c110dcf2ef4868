#include "text_form.h"

#include <catch2/catch.hpp>

#include "progress_bar.h"

namespace dgx::cli {

TEST_CASE("a number in hex has its decimal beside it") {
  CHECK(with_decimal("0xbd4c77ff") == "0xbd4c77ff (-0.049919125)");
  CHECK(with_decimal("0x1.8p3") == "0x1.8p3 (12)");
  CHECK(with_decimal("0x") == "0x");
  CHECK(scalar_text(json::Value("0x3f800000")) == "0x3f800000 (1)");
}

TEST_CASE("milliseconds are told as the duration or the time that they are, where their name says so") {
  CHECK(with_time("window_proof_ms", 604'800'000) == "604800000 (7 d)");
  CHECK(with_time("segment_milliseconds", 90'000) == "90000 (1 min 30 s)");
  CHECK(with_time("segment_milliseconds", 999) == "999");
  CHECK(with_time("milliseconds", 1'795'356'187'999) == "1795356187999 (2026-11-22 14:03:07 UTC)");
  CHECK(with_time("segment_milliseconds", 1'795'356'187'999) == "1795356187999");
  CHECK(with_time("steps", 604'800'000) == "604800000");
}

TEST_CASE("a shape is told as a list, also one without dimensions") {
  const json::Object told{{"other", json::Array{}},
                          {"shape", json::Array{28, 28}},
                          {"y", json::Object{{"shape", json::Array{}}}}};
  CHECK(block_text(told, 0) == "shape: [28,28]\nother: none\ny:\n  shape: []\n");
  CHECK(block_text(json::Object{{"shape", json::Array{"\u202e"}}}, 0).find("\u202e") == std::string::npos);
}

TEST_CASE("an object is told as a story: what it is, about what, what is said, what else, digests") {
  const json::Object told{{"signer", "ab"}, {"zebra", 1},   {"ant", 2},      {"digest", "cd"},
                          {"outcome", "o"}, {"task", "ef"}, {"kind", "move"}};
  CHECK(block_text(told, 0) ==
        "kind: move\ntask: ef\noutcome: o\nant: 2\nzebra: 1\ndigest: cd\nsigner: ab (public key)\n");
  CHECK(json::Output(told).dump().starts_with(R"({"ant":2,"digest")"));
}

TEST_CASE("columns of numbers end at the right") {
  const Table table{{"index", "digest", "agrees"}, {{3, "ab", true}, {1200, "abcdef", false}}};
  CHECK(table_text(table, 2) ==
        "  index  digest  agrees\n"
        "      3  ab      yes\n"
        "   1200  abcdef  no\n");
}

TEST_CASE("nested values are indented") {
  const json::Object inner{{"b", 2}, {"list", json::Array{1, 2}}};
  const json::Array items{json::Object{{"x", 1}, {"y", 2}}, json::Object{{"x", 3}}};
  CHECK(block_text(json::Object{{"a", inner}, {"items", items}}, 2) ==
        "  a:\n    b: 2\n    list: 1 2\n  items:\n    - x: 1\n      y: 2\n    - x: 3\n");
  CHECK(block_text(json::Object{}, 0) == "none\n");
  CHECK(scalar_text(std::string(1024, 'a')) == std::string(1024, 'a'));
  CHECK(scalar_text(std::string(1025, 'a')) == std::string(64, 'a') + "... (1,025 bytes)");
  std::string umlauts = "a";
  for (int n = 0; n < 600; ++n) umlauts += "\u00e4";
  CHECK(scalar_text(umlauts) == umlauts.substr(0, 63) + "... (1,201 bytes)");
}

TEST_CASE("the progress line fits the terminal and survives totals that are wrong") {
  CHECK(progress_line("training", 50, 100, 10, "loss 0.5", 200) ==
        "training  [##########..........]  50 %  50/100  10/s  0:05 left  loss 0.5");
  CHECK(progress_line("training", 50, 100, 10, "loss 0.5", 20) == "training  [########");
  CHECK(progress_line("x", 5, 0, 0, "", 80) == "x  [....................]   0 %  5/0");
  CHECK(progress_line("x", 9, 3, 2, "", 80) == "x  [####################] 100 %  9/3  2.00/s  0:00 left");
  CHECK(progress_line("x", 0, 7200, 1, "", 80) ==
        "x  [....................]   0 %  0/7,200  1.00/s  2:00:00 left");
}

TEST_CASE("progress in words says the same") {
  CHECK(progress_words("training", 2854, 4680, 312, "loss 0.5") ==
        "training: 2,854 of 4,680 (60 %), 312/s, 0:05 left, loss 0.5");
  CHECK(progress_words("x", 5, 0, 0, "") == "x: 5 of 0 (0 %)");
}

TEST_CASE("a line of progress comes when it is asked for, even where nothing is shown") {
  RequestFlag where;
  std::vector<std::string> said;
  const auto say = [&said](std::string_view text) { said.emplace_back(text); };
  const auto ignore = [](std::string_view) {};
  ProgressBar bar(ProgressBar::Form::kNothing, where, say, ignore, ignore);
  bar.start("training", 10);
  bar.update(1, "loss 2");
  CHECK(said.empty());
  where.request();
  bar.update(2, "loss 1");
  bar.update(3, "loss 1");
  CHECK(said == std::vector<std::string>{"training: 2 of 10 (20 %), loss 1"});
}

}  // namespace dgx::cli
