// Text: windows over a line of tokens, for models that predict the next token.
//
// Tokens come from files. An npy file and a dataset of HDF5 ("FILE:/DATASET") hold token numbers,
// as a tokenizer made them: integers along one dimension. Of every other file each byte is a token,
// from 0 to 255, after unpacking if it is gzipped. Several files are one text, in the order in
// which they are listed. With `document_end` each file is a document of it: that token stands behind
// its last one, as if the file had it.
//
// Sample w is window w. Its feature is `length` tokens, its target the token behind each of them:
//
//   feature[i] = token[w * stride + i]    target[i] = token[w * stride + i + 1]    0 <= i < length
//
// With stride = length, the default, windows tile the text, and an epoch predicts each token once.
// Windows of a smaller stride overlap. With stride 1 there is a window at every token; an epoch of
// a few of these (fit: steps_per_epoch) is a random draw. The last tokens, too few for a window,
// are not used.
//
// Windows are numbered and do not depend on the epoch, so they are shuffled, spread and resumed as
// other samples are (order.h). A source that drew them itself would need the epoch.
//
// `from` and `to` keep the tokens [floor(from n), floor(to n)) of n. Parts that meet share no
// token, so training and validation data can be parts of one text.
//
// Plain files and npy files are mapped into memory and HDF5 is read by hyperslabs: each may be
// larger than memory. A gzipped file is unpacked when it is opened and stays in memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/source.h"

namespace meshwork {

struct TextOptions {
  std::vector<std::string> files;  // one at least
  std::int64_t length = 64;
  std::int64_t stride = 0;  // 0: `length`
  double from = 0, to = 1;
  std::optional<std::int64_t> document_end = {};  // the token behind each file; none: there is none
  std::string feature = "tokens", target = "next tokens";
};

class TextSource final : public Source {
 public:
  /// Opens the files. Throws `Error`: a file that is missing or damaged, an array that is not of
  /// integers along one dimension, files whose tokens have different types or a type without
  /// `document_end`, a text too short for a window, options out of range.
  explicit TextSource(const TextOptions& options);
  ~TextSource() override;

  [[nodiscard]] std::string locate(int field, std::int64_t row) const override;
  [[nodiscard]] std::int64_t classes_by_construction(int field) const override;
  [[nodiscard]] std::string fingerprint() const override;
  [[nodiscard]] std::vector<std::filesystem::path> files() const override;

 private:
  class Tokens;
  TextSource(std::unique_ptr<const Tokens> tokens, const TextOptions& options);
  void read_rows(int field, std::span<const std::int64_t> rows, const Block& block,
                 std::byte* destination) const override;

  std::unique_ptr<const Tokens> tokens_;
  std::int64_t length_ = 0, stride_ = 0;
};

}  // namespace meshwork
