#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bisect/story_tables.h"
#include "dgx/core/text.h"
#include "inspect/page.h"
#include "inspect/page_style.h"

namespace dgx::jobs {
namespace {

// Pictures are drawn in these units, whatever the screen's width.
constexpr double kWidth = 720;
constexpr double kCurveHeight = 240;
constexpr double kStripHeight = 36;
constexpr double kMargin = 52;

std::string px(double length) { return fmt::format("{:.1f}", length); }

void paragraphs(Page& page, const std::vector<std::string>& sentences, const std::string& kind = {}) {
  for (const std::string& sentence : sentences) {
    if (kind.empty()) {
      page.element("p", sentence);
    } else {
      page.element("p", sentence, {{"class", kind}});
    }
  }
}

/// A table; on narrow screens its rows become blocks, of which each cell has its column's name
/// (page_style.h).
void table(Page& page, const StoryTable& content) {
  const auto& columns = content.columns;
  const auto kind_of = [&](std::size_t i) { return columns[i].is_number ? "number" : "text"; };
  page.open("table", {{"class", columns.empty() ? "facts" : "rows"}});
  page.element("caption", content.caption);
  if (!columns.empty()) {
    page.open("thead");
    page.open("tr");
    for (std::size_t i = 0; i < columns.size(); ++i)
      page.element("th", columns[i].name, {{"class", kind_of(i)}, {"scope", "col"}});
    page.close();
    page.close();
  }
  page.open("tbody");
  for (const auto& row : content.rows) {
    page.open("tr");
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (columns.empty()) {
        page.element("td", row[i]);
      } else {
        page.element("td", row[i], {{"class", kind_of(i)}, {"data-label", columns[i].name}});
      }
    }
    page.close();
  }
  page.close();
  page.close();
}

// Pictures. Each has a title and a description, and a table or sentence next to it says the same.

void open_picture(Page& page, const std::string& id, double height, const std::string& title,
                  const std::string& words) {
  page.open("figure");
  page.open("svg", {{"viewBox", fmt::format("0 0 {:.0f} {:.0f}", kWidth, height)},
                    {"role", "img"},
                    {"aria-labelledby", fmt::format("{0}-title {0}-words", id)}});
  page.element("title", title, {{"id", id + "-title"}});
  page.element("desc", words, {{"id", id + "-words"}});
}

void close_picture(Page& page, const std::string& words) {
  page.close();
  page.element("figcaption", words);
  page.close();
}

/// The least and greatest finite value of all curves; an interval around them if they are the same, and from
/// 0 to 1 if there is none.
std::pair<double, double> range_of(const std::vector<Curve>& curves) {
  double least = INFINITY;
  double most = -INFINITY;
  for (const Curve& curve : curves) {
    for (const double value : curve.values) {
      if (!std::isfinite(value)) continue;
      least = std::min(least, value);
      most = std::max(most, value);
    }
  }
  if (most < least) return {0, 1};
  return most > least ? std::pair(least, most) : std::pair(least - 1, least + 1);
}

void line(Page& page, double x1, double y1, double x2, double y2) {
  page.element("line", "",
               {{"class", "axis"}, {"x1", px(x1)}, {"y1", px(y1)}, {"x2", px(x2)}, {"y2", px(y2)}});
}

void label(Page& page, double x, double y, const std::string& anchor, const std::string& words) {
  page.element("text", words, {{"x", px(x)}, {"y", px(y)}, {"text-anchor", anchor}});
}

/// The points of a curve as a picture has them: a list for each part of it between two gaps.
template <class X, class Y>
std::vector<std::string> parts_of(const Curve& curve, const X& x_of, const Y& y_of) {
  std::vector<std::string> out(1);
  for (std::size_t k = 0; k < curve.values.size(); ++k) {
    const std::int64_t begin = curve.first_step + static_cast<std::int64_t>(k) * curve.steps_each;
    const std::int64_t end = std::min(begin + curve.steps_each, curve.end_step);
    const double step = (static_cast<double>(begin) + static_cast<double>(end)) / 2;
    if (!std::isfinite(curve.values[k])) {
      if (!out.back().empty()) out.emplace_back();
      continue;
    }
    out.back() +=
        fmt::format("{}{:.1f},{:.1f}", out.back().empty() ? "" : " ", x_of(step), y_of(curve.values[k]));
  }
  if (out.back().empty()) out.pop_back();
  return out;
}

void curves_picture(Page& page, const std::vector<Curve>& curves) {
  const auto [least, most] = range_of(curves);
  std::int64_t last_step = 1;
  std::string words;
  for (const Curve& curve : curves) {
    last_step = std::max(last_step, curve.end_step);
    words += fmt::format("{}: {}. ", curve.name, curve.words);
  }
  const double right = kWidth - 12;
  const double bottom = kCurveHeight - 28;
  const auto x_of = [&](double step) {
    return kMargin + (right - kMargin) * step / static_cast<double>(last_step);
  };
  const auto y_of = [&, low = least, high = most](double value) {
    return bottom - (bottom - 16) * (value - low) / (high - low);
  };
  open_picture(page, "loss", kCurveHeight, "Loss by training step", words);
  line(page, kMargin, 16, kMargin, bottom);
  line(page, kMargin, bottom, right, bottom);
  label(page, kMargin - 6, 22, "end", fmt::format("{:.3g}", most));
  label(page, kMargin - 6, bottom, "end", fmt::format("{:.3g}", least));
  label(page, kMargin, kCurveHeight - 8, "start", "step 0");
  label(page, right, kCurveHeight - 8, "end", "step " + grouped(last_step));
  for (std::size_t i = 0; i < curves.size(); ++i) {
    for (const std::string& points : parts_of(curves[i], x_of, y_of))
      page.element("polyline", "", {{"class", fmt::format("curve curve{}", i)}, {"points", points}});
  }
  close_picture(page, words);
}

std::string class_of(Stretch::Mark mark) {
  switch (mark) {
    case Stretch::Mark::kNotReplayed: return "none";
    case Stretch::Mark::kDrawn: return "drawn";
    case Stretch::Mark::kAgrees: return "agrees";
    case Stretch::Mark::kDisagrees: return "disagrees";
    case Stretch::Mark::kFell: return "fell";
    case Stretch::Mark::kCleared: return "cleared";
  }
  return {};
}

void segments_picture(Page& page, const Story& story) {
  std::string words;
  for (const Stretch& stretch : story.stretches)
    words +=
        fmt::format("{}{}: {}", words.empty() ? "" : "; ", words_of_range(stretch), words_of(stretch.mark));
  constexpr std::size_t kMostWords = 600;
  if (words.size() > kMostWords) words = "See the table below.";
  const std::string title = fmt::format("The {} segments of the training, in order", grouped(story.segments));
  open_picture(page, "segments", kStripHeight, title, words);
  const double unit = kWidth / static_cast<double>(std::max<std::int64_t>(1, story.segments));
  for (const Stretch& stretch : story.stretches) {
    const double x = unit * static_cast<double>(stretch.first);
    const double width = std::max(2.0, unit * static_cast<double>(stretch.end - stretch.first));
    page.element("rect", "",
                 {{"class", "segment " + class_of(stretch.mark)},
                  {"x", px(x)},
                  {"y", "4"},
                  {"width", px(width)},
                  {"height", px(kStripHeight - 8)}});
  }
  close_picture(page, title + ", from left to right.");
  table(page, table_of(story.stretches));
}

// Disputes.

/// The way down as bars: each is as long as the logarithm of what is still in question, so that they shrink
/// from all of the task's numbers to one.
void funnel(Page& page, const std::vector<Level>& levels) {
  double all = 0;
  for (const Level& level : levels)
    all += std::log(static_cast<double>(std::max<std::int64_t>(1, level.among)));
  double left = all;
  page.open("ol", {{"class", "funnel"}});
  for (const Level& level : levels) {
    const double percent = all > 0 ? 100 * left / all : 100;
    left -= std::log(static_cast<double>(std::max<std::int64_t>(1, level.among)));
    page.open("li");
    page.element("span", "",
                 {{"class", "bar"}, {"style", fmt::format("width:{:.1f}%", std::max(1.0, percent))}});
    page.element("span", level.of + " › ", {{"class", "muted"}});
    page.element("span", level.picked, {{"class", "picked"}});
    page.open("div", {{"class", "muted"}});
    page.text(level.agreed);
    page.close();
    page.close();
  }
  page.close();
}

std::string class_of(DisputeStory::Ending ending) {
  switch (ending) {
    case DisputeStory::Ending::kOpen: return "warn";
    case DisputeStory::Ending::kFalls: return "bad";
    case DisputeStory::Ending::kStands: return "good";
  }
  return {};
}

/// One dispute as a section: its end comes before the way to it, for those who read no further.
void dispute(Page& page, const DisputeStory& story) {
  page.open("section");
  page.element("h2", sentence_case(story.heading));
  paragraphs(page, story.claims);
  std::string end;
  for (const std::string& sentence : story.end) end += (end.empty() ? "" : " ") + sentence;
  page.element("p", end, {{"class", "verdict " + class_of(story.ending)}});
  if (!story.funnel.empty()) {
    page.element("h3", "Where they first disagree");
    funnel(page, story.funnel);
  }
  if (story.operation) {
    page.element("h3", "The operation");
    page.element("p", fmt::format("{} = {}", story.operation->what, story.operation->formula),
                 {{"class", "formula"}});
    table(page, table_of(*story.operation));
    if (!story.operation->why.empty()) page.element("p", story.operation->why);
  }
  if (!story.moves.empty()) {
    page.element("h3", "The moves");
    table(page, table_of(story.moves));
  }
  page.element("h3", "Whole ids of this dispute");
  table(page, table_of("For those who look things up", story.ids));
  page.close();
}

// The rest.

void section(Page& page, const std::string& title, bool given, const auto& body) {
  if (!given) return;
  page.open("section");
  page.element("h2", title);
  body();
  page.close();
}

void checks(Page& page, const std::vector<Check>& list) {
  for (const Check& check : list) {
    page.element("p", check.what);
    page.open("pre");
    page.element("code", check.command);
    page.close();
  }
}

void head(Page& page, const std::string& title) {
  page.open("head");
  page.empty("meta", {{"charset", "utf-8"}});
  page.empty("meta", {{"name", "viewport"}, {"content", "width=device-width, initial-scale=1"}});
  // Nothing on this page needs a script, a picture or a network; a browser is told to allow none.
  page.empty(
      "meta",
      {{"http-equiv", "Content-Security-Policy"},
       {"content", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"}});
  page.element("title", title);
  page.style(kPageStyle);
  page.close();
}

}  // namespace

std::string print_page(const Story& story) {
  Page page;
  page.open("html", {{"lang", "en"}});
  head(page, story.title);
  page.open("body");
  page.open("main");
  page.element("h1", story.title);
  paragraphs(page, story.summary, "lead");
  section(page, "How this works", !story.explanation.empty(), [&] { paragraphs(page, story.explanation); });
  section(page, "Who", !story.parties.empty(), [&] { table(page, table_of(story.parties)); });
  section(page, "What was bought", !story.bought.empty(),
          [&] { table(page, table_of("The task as it was signed", story.bought)); });
  section(page, "Training", !story.curves.empty(), [&] { curves_picture(page, story.curves); });
  section(page, "What was replayed", !story.stretches.empty(), [&] { segments_picture(page, story); });
  for (const DisputeStory& one : story.disputes) dispute(page, one);
  section(page, "Money", !story.accounts.empty(), [&] { table(page, table_of(story.accounts)); });
  section(page, "When", !story.events.empty(), [&] { table(page, table_of(story.events)); });
  section(page, "Check it yourself", !story.checks.empty(), [&] { checks(page, story.checks); });
  section(page, "What this page leaves out", !story.left_out.empty(),
          [&] { paragraphs(page, story.left_out); });
  section(page, "Whole ids", !story.ids.empty(),
          [&] { table(page, table_of("For those who look things up", story.ids)); });
  page.close();
  page.close();
  page.close();
  return std::move(page).finish();
}

}  // namespace dgx::jobs
