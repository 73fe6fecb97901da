// Progress: what a run shows while it trains, as Keras does (keras/src/utils/progbar.py).
//
// On a terminal a bar of 20 cells that is redrawn in place, at most every 0.05 s, with the time
// that is left, and at the end of the epoch with the time it took:
//
//     Epoch 1/3
//     101/250 ━━━━━━━━━━━━━━━━━━━━ 1s 8ms/step - accuracy: 0.8612 - loss: 0.4890 - 7991 samples/s
//
// It never takes more than a line of the terminal, however wide that is by now: first cells go,
// then letters of long names, then what stands last. The finished one has everything, on further
// lines if need be.
//
// In a file one line an epoch, and one every half minute meanwhile:
//
//     250/250 - 2s - 8ms/step - accuracy: 0.9127 - loss: 0.3071 - val_loss: 0.2219 - 7991 samples/s
//
// The time a step and the samples a second are those of training alone, without the first step,
// which costs more than the others, and without validation. Only the root shows anything.
#pragma once

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>

#include "runtime/train/callbacks/callback.h"
#include "runtime/train/reporting/verbosity.h"

namespace meshwork {

struct ProgressStyle {
  Verbosity verbosity = Verbosity::lines;  // not automatic
  bool colours = false;
  bool escapes = false;          // the cursor can be moved
  std::function<int()> width{};  // columns of the terminal, now; 0, or null: not known
};

/// The style for what is written to `descriptor` (1 is standard output).
[[nodiscard]] ProgressStyle progress_style(Verbosity verbosity, int descriptor);

/// Seconds of a clock that only goes forward.
using SecondsClock = std::function<double()>;
[[nodiscard]] SecondsClock steady_clock();

/// "0.3071", "9.8765e-04" where the magnitude is at most 1e-3.
[[nodiscard]] std::string format_value(double value);
/// "2s/step", "8ms/step", "153us/step".
[[nodiscard]] std::string format_step_time(double seconds);
/// "1:02:03", "2:03", "59s".
[[nodiscard]] std::string format_remaining(double seconds);

/// The bar, or line, of one pass over some batches. One thread, one pass at a time.
class ProgressDisplay {
 public:
  ProgressDisplay(std::ostream& out, const ProgressStyle& style,
                  SecondsClock clock = steady_clock());

  /// Begins a pass of `steps` batches, of which `done`, with `samples` samples, are done already.
  void begin(std::int64_t steps, std::int64_t done = 0, std::int64_t samples = 0);
  /// `step` batches with `samples` samples are done.
  void update(std::int64_t step, std::int64_t samples, const Logs& logs);
  /// The two halves of it, for who has no logs at hand: whether it is time to draw, and drawing.
  [[nodiscard]] bool advance(std::int64_t step, std::int64_t samples);
  void redraw(const Logs& logs);
  /// Ends the pass and its line.
  void finish(const Logs& logs);
  /// Writes a line of its own, above the bar if there is one.
  void say(const std::string& line);
  /// Takes the bar away, for somebody else to write; it comes again with the next update.
  void make_room() { erase(); }
  /// In a file: `batch` of `batches` of a validation are done.
  void validated(std::int64_t batch, std::int64_t batches);

 private:
  [[nodiscard]] double step_seconds() const;
  [[nodiscard]] double samples_per_second() const;
  [[nodiscard]] std::string count() const;
  void draw(const Logs& logs, bool finished);
  void write_line(const Logs& logs);
  void pad(std::int64_t columns);
  void erase();
  [[nodiscard]] int width() const { return style_.width ? style_.width() : 0; }
  /// To where the bar on the screen begins, and away with it, if the terminal has become narrower
  /// than it.
  void wipe_wrapped();

  struct Mark {
    double seconds = 0;
    std::int64_t step = 0;
    std::int64_t samples = 0;
  };
  [[nodiscard]] const Mark& warm() const;

  std::ostream* out_;
  ProgressStyle style_;
  SecondsClock clock_;
  std::int64_t steps_ = 0;
  Mark start_, first_, last_;  // the beginning, after the first step, after the last one so far
  double drawn_ = 0;           // when the bar or a line was last written
  bool anything_drawn_ = false;
  std::int64_t drawn_width_ = 0;  // columns of the bar on the screen
};

/// The callback that shows a training run. Runs after the user's callbacks and the history. `out`
/// must outlive it.
class Progress final : public Callback {
 public:
  Progress(std::ostream& out, const ProgressStyle& style, SecondsClock clock = steady_clock());

  std::string class_name() const override { return "Progress"; }
  void on_epoch_begin(Training& training) override;
  void on_train_batch_end(Training& training) override;
  void on_epoch_end(Training& training) override;
  void on_test_batch_end(Training& training) override;
  void on_evaluated(Training& training, const Evaluated& evaluated) override;
  /// For Training::say; to be called on the root only.
  void say(const std::string& line) { display_.say(line); }
  void make_room() { display_.make_room(); }

 private:
  ProgressStyle style_;
  std::ostream* out_;
  ProgressDisplay display_;
};

}  // namespace meshwork
