#include "progress_bar.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "text_form.h"

namespace dgx::cli {
namespace {

constexpr auto kRedrawInterval = std::chrono::milliseconds(100);
constexpr auto kLineInterval = std::chrono::seconds(30);
constexpr int kBarWidth = 20;

int terminal_columns() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

void put(std::string_view text) {
  // A terminal that has gone away is no reason to stop the work.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
}

std::string clock_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::min(seconds, 3.6e8));
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

/// Rate and remaining time, each with `between` before it; nothing if the rate is not known.
std::string pace_text(std::int64_t left, double rate, std::string_view between) {
  if (rate <= 0) return {};
  const std::string speed = rate >= 10 ? fmt::format("{:.0f}/s", rate) : fmt::format("{:.2f}/s", rate);
  const double seconds = static_cast<double>(std::max<std::int64_t>(left, 0)) / rate;
  return fmt::format("{0}{1}{0}{2} left", between, speed, clock_text(seconds));
}

double share_of(std::int64_t done, std::int64_t total) {
  return total > 0 ? std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0) : 0;
}

}  // namespace

std::string progress_line(std::string_view label, std::int64_t done, std::int64_t total, double rate,
                          std::string_view note, int columns) {
  const double share = share_of(done, total);
  const int filled = static_cast<int>(share * kBarWidth);
  std::string line =
      fmt::format("{}  [{:#<{}}{:.<{}}] {:3} %  {}/{}", label, "", filled, "", kBarWidth - filled,
                  static_cast<int>(share * 100), grouped(done), grouped(total));
  line += pace_text(total - done, rate, "  ");
  if (!note.empty()) line += fmt::format("  {}", note);
  return line.substr(0, static_cast<std::size_t>(std::max(columns - 1, 1)));
}

std::string progress_words(std::string_view label, std::int64_t done, std::int64_t total, double rate,
                           std::string_view note) {
  std::string words = fmt::format("{}: {} of {} ({} %)", label, grouped(done), grouped(total),
                                  static_cast<int>(share_of(done, total) * 100));
  words += pace_text(total - done, rate, ", ");
  if (!note.empty()) words += fmt::format(", {}", note);
  return words;
}

ProgressBar::ProgressBar(Form form, RequestFlag& where, Talk say, Talk note, Talk warning)
    : form_(form),
      where_(where),
      say_(std::move(say)),
      note_(std::move(note)),
      warning_(std::move(warning)) {}

void ProgressBar::start(std::string_view label, std::int64_t total) {
  finish();
  label_ = printable(label);
  total_ = total;
  first_done_ = -1;
  began_ = Clock::now();
  drew_ = form_ == Form::kBar ? began_ - kRedrawInterval : began_;
}

void ProgressBar::update(std::int64_t done, std::string_view note) {
  if (label_.empty()) return;
  const Clock::time_point now = Clock::now();
  if (first_done_ < 0) first_done_ = done, began_ = now;
  done_ = done;
  const bool asked = where_.take();
  if (asked || (form_ == Form::kLines && now - drew_ >= kLineInterval)) {
    erase();
    say_(progress_words(label_, done_, total_, rate(now), note));
    drew_ = now;
  }
  if (form_ == Form::kBar && (asked || now - drew_ >= kRedrawInterval)) draw(note, now);
}

double ProgressBar::rate(Clock::time_point now) const {
  const double seconds = std::chrono::duration<double>(now - began_).count();
  return seconds > 0.5 ? static_cast<double>(done_ - first_done_) / seconds : 0;
}

void ProgressBar::draw(std::string_view note, Clock::time_point now) {
  put("\r\x1b[K" + progress_line(label_, done_, total_, rate(now), printable(note), terminal_columns()));
  drawn_ = true;
  drew_ = now;
}

void ProgressBar::erase() {
  if (drawn_) put("\r\x1b[K");
  drawn_ = false;
}

void ProgressBar::finish() {
  erase();
  label_.clear();
}

void ProgressBar::note(std::string_view text) {
  erase();
  note_(text);
}

void ProgressBar::warning(std::string_view text) {
  erase();
  warning_(text);
}

}  // namespace dgx::cli
