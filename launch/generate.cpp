// meshwork generate: the text that a model gives, token by token.
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "launch/commands.h"
#include "launch/session.h"
#include "runtime/train/loop/token_text.h"

namespace meshwork {

int generate(Runtime& runtime, const CommandLine& line) {
  std::optional<Session> session;
  std::vector<std::int32_t> prompt;
  GenerationOptions options = line.generation;
  (void)runtime.stop_request();  // from here on, signals are answered in order
  const int status = runtime.attempt(2, [&] {
    session.emplace(runtime, line);
    session->build();
    const TokenModel of = token_model_of(session->model().graph());
    try {
      prompt = tokens_of_text(line.prompt, of);
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
    TokenText text(token_model_of(session->model().graph()));
    const auto show = [&](const std::string& more) {
      if (!runtime.is_root()) return;
      std::fputs(more.c_str(), stdout);
      std::fflush(stdout);
    };
    const std::string slow = slow_tokens(session->model(), std::ssize(prompt), options);
    if (!slow.empty() && runtime.is_root()) std::fprintf(stderr, "note: %s\n", slow.c_str());
    // Once the model has taken it.
    std::string begun;
    for (const std::int32_t token : prompt) begun += text.add(token);
    generate_tokens(session->model(), prompt, options, [&](std::int32_t token) {
      show(std::exchange(begun, "") + text.add(token));
      end_if_asked(runtime, "while it generated");
    });
    show(begun + text.end() + "\n");
  });
}

}  // namespace meshwork
