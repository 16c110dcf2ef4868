#include "dgx/jobs/story.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "dgx/core/time_text.h"

namespace dgx::jobs {
namespace {

constexpr std::string_view kHostile = "<script>\"'&\x1b[2J</script>";

/// A story of which every text is hostile.
Story hostile_story() {
  const std::string text(kHostile);
  const ToldNumber number{text, text, text, text};
  DisputeStory dispute;
  dispute.heading = text;
  dispute.claims = dispute.end = {text};
  dispute.funnel = {{5, text, text, text}};
  dispute.operation = ToldOperation{text, text, {number}, number, number, text, text};
  dispute.moves = {{1, text, text, text, 3}};
  dispute.ids = {{text, text}};
  Story out;
  out.title = text;
  out.summary = out.explanation = out.left_out = {text};
  out.parties = {{text, text, text}};
  out.bought = out.ids = {{text, text}};
  out.curves = {{text, {1, 2}, 0, 2, 1, text}};
  out.segments = 2;
  out.stretches = {{Stretch::Mark::kFell, 0, 2}};
  out.disputes = {dispute};
  out.accounts = {{text, 1, 2}};
  out.events = {{text, text, text}};
  out.checks = {{text, text}};
  return out;
}

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t out = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++out;
  return out;
}

}  // namespace

TEST_CASE("a curve has a gap where a loss is not finite, and its other points stay where they are") {
  Story whole;
  whole.curves = {{"run", {4, 3, 2, 1}, 0, 4, 1, "falling"}};
  Story cut = whole;
  cut.curves[0].values[1] = std::nan("");
  const std::string page = print_page(cut);
  CHECK(count(print_page(whole), "<polyline") == 1);
  CHECK(count(page, "<polyline") == 2);
  CHECK(count(page, "nan,") == 0);
  const std::string last = print_page(whole);
  const std::size_t end = last.find('"', last.find("points=\"") + 8);
  const std::string point = last.substr(last.rfind(' ', end), end - last.rfind(' ', end));
  CHECK(count(page, point + "\"") == 1);
}

TEST_CASE("a page shows hostile text and obeys none of it") {
  const std::string page = print_page(hostile_story());
  CHECK(count(page, "<script") == 0);
  CHECK(count(page, "\x1b") == 0);
  CHECK(count(page, "&lt;script&gt;&quot;&#39;&amp;\\x1b[2J&lt;/script&gt;") > 30);
}

TEST_CASE("a text controls no terminal") {
  const std::string text = print_text(hostile_story());
  CHECK(count(text, "\x1b") == 0);
  CHECK(count(text, "\\x1b[2J") > 30);
  CHECK(text.ends_with('\n'));
}

TEST_CASE("an empty story is a page and a text") {
  Story story;
  story.title = "nothing";
  CHECK(count(print_page(story), "<h1>nothing</h1>") == 1);
  CHECK(count(print_page(story), "<h2") == 0);
  CHECK(print_text(story) == "nothing\n");
}

TEST_CASE("lines of a text are broken between words") {
  Story story;
  story.title = "t";
  std::string sentence;
  for (int i = 0; i < 100; ++i) sentence += "words ";
  story.summary = {sentence};
  const std::string text = print_text(story);
  std::size_t longest = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    longest = std::max(longest, end - at);
    at = end + 1;
  }
  CHECK(longest <= 110);
  CHECK(count(text, "words") == 100);
}

TEST_CASE("people are called by name, else by what they did first") {
  const Digest named{{1}}, one{{2}}, two{{3}}, nobody{{4}};
  Cast cast({{named, "alice"}});
  cast.add(named, "solver");
  cast.add(one, "challenger");
  cast.add(two, "challenger");
  cast.add(one, "referee");
  CHECK(cast.of(named) == "alice");
  CHECK(cast.of(one) == "the challenger");
  CHECK(cast.of(two) == "the challenger " + two.brief());
  CHECK(cast.of(nobody) == "the key " + nobody.brief());
  CHECK(sentence_case(cast.possessive(one)) == "The challenger's");
  CHECK(sentence_case("alice") == "alice");
}

TEST_CASE("times are told in UTC") {
  CHECK(utc_text(0) == "1970-01-01 00:00:00 UTC");
  CHECK(utc_text(1'700'000'000'123) == "2023-11-14 22:13:20 UTC");
}

}  // namespace dgx::jobs
