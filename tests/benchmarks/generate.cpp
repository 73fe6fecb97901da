// How many tokens a second a GPT writes, with what it has seen kept (graph/sequences.h), and with all
// places seen for each token.
//
//   mpirun -n 2 build/benchmarks/generate gpt_mini|gpt_char|gpt2 [LENGTH [ROUNDS]]
//
// A prompt of one token goes on until the text is as long as the model sees, LENGTH. Weights are drawn:
// the arithmetic is the same. The ranks split heads, hidden units and the vocabulary. Both ways take
// turns, after a round that makes the programs. Printed is one line of JSON: tokens a second of each
// way, the medians of the rounds, and whether the texts were the same.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "layers/add.h"
#include "layers/dense.h"
#include "layers/embedding.h"
#include "layers/layer_normalization.h"
#include "layers/multi_head_attention.h"
#include "layers/position.h"
#include "runtime/device/kernels/activation.h"
#include "runtime/train/loop/generation.h"
#include "runtime/train/runtime.h"

namespace meshwork {
namespace {

struct Transformer {
  int blocks;
  std::int64_t heads, width, length, tokens;
};

SymbolicTensor gpt(const SymbolicTensor& tokens, const Transformer& of) {
  const auto norm = [] { return LayerNormalization({.epsilon = 1e-5F}); };
  const SharedLayer table =
      ReversibleEmbedding({.name = "tokens", .input_dim = of.tokens, .output_dim = of.width});
  auto x = table(tokens);
  x = Add()({x, PositionEmbedding({.sequence_length = of.length})(x)});
  for (int block = 0; block < of.blocks; ++block) {
    x = Add()({x, MultiHeadAttention({.name = fmt::format("attention_{}", block),
                                      .num_heads = of.heads,
                                      .key_dim = of.width / of.heads,
                                      .use_causal_mask = true})(norm()(x))});
    const auto hidden = Dense({.name = fmt::format("up_{}", block),
                               .units = 4 * of.width,
                               .activation = Activation::gelu_tanh})(norm()(x));
    x = Add()({x, Dense({.name = fmt::format("down_{}", block), .units = of.width})(hidden)});
  }
  return table(norm()(x));
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void run(int argc, char** argv) {
  std::map<std::string, Transformer> known{{"gpt_mini", {4, 4, 128, 64, 256}},
                                           {"gpt_char", {6, 6, 384, 256, 256}},
                                           {"gpt2", {12, 12, 768, 1024, 50257}}};
  const std::string name = argc > 1 ? argv[1] : "gpt_mini";
  if (!known.contains(name)) fail("{} is none of gpt_mini, gpt_char and gpt2", name);
  Transformer of = known[name];
  if (argc > 2) of.length = std::strtoll(argv[2], nullptr, 10);
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 5;
  DeviceMesh mesh({{"model", -1}});
  LayoutMap layouts(mesh);
  layouts["tokens/embeddings"] = {"model", unsharded};
  layouts["attention_.*/(query|key|value)/kernel"] = {unsharded, "model", unsharded};
  layouts["attention_.*/attention_output/kernel"] = {"model", unsharded, unsharded};
  layouts["up_.*/kernel"] = {unsharded, "model"};
  layouts["down_.*/kernel"] = {"model", unsharded};
  const SymbolicTensor tokens = Input({of.length}, "text", ElementType::int32);
  Model model(tokens, gpt(tokens, of), ModelParallel(mesh, layouts, {.batch_axis = ""}));
  std::map<bool, std::vector<double>> rates;
  std::map<bool, std::vector<std::int32_t>> texts;
  for (int round = 0; round <= rounds; ++round) {
    for (const bool in_pieces : {false, true}) {
      std::vector<std::int32_t>& text = texts[in_pieces];
      text.clear();
      const auto begin = std::chrono::steady_clock::now();
      generate_tokens(model, {1}, {.tokens = of.length, .in_pieces = in_pieces},
                      [&](std::int32_t token) { text.push_back(token); });
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      if (round > 0) rates[in_pieces].push_back(static_cast<double>(of.length) / took.count());
    }
  }
  if (mesh.rank() != 0) return;
  fmt::print(
      "{{\"network\": \"{}\", \"length\": {}, \"ranks\": {}, \"kept\": {:.1f}, \"all\": {:.1f}, "
      "\"same_text\": {}}}\n",
      name, of.length, mesh.all().size(), median(rates[true]), median(rates[false]),
      texts[true] == texts[false]);
}

}  // namespace
}  // namespace meshwork

int main(int argc, char** argv) {
  using namespace meshwork;
  MpiEnvironment environment(&argc, &argv);
  try {
    run(argc, argv);
  } catch (const std::exception& error) {
    abort_job(2, error.what());
  }
}
