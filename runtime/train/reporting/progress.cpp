#include "runtime/train/reporting/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/hosted.h"
#include "collectives/printable.h"
#include "runtime/config/text_table.h"
#include "runtime/train/reporting/terminal.h"

namespace meshwork {
namespace {

constexpr std::int64_t most_cells = 20;
constexpr std::int64_t least_cells = 5;
constexpr double redraw_seconds = 0.05;
constexpr double line_seconds = 30;

constexpr std::string_view bold = "\x1b[1m";
constexpr std::string_view green = "\x1b[32m";
constexpr std::string_view white = "\x1b[37m";
constexpr std::string_view plain = "\x1b[0m";

// Text that knows how many columns it takes, which colours and UTF-8 do not tell.
class Line {
 public:
  explicit Line(bool colours) : colours_(colours) {}

  void add(std::string_view ascii) {
    text_ += ascii;
    columns_ += static_cast<std::int64_t>(ascii.size());
  }
  void add(std::string_view colour, std::string_view ascii) {
    begin_colour(colour);
    add(ascii);
    end_colour();
  }
  void add_cells(std::string_view colour, std::string_view cell, std::int64_t count) {
    if (count == 0) {
      return;
    }
    begin_colour(colour);
    for (std::int64_t i = 0; i < count; ++i) {
      text_ += cell;
    }
    columns_ += count;
    end_colour();
  }

  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] std::int64_t columns() const { return columns_; }

 private:
  void begin_colour(std::string_view colour) { text_ += colours_ ? colour : ""; }
  void end_colour() { text_ += colours_ ? plain : ""; }

  bool colours_;
  std::string text_;
  std::int64_t columns_ = 0;
};

// " - name: value" each, names of more than `longest` columns without their middle.
std::vector<std::string> entries(const Logs& logs, double samples_per_second,
                                 std::size_t longest = std::string::npos) {
  std::vector<std::string> entries;
  for (const auto& [name, value] : logs.in_display_order()) {
    const bool cut = name.size() > longest;
    const std::size_t head = cut ? longest / 2 : name.size();
    const std::size_t tail = cut ? longest - head - 1 : 0;
    entries.push_back(fmt::format(" - {}{}{}: {}", name.substr(0, head), cut ? "~" : "",
                                  name.substr(name.size() - tail), format_value(value)));
  }
  // Two significant digits below ten: a large model sees less than one sample a second.
  entries.push_back(samples_per_second < 10
                        ? fmt::format(" - {:.2g} samples/s", samples_per_second)
                        : fmt::format(" - {:.0f} samples/s", samples_per_second));
  return entries;
}

std::int64_t columns_of(const std::vector<std::string>& entries) {
  std::int64_t columns = 0;
  for (const std::string& entry : entries) columns += static_cast<std::int64_t>(entry.size());
  return columns;
}

// As much of the logs as `columns` have room for.
std::vector<std::string> fitting_entries(const Logs& logs, double samples_per_second,
                                         std::int64_t columns) {
  constexpr std::size_t longest_name = 40;
  constexpr std::size_t shortest_name = 8;
  constexpr std::size_t telling_name = 16;  // shorter ones may look alike
  std::vector<std::string> all;
  for (std::size_t length = longest_name; length >= telling_name; --length) {
    all = entries(logs, samples_per_second, length);
    if (columns_of(all) <= columns) return all;
  }
  for (std::size_t length = longest_name; length >= shortest_name; --length) {
    all = entries(logs, samples_per_second, length);
    all.pop_back();  // the samples a second
    if (columns_of(all) <= columns) return all;
  }
  while (!all.empty() && columns_of(all) > columns) all.pop_back();
  return all;
}

}  // namespace

ProgressStyle progress_style(Verbosity verbosity, int descriptor) {
  ProgressStyle style;
  const bool terminal = ends_at_terminal(descriptor);
  const Hosted* const hosted = Hosted::current();
  style.verbosity = verbosity != Verbosity::automatic ? verbosity
                    : hosted && !hosted->prints()     ? Verbosity::silent
                    : terminal                        ? Verbosity::bar
                                                      : Verbosity::lines;
  if (terminal) {
    style.escapes = takes_escapes(descriptor);
    style.colours = shows_colours(descriptor);
    style.width = [descriptor] { return terminal_width(descriptor); };
  }
  return style;
}

SecondsClock steady_clock() {
  return [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
}

std::string format_value(double value) {
  return std::abs(value) > 1e-3 ? fmt::format("{:.4f}", value) : fmt::format("{:.4e}", value);
}

std::string format_step_time(double seconds) {
  if (seconds >= 1 || seconds == 0) {
    return fmt::format("{:.0f}s/step", seconds);
  }
  if (seconds >= 1e-3) {
    return fmt::format("{:.0f}ms/step", seconds * 1e3);
  }
  return fmt::format("{:.0f}us/step", seconds * 1e6);
}

std::string format_remaining(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds);
  if (seconds > 3600) {
    return fmt::format("{}:{:02}:{:02}", whole / 3600, whole % 3600 / 60, whole % 60);
  }
  if (seconds > 60) {
    return fmt::format("{}:{:02}", whole / 60, whole % 60);
  }
  return fmt::format("{}s", whole);
}

ProgressDisplay::ProgressDisplay(std::ostream& out, const ProgressStyle& style, SecondsClock clock)
    : out_(&out), style_(style), clock_(std::move(clock)) {}

void ProgressDisplay::begin(std::int64_t steps, std::int64_t done, std::int64_t samples) {
  steps_ = steps;
  start_ = {clock_(), done, samples};
  first_ = last_ = start_;
  drawn_ = start_.seconds;
  anything_drawn_ = false;
  drawn_width_ = 0;
}

void ProgressDisplay::update(std::int64_t step, std::int64_t samples, const Logs& logs) {
  if (advance(step, samples)) {
    redraw(logs);
  }
}

bool ProgressDisplay::advance(std::int64_t step, std::int64_t samples) {
  last_ = {clock_(), step, samples};
  if (step == start_.step + 1) {
    first_ = last_;
  }
  if (style_.verbosity == Verbosity::lines) {
    return step < steps_ && last_.seconds - drawn_ >= line_seconds;
  }
  return style_.verbosity == Verbosity::bar &&
         !(anything_drawn_ && last_.seconds - drawn_ < redraw_seconds);
}

void ProgressDisplay::redraw(const Logs& logs) {
  if (style_.verbosity == Verbosity::lines) {
    write_line(logs);
  } else {
    draw(logs, false);
  }
}

void ProgressDisplay::finish(const Logs& logs) {
  if (style_.verbosity == Verbosity::bar) {
    draw(logs, true);
  } else if (style_.verbosity == Verbosity::lines) {
    write_line(logs);
  }
}

void ProgressDisplay::write_line(const Logs& logs) {
  drawn_ = clock_();
  *out_ << fmt::format("{} - {:.0f}s - {}", count(), drawn_ - start_.seconds,
                       format_step_time(step_seconds()));
  for (const std::string& entry : entries(logs, samples_per_second())) {
    *out_ << entry;
  }
  *out_ << std::endl;
}

void ProgressDisplay::validated(std::int64_t batch, std::int64_t batches) {
  const double now = clock_();
  if (style_.verbosity == Verbosity::lines && batch < batches && now - drawn_ >= line_seconds) {
    *out_ << fmt::format("validation: {}/{}", batch, batches) << std::endl;
    drawn_ = now;
  }
}

void ProgressDisplay::say(const std::string& line) {
  erase();
  const std::string text = wrapped(printable(line), text_width(STDOUT_FILENO));
  *out_ << (style_.colours ? coloured_message(text, STDOUT_FILENO) : text) << std::endl;
}

// From where times count: after the first step, or the beginning where there was no other.
const ProgressDisplay::Mark& ProgressDisplay::warm() const {
  return last_.step > first_.step ? first_ : start_;
}

double ProgressDisplay::step_seconds() const {
  const std::int64_t steps = last_.step - warm().step;
  return steps > 0 ? (last_.seconds - warm().seconds) / static_cast<double>(steps) : 0;
}

double ProgressDisplay::samples_per_second() const {
  const double seconds = last_.seconds - warm().seconds;
  return seconds > 0 ? static_cast<double>(last_.samples - warm().samples) / seconds : 0;
}

// Right-aligned to the digits of the total: " 57/250".
std::string ProgressDisplay::count() const {
  const std::string total = std::to_string(steps_);
  return fmt::format("{:>{}}/{}", last_.step, total.size(), total);
}

void ProgressDisplay::draw(const Logs& logs, bool finished) {
  const double now = clock_();
  Line line(style_.colours);
  line.add(bold, count());
  const std::string time =
      finished ? fmt::format("{:.0f}s", now - start_.seconds)
               : format_remaining(step_seconds() * static_cast<double>(steps_ - last_.step));
  const std::string step_time = format_step_time(step_seconds());
  // The last column stays free: a cursor behind it is on the next line already on some terminals.
  const std::int64_t room = width() > 0 ? width() - 1 : std::numeric_limits<std::int64_t>::max();
  const std::int64_t others =
      line.columns() + static_cast<std::int64_t>(time.size() + step_time.size()) + 3;
  const std::vector<std::string> said =
      finished || width() == 0
          ? entries(logs, samples_per_second())
          : fitting_entries(logs, samples_per_second(), room - others - least_cells);
  const std::int64_t cells =
      std::clamp(room - others - (finished ? 0 : columns_of(said)), std::int64_t{0}, most_cells);
  line.add(" ");
  const std::int64_t done = steps_ > 0 ? cells * last_.step / steps_ : cells;
  line.add_cells(green, "━", done);
  line.add_cells(white, style_.colours ? "━" : "─", cells - done);
  line.add(" ");
  line.add(bold, time);
  line.add(" ");
  line.add(step_time);
  wipe_wrapped();
  *out_ << '\r' << line.text();
  std::int64_t columns = line.columns();
  for (const std::string& entry : said) {
    const auto size = static_cast<std::int64_t>(entry.size());
    if (columns + size > room && finished) {
      pad(columns);
      *out_ << '\n' << std::string(count().size() + 1, ' ') << entry.substr(3);
      columns = static_cast<std::int64_t>(count().size()) + 1 + size - 3;
      continue;
    }
    *out_ << entry;
    columns += size;
  }
  pad(columns);
  if (finished) {
    *out_ << '\n';
  }
  *out_ << std::flush;
  drawn_ = now;
  anything_drawn_ = !finished;
  drawn_width_ = finished ? 0 : columns;
}

// Covers what is left of the bar before, which was longer than `columns`.
void ProgressDisplay::pad(std::int64_t columns) {
  if (columns < drawn_width_) {
    *out_ << std::string(static_cast<std::size_t>(drawn_width_ - columns), ' ');
  }
  drawn_width_ = 0;
}

void ProgressDisplay::wipe_wrapped() {
  const std::int64_t columns = width();
  if (columns > 0 && drawn_width_ > columns && style_.escapes) {
    *out_ << fmt::format("\x1b[{}A\r\x1b[J", (drawn_width_ - 1) / columns);
    drawn_width_ = 0;
  }
}

void ProgressDisplay::erase() {
  wipe_wrapped();
  if (drawn_width_ > 0) {
    *out_ << '\r' << std::string(static_cast<std::size_t>(drawn_width_), ' ') << '\r';
  }
  if (anything_drawn_) {
    *out_ << std::flush;
  }
  drawn_width_ = 0;
  anything_drawn_ = false;  // so that the next update draws it again
}

Progress::Progress(std::ostream& out, const ProgressStyle& style, SecondsClock clock)
    : style_(style), out_(&out), display_(out, style, std::move(clock)) {}

void Progress::on_epoch_begin(Training& training) {
  if (!training.is_root() || style_.verbosity == Verbosity::silent) {
    return;
  }
  const TrainingPosition& at = training.position();
  if (at.epochs > 1) {
    *out_ << fmt::format("Epoch {}/{}", at.epoch + 1, at.epochs) << std::endl;
  }
  display_.begin(at.batches, at.batch, at.samples);
}

void Progress::on_train_batch_end(Training& training) {
  if (training.is_root()) {
    const TrainingPosition& at = training.position();
    // To ask for the logs is to wait for the device.
    if (display_.advance(at.batch + 1, at.samples)) {
      display_.redraw(training.logs());
    }
  }
}

void Progress::on_test_batch_end(Training& training) {
  if (training.is_root()) {
    display_.validated(training.position().batch + 1, training.position().batches);
  }
}

void Progress::on_epoch_end(Training& training) {
  if (training.is_root()) {
    display_.finish(training.logs());
  }
}

void Progress::on_evaluated(Training& training, const Evaluated& evaluated) {
  if (!training.is_root() || style_.verbosity == Verbosity::silent) return;
  std::string line =
      fmt::format("epoch {}/{} evaluated", evaluated.at.epoch + 1, evaluated.at.epochs);
  for (const auto& [name, value] : evaluated.logs.in_display_order()) {
    line += fmt::format(" - {}: {}", name, format_value(value));
  }
  say(line);
}

}  // namespace meshwork
