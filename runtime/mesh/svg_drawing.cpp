#include "runtime/mesh/svg_drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace meshwork {

int pixels_of(std::string_view text) {
  const auto characters = std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
  });
  return static_cast<int>(std::ceil(static_cast<double>(characters) * 0.6 * SvgDrawing::font_size));
}

std::string SvgDrawing::escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

void SvgDrawing::text(int x, int y, std::string_view anchor, std::string_view words,
                      std::string_view attributes) {
  if (words.empty()) return;
  body_ += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor,
                       attributes, escaped(words));
}

void SvgDrawing::box(int x, int y, int width, int height, std::string_view fill,
                     std::string_view words) {
  body_ += fmt::format(
      "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\" stroke=\"#24292f\"/>\n", x, y,
      width, height, fill);
  text(x + width / 2, y + height / 2 + 5, "middle", words);
}

void SvgDrawing::elided(int x, int y, int width, int height, bool across) {
  text(x + width / 2, y + height / 2 + 5, "middle", across ? "…" : "⋮");
}

void SvgDrawing::element(std::string_view markup) {
  body_ += markup;
  body_ += '\n';
}

std::string SvgDrawing::document(int width, int height) const {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\" font-family=\"Helvetica, Arial, sans-serif\" "
      "font-size=\"{2}\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n{3}</svg>\n",
      width, height, font_size, body_);
}

}  // namespace meshwork
