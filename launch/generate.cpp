// meshwork generate: the text that a model gives, token by token.
#include <charconv>
#include <cstdio>
#include <optional>
#include <sstream>
#include <string>

#include "collectives/printable.h"
#include "launch/commands.h"
#include "launch/session.h"
#include "runtime/train/loop/generation.h"

namespace meshwork {

namespace {

constexpr std::int64_t byte_classes = 256;

// Of a model of bytes the prompt's bytes; else the numbers that stand in it.
std::vector<std::int32_t> tokens_of(const std::string& prompt, const TokenModel& of) {
  if (of.classes == byte_classes) {
    const auto* const bytes = reinterpret_cast<const unsigned char*>(prompt.data());
    return {bytes, bytes + prompt.size()};
  }
  std::vector<std::int32_t> tokens;
  std::istringstream words(prompt);
  for (std::string word; words >> word;) {
    std::int32_t token = 0;
    const auto [end, wrong] = std::from_chars(word.data(), word.data() + word.size(), token);
    if (wrong != std::errc() || end != word.data() + word.size()) {
      fail(
          "--prompt: the model has {} tokens, so they are given as numbers with spaces between; "
          "found \"{}\"",
          of.classes, in_one_line(word));
    }
    tokens.push_back(token);
  }
  return tokens;
}

// Writes tokens as they come. Bytes of a character wait for the rest of it.
class Shown {
 public:
  explicit Shown(const TokenModel& of) : bytes_(of.classes == byte_classes) {}

  void add(std::int32_t token) {
    if (!bytes_) {
      write(fmt::format("{}{}", first_ ? "" : " ", token));
      first_ = false;
      return;
    }
    pending_ += static_cast<char>(token);
    constexpr std::size_t longest_character = 4;
    if (character_length(pending_) == 0 && pending_.size() < longest_character &&
        (token & 0x80) != 0) {
      return;
    }
    write(printable(pending_));
    pending_.clear();
  }
  void end() { write(printable(pending_) + "\n"); }

 private:
  static void write(const std::string& text) {
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }

  bool bytes_;
  bool first_ = true;
  std::string pending_;
};

}  // namespace

int generate(Runtime& runtime, const CommandLine& line) {
  std::optional<Session> session;
  std::vector<std::int32_t> prompt;
  GenerationOptions options = line.generation;
  (void)runtime.stop_request();  // from here on, signals are answered in order
  const int status = runtime.attempt(2, [&] {
    session.emplace(runtime, line);
    session->build();
    const TokenModel of = token_model_of(session->model().graph());
    prompt = tokens_of(line.prompt, of);
    try {
      check_prompt(prompt, of);
    } catch (const Error& problem) {
      fail("--prompt: {}", problem.what());
    }
    session->load_weights(nullptr, Mode::predict);
    options.seed = session->config().seed();
    end_if_asked(runtime, "before the first token");
  });
  if (status != 0) {
    return status;
  }
  return runtime.attempt(1, [&] {
    Shown shown(token_model_of(session->model().graph()));
    if (runtime.is_root()) {
      for (const std::int32_t token : prompt) shown.add(token);
    }
    generate_tokens(session->model(), prompt, options, [&](std::int32_t token) {
      if (runtime.is_root()) shown.add(token);
      end_if_asked(runtime, "while it generated");
    });
    if (runtime.is_root()) shown.end();
  });
}

}  // namespace meshwork
