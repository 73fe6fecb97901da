// Progress: every character that is shown, on a clock that the test sets.
#include "runtime/train/reporting/progress.h"

#include <sstream>

#include "tests/runtime/train/scripted_training.h"
#include "tests/support/catch.h"

namespace meshwork::progress_test {

using namespace meshwork::test;

namespace {

// A display with a clock that stands until it is moved.
struct Screen {
  std::ostringstream out;
  double now = 100;

  ProgressDisplay display(const ProgressStyle& style) {
    return ProgressDisplay(out, style, [this] { return now; });
  }
  // What was written since the last time.
  std::string take() {
    std::string text = out.str();
    out.str("");
    return text;
  }
};

const Logs training_logs{{"loss", 0.30712}, {"accuracy", 0.91266}};
const Logs epoch_logs{{"loss", 0.30712}, {"accuracy", 0.91266}, {"val_loss", 0.22193}};

const ProgressStyle plain_bar{.verbosity = Verbosity::bar};

std::string cells(int done) {
  std::string text;
  for (int i = 0; i < 20; ++i) text += i < done ? "━" : "─";
  return text;
}

}  // namespace

TEST_CASE("values have four digits, and an exponent where they are small") {
  CHECK(format_value(0.30712) == "0.3071");
  CHECK(format_value(12345.678) == "12345.6780");
  CHECK(format_value(0.0010001) == "0.0010");
  CHECK(format_value(0.001) == "1.0000e-03");
  CHECK(format_value(0) == "0.0000e+00");
  CHECK(format_value(-0.5) == "-0.5000");
  CHECK(format_value(-0.0005) == "-5.0000e-04");
  CHECK(format_value(std::nan("")) == "nan");
  CHECK(format_value(-INFINITY) == "-inf");
}

TEST_CASE("times a step are in seconds, milliseconds or microseconds") {
  CHECK(format_step_time(2.4) == "2s/step");
  CHECK(format_step_time(1) == "1s/step");
  CHECK(format_step_time(0.0084) == "8ms/step");
  CHECK(format_step_time(0.001) == "1ms/step");
  CHECK(format_step_time(0.000153) == "153us/step");
  CHECK(format_step_time(0) == "0s/step");
}

TEST_CASE("remaining times have hours and minutes where they need them") {
  CHECK(format_remaining(59.9) == "59s");
  CHECK(format_remaining(60) == "60s");
  CHECK(format_remaining(123) == "2:03");
  CHECK(format_remaining(3600) == "60:00");
  CHECK(format_remaining(3723) == "1:02:03");
  CHECK(format_remaining(0) == "0s");
}

TEST_CASE("in a file an epoch is one line") {
  Screen screen;
  ProgressDisplay display = screen.display({.verbosity = Verbosity::lines});
  display.begin(250);
  // The first step takes 0.1 s, the other 249 take 8 ms each; then validation takes 0.4 s.
  for (int step = 1; step <= 250; ++step) {
    screen.now += step == 1 ? 0.1 : 0.008;
    display.update(step, step * 64, training_logs);
  }
  CHECK(screen.take().empty());
  screen.now += 0.4;
  display.finish(epoch_logs);
  CHECK(screen.take() ==
        "250/250 - 2s - 8ms/step - accuracy: 0.9127 - loss: 0.3071 - val_loss: 0.2219 - "
        "8000 samples/s\n");
}

TEST_CASE("values of training stand before those of validation, the learning rate last") {
  Screen screen;
  ProgressDisplay display = screen.display({.verbosity = Verbosity::lines});
  display.begin(1);
  screen.now += 0.5;
  display.update(1, 100, {});
  display.finish({{"val_b", 1}, {"learning_rate", 1e-3}, {"loss", 2}, {"val_a", 3}, {"zeal", 4}});
  CHECK(screen.take() ==
        "1/1 - 0s - 500ms/step - loss: 2.0000 - zeal: 4.0000 - val_a: 3.0000 - val_b: 1.0000 - "
        "learning_rate: 1.0000e-03 - 200 samples/s\n");
}

TEST_CASE("an epoch that was stopped shows the steps that it had, right-aligned") {
  Screen screen;
  ProgressDisplay display = screen.display({.verbosity = Verbosity::lines});
  display.begin(100);
  screen.now += 1;
  display.update(1, 10, {});
  screen.now += 3;
  display.update(3, 30, {});
  display.finish({{"loss", 1}});
  // Two steps of 1.5 s after the first, with 10 samples each.
  CHECK(screen.take() == "  3/100 - 4s - 2s/step - loss: 1.0000 - 6.7 samples/s\n");
}

TEST_CASE("a pass that begins in the middle counts from there") {
  Screen screen;
  ProgressDisplay display = screen.display({.verbosity = Verbosity::lines});
  display.begin(4, 2, 20);
  screen.now += 1;
  display.update(3, 30, {});
  screen.now += 0.5;
  display.update(4, 40, {});
  display.finish({{"loss", 1}});
  CHECK(screen.take() == "4/4 - 2s - 500ms/step - loss: 1.0000 - 20 samples/s\n");
}

TEST_CASE("the bar is drawn over, with the time that is left, and keeps the time it took") {
  Screen screen;
  ProgressDisplay display = screen.display(plain_bar);
  display.begin(10);
  CHECK(screen.take().empty());
  screen.now += 1;
  display.update(1, 8, {{"loss", 10}});
  CHECK(screen.take() == "\r 1/10 " + cells(2) + " 9s 1s/step - loss: 10.0000 - 8 samples/s");
  screen.now += 0.5;
  display.update(5, 40, {{"loss", 1}});
  CHECK(screen.take() == "\r 5/10 " + cells(10) + " 0s 125ms/step - loss: 1.0000 - 64 samples/s");
  screen.now += 0.5;
  display.update(10, 80, {{"loss", 1}});
  (void)screen.take();
  screen.now += 2;
  display.finish({{"loss", 1}, {"val_loss", 2}});
  CHECK(screen.take() == "\r10/10 " + cells(20) +
                             " 4s 111ms/step - loss: 1.0000 - val_loss: 2.0000 - 72 samples/s\n");
}

TEST_CASE("a shorter line covers the rest of the longer one before") {
  Screen screen;
  ProgressDisplay display = screen.display(plain_bar);
  display.begin(2);
  screen.now += 1;
  display.update(1, 1, {{"loss", 1000}});
  (void)screen.take();
  screen.now += 1;
  display.update(2, 2, {{"loss", 1}});
  CHECK(screen.take() == "\r2/2 " + cells(20) + " 0s 1s/step - loss: 1.0000 - 1 samples/s   ");
}

TEST_CASE("the bar is redrawn every 0.05 s at most, and at the end in any case") {
  Screen screen;
  ProgressDisplay display = screen.display(plain_bar);
  display.begin(1000);
  int drawings = 0;
  for (int step = 1; step <= 1000; ++step) {
    screen.now += 0.001;
    display.update(step, step, {});
    drawings += screen.take().empty() ? 0 : 1;
  }
  // 1 s in steps of 1 ms: the first, and then one every 50 ms, or 51 where rounding falls short.
  CHECK(drawings >= 19);
  CHECK(drawings <= 20);
  display.finish({});
  CHECK_FALSE(screen.take().empty());
}

TEST_CASE("colours stand around count, cells and time, and take no columns") {
  Screen screen;
  ProgressDisplay display = screen.display({.verbosity = Verbosity::bar, .colours = true});
  display.begin(2);
  screen.now += 1;
  display.update(1, 1, {});
  CHECK(screen.take() ==
        "\r\x1b[1m1/2\x1b[0m \x1b[32m━━━━━━━━━━\x1b[0m\x1b[37m━━━━━━━━━━\x1b[0m "
        "\x1b[1m1s\x1b[0m 1s/step - 1 samples/s");
  screen.now += 1;
  display.update(2, 2, {});
  CHECK(screen.take() ==
        "\r\x1b[1m2/2\x1b[0m \x1b[32m━━━━━━━━━━━━━━━━━━━━\x1b[0m "
        "\x1b[1m0s\x1b[0m 1s/step - 1 samples/s");
}

// A terminal of this many columns.
static ProgressStyle narrow(int columns) {
  return {.verbosity = Verbosity::bar, .escapes = true, .width = [columns] { return columns; }};
}

TEST_CASE("values that a narrow terminal has no room for stand on the last lines") {
  Screen screen;
  ProgressDisplay display = screen.display(narrow(55));
  display.begin(10);
  screen.now += 1;
  display.update(5, 5, {{"a", 1}, {"b", 2}, {"c", 3}});
  // 5 + 2 + 10 + 3 = 20 columns, 24 for a and b, and the other 10 of 54 for the bar.
  CHECK(screen.take() == "\r 5/10 ━━━━━───── 1s 200ms/step - a: 1.0000 - b: 2.0000");
  display.finish({{"a", 1}, {"b", 2}});
  CHECK(screen.take() == "\r 5/10 " + cells(10) +
                             " 1s 200ms/step - a: 1.0000  \n"
                             "      b: 2.0000 - 5 samples/s\n");
}

TEST_CASE("long names lose their middle before they vanish, and are whole at the end") {
  Screen screen;
  ProgressDisplay display = screen.display(narrow(70));
  display.begin(10);
  screen.now += 1;
  const Logs logs{{"loss", 1}, {"sparse_categorical_accuracy", 0.5}};
  display.update(5, 5, logs);
  const std::string drawn = screen.take();
  CHECK(drawn == "\r 5/10 ━━─── 1s 200ms/step - loss: 1.0000 - sparse_ca~accuracy: 0.5000");
  display.finish(logs);
  CHECK(screen.take().find("- loss: 1.0000") != std::string::npos);
}

TEST_CASE("a bar on a terminal that has become narrower is taken away with all its lines") {
  Screen screen;
  int columns = 80;
  ProgressDisplay display = screen.display(
      {.verbosity = Verbosity::bar, .escapes = true, .width = [&] { return columns; }});
  display.begin(10);
  screen.now += 1;
  display.update(5, 5, {{"a", 1}, {"b", 2}});
  (void)screen.take();  // 20 + 20 + 24 + 14 = 78 columns, on three lines of 30
  columns = 30;
  screen.now += 1;
  display.update(6, 6, {{"a", 1}, {"b", 2}});
  CHECK(screen.take() == "\x1b[2A\r\x1b[J\r 6/10 ━━━━━──── 1s 333ms/step");
}

TEST_CASE("in a file a long epoch shows a line every half minute") {
  Screen screen;
  ProgressDisplay display = screen.display({.verbosity = Verbosity::lines});
  display.begin(4);
  screen.now += 20;
  display.update(1, 10, {{"loss", 3}});
  CHECK(screen.take().empty());
  screen.now += 20;
  display.update(2, 20, {{"loss", 2}});
  CHECK(screen.take() == "2/4 - 40s - 20s/step - loss: 2.0000 - 0.5 samples/s\n");
  screen.now += 20;
  display.update(3, 30, {{"loss", 2}});
  CHECK(screen.take().empty());
  screen.now += 20;
  display.update(4, 40, {{"loss", 1}});
  CHECK(screen.take().empty());
  display.validated(1, 2);
  CHECK(screen.take() == "validation: 1/2\n");
  display.finish({{"loss", 1}});
  CHECK(screen.take() == "4/4 - 80s - 20s/step - loss: 1.0000 - 0.5 samples/s\n");
}

TEST_CASE("a message stands above the bar") {
  Screen screen;
  ProgressDisplay display = screen.display(plain_bar);
  display.say("before");
  CHECK(screen.take() == "before\n");
  display.begin(4);
  screen.now += 1;
  display.update(1, 1, {});
  const std::string drawn = screen.take();
  display.say("something");
  // "\r1/4 <20 cells> 3s 1s/step - 1 samples/s" takes 3+1+20+1+2+1+7+14 = 49 columns.
  CHECK(screen.take() == "\r" + std::string(49, ' ') + "\rsomething\n");
  screen.now += 0.01;
  display.update(2, 2, {});
  CHECK_FALSE(screen.take().empty());
  display.finish({});
  (void)screen.take();
  display.say("after");
  CHECK(screen.take() == "after\n");
}

TEST_CASE("silence shows nothing but messages") {
  Screen screen;
  ProgressDisplay display = screen.display({.verbosity = Verbosity::silent});
  display.begin(2);
  display.update(1, 1, {});
  display.finish({});
  CHECK(screen.take().empty());
  display.say("something");
  CHECK(screen.take() == "something\n");
}

TEST_CASE("a run of several epochs has a heading for each, a single one has none") {
  Screen screen;
  const auto progress = std::make_shared<Progress>(
      screen.out, ProgressStyle{.verbosity = Verbosity::lines}, [&] { return screen.now; });
  ScriptedTraining training({"loss"}, {progress});
  training.run(epochs_of("loss", {3, 2}), 0, 2);
  CHECK(screen.take() ==
        "Epoch 1/2\n2/2 - 0s - 0s/step - loss: 3.0000 - 0 samples/s\n"
        "Epoch 2/2\n2/2 - 0s - 0s/step - loss: 2.0000 - 0 samples/s\n");
  training.run(epochs_of("loss", {1}));
  CHECK(screen.take() == "1/1 - 0s - 0s/step - loss: 1.0000 - 0 samples/s\n");
  training.root = false;
  training.run(epochs_of("loss", {1, 1}));
  CHECK(screen.take().empty());
}

TEST_CASE("what is no terminal gets lines without colours") {
  // Standard output of a test goes to a pipe or a file; descriptor 99 is not open.
  const ProgressStyle style = progress_style(Verbosity::automatic, 99);
  CHECK(style.verbosity == Verbosity::lines);
  CHECK_FALSE(style.colours);
  CHECK_FALSE(style.width);
  CHECK(progress_style(Verbosity::bar, 99).verbosity == Verbosity::bar);
  CHECK(progress_style(Verbosity::silent, 99).verbosity == Verbosity::silent);
}

}  // namespace meshwork::progress_test
