#include "progress_bar.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "text_form.h"

namespace dgx::cli {
namespace {

constexpr auto kRedrawInterval = std::chrono::milliseconds(100);
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

}  // namespace

std::string progress_line(std::string_view label, std::int64_t done, std::int64_t total, double rate,
                          std::string_view note, int columns) {
  const double share =
      total > 0 ? std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0) : 0;
  const int filled = static_cast<int>(share * kBarWidth);
  std::string line =
      fmt::format("{}  [{:#<{}}{:.<{}}] {:3} %  {}/{}", label, "", filled, "", kBarWidth - filled,
                  static_cast<int>(share * 100), grouped(done), grouped(total));
  if (rate > 0) {
    line += rate >= 10 ? fmt::format("  {:.0f}/s", rate) : fmt::format("  {:.2f}/s", rate);
    line += fmt::format("  {} left",
                        clock_text(static_cast<double>(std::max<std::int64_t>(total - done, 0)) / rate));
  }
  if (!note.empty()) line += fmt::format("  {}", note);
  return line.substr(0, static_cast<std::size_t>(std::max(columns - 1, 1)));
}

ProgressBar::ProgressBar(bool visible, Talk note, Talk warning)
    : visible_(visible), note_(std::move(note)), warning_(std::move(warning)) {}

void ProgressBar::start(std::string_view label, std::int64_t total) {
  finish();
  label_ = printable(label);
  total_ = total;
  first_done_ = -1;
  began_ = Clock::now();
  drew_ = began_ - kRedrawInterval;
}

void ProgressBar::update(std::int64_t done, std::string_view note) {
  if (!visible_ || label_.empty()) return;
  const Clock::time_point now = Clock::now();
  if (first_done_ < 0) first_done_ = done, began_ = now;
  done_ = done;
  if (now - drew_ >= kRedrawInterval) draw(note, now);
}

void ProgressBar::draw(std::string_view note, Clock::time_point now) {
  const double seconds = std::chrono::duration<double>(now - began_).count();
  const double rate = seconds > 0.5 ? static_cast<double>(done_ - first_done_) / seconds : 0;
  put("\r\x1b[K" + progress_line(label_, done_, total_, rate, printable(note), terminal_columns()));
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
