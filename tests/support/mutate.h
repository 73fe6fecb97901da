// Breaks YAML texts in the ways in which people and disks do, the same way for the same seed.
//
//     Mutator mutator(seed);
//     std::string broken = mutator.mutate(text);
//
// Each call makes one to four changes: bits flipped, bytes replaced, inserted or removed, the text
// cut off; lines removed, doubled, moved, indented; values exchanged with other values of the text
// or with words that mean something to YAML or to a configuration.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace meshwork::test {

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : state_(seed) {}

  /// `text` with one to four changes.
  [[nodiscard]] std::string mutate(std::string text) {
    for (std::size_t count = 1 + below(4); count > 0; --count) change(text);
    return text;
  }

  /// A number below `bound`, which is positive.
  [[nodiscard]] std::size_t below(std::size_t bound) {
    // SplitMix64 (Steele, Lea and Flood 2014): the same on every platform. The bias of the
    // remainder does not matter here.
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9U;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebU;
    return static_cast<std::size_t>((mixed ^ (mixed >> 31)) % bound);
  }

 private:
  static constexpr std::array<std::string_view, 74> words = {"~",
                                                             "null",
                                                             "true",
                                                             "false",
                                                             "yes",
                                                             "0",
                                                             "-1",
                                                             "1",
                                                             "2",
                                                             "3",
                                                             "64.0",
                                                             "1e-3",
                                                             "1e999",
                                                             ".inf",
                                                             "-.inf",
                                                             ".nan",
                                                             "0x7fffffff",
                                                             "9223372036854775807",
                                                             "-9223372036854775808",
                                                             "18446744073709551616",
                                                             "\"",
                                                             "'",
                                                             "[",
                                                             "]",
                                                             "{",
                                                             "}",
                                                             ",",
                                                             ":",
                                                             ": ",
                                                             "- ",
                                                             "-",
                                                             "? ",
                                                             "|",
                                                             ">",
                                                             "|2-",
                                                             "&a ",
                                                             "*a",
                                                             "!!str ",
                                                             "!!int ",
                                                             "!",
                                                             "%YAML 1.2\n",
                                                             "%TAG ! x\n",
                                                             "---\n",
                                                             "...\n",
                                                             "#",
                                                             " #",
                                                             "\t",
                                                             "\n",
                                                             "\r",
                                                             "\r\n",
                                                             "  ",
                                                             "@",
                                                             "`",
                                                             "<<: *a",
                                                             "{}",
                                                             "[]",
                                                             "[[",
                                                             "{{",
                                                             "[~, a]",
                                                             "{a: 1}",
                                                             "\xef\xbb\xbf",
                                                             "\xc3\xa4",
                                                             "\xff",
                                                             "\\x00",
                                                             "\"\\0\"",
                                                             "\"\\ud800\"",
                                                             "name",
                                                             "units",
                                                             "Dense",
                                                             "data",
                                                             "model",
                                                             "{Dense: {units: 3}}",
                                                             "''",
                                                             "\"\""};

  [[nodiscard]] std::string_view word() { return words[below(words.size())]; }

  void change(std::string& text) {
    switch (below(16)) {
      case 0:
        if (!text.empty()) {
          char& byte = text[below(text.size())];
          byte = static_cast<char>(static_cast<unsigned char>(byte) ^ (1U << below(8)));
        }
        return;
      case 1:
        if (!text.empty()) text[below(text.size())] = static_cast<char>(below(256));
        return;
      case 2:
        text.insert(below(text.size() + 1), 1, static_cast<char>(32 + below(95)));
        return;
      case 3:
      case 4:
        text.insert(below(text.size() + 1), word());
        return;
      case 5:
        if (!text.empty()) text.erase(below(text.size()), 1 + below(8));
        return;
      case 6:
        if (below(4) == 0) text.resize(below(text.size() + 1));
        return;
      case 7:
      case 8:
        change_lines(text);
        return;
      case 9:
        change_indentation(text);
        return;
      case 10:
      case 11:
      case 12:
        replace_value(text, std::string(word()));
        return;
      case 13: {
        const std::pair<std::size_t, std::size_t> other = value(text);
        replace_value(text, text.substr(other.first, other.second));
        return;
      }
      case 14: {
        const std::size_t at = below(text.size() + 1);
        const std::string piece = text.substr(at, below(64));
        for (std::size_t count = 1 + below(3); count > 0; --count) text.insert(at, piece);
        return;
      }
      default: {
        const std::string many(word());
        std::string run;
        for (std::size_t count = below(200); count > 0; --count) run += many;
        text.insert(below(text.size() + 1), run);
        return;
      }
    }
  }

  // The place and length of something that stands where values do: up to the end of the line or a
  // bracket or comma, behind one of the marks that come before values.
  [[nodiscard]] std::pair<std::size_t, std::size_t> value(const std::string& text) {
    const std::size_t mark = text.find_first_of(":-[{,", below(text.size() + 1));
    if (mark == std::string::npos) return {text.size(), 0};
    const std::size_t begin = std::min(text.find_first_not_of(' ', mark + 1), text.size());
    const std::size_t end = std::min(text.find_first_of(",]}\n", begin), text.size());
    return {begin, end - begin};
  }

  void replace_value(std::string& text, const std::string& replacement) {
    const auto [begin, length] = value(text);
    text.replace(begin, length, replacement);
  }

  [[nodiscard]] static std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
      lines.push_back(text.substr(begin, end - begin));
      begin = end;
    }
    return lines;
  }

  [[nodiscard]] static std::string join(const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines) text += line;
    return text;
  }

  void change_lines(std::string& text) {
    std::vector<std::string> lines = lines_of(text);
    if (lines.empty()) return;
    const std::size_t one = below(lines.size()), other = below(lines.size());
    const auto at = lines.begin() + static_cast<std::ptrdiff_t>(one);
    switch (below(3)) {
      case 0:
        lines.erase(at);
        break;
      case 1: {
        const std::string copy = lines[other];
        lines.insert(at, copy);
        break;
      }
      default:
        std::swap(lines[one], lines[other]);
    }
    text = join(lines);
  }

  void change_indentation(std::string& text) {
    std::vector<std::string> lines = lines_of(text);
    if (lines.empty()) return;
    const std::size_t first = below(lines.size());
    const std::size_t last = std::min(lines.size(), first + 1 + below(4));
    const bool deeper = below(2) == 0;
    const std::size_t width = 1 + below(4);
    for (std::size_t i = first; i < last; ++i) {
      if (deeper) {
        lines[i].insert(0, width, ' ');
      } else {
        const std::size_t margin = std::min(lines[i].find_first_not_of(' '), lines[i].size());
        lines[i].erase(0, std::min(margin, width));
      }
    }
    text = join(lines);
  }

  std::uint64_t state_;
};

}  // namespace meshwork::test
