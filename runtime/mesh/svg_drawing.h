// An SVG document, drawn piece by piece: texts and boxes that pictures have in common.
//
// Lengths are in pixels. A text's y is its baseline. What is drawn later lies above.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace meshwork {

/// The width of a text in an SvgDrawing, about; rather too much.
[[nodiscard]] int pixels_of(std::string_view text);

class SvgDrawing {
 public:
  static constexpr int margin = 16;
  static constexpr int line_height = 18, font_size = 13;
  /// Light backgrounds on which black is easy to read.
  static constexpr std::array<const char*, 8> palette{"#aed6f1", "#f9e79f", "#abebc6", "#f5b7b1",
                                                      "#d2b4de", "#fad7a0", "#a3e4d7", "#f5cba7"};
  static constexpr const char* quiet_text = " fill=\"#57606a\"";
  static constexpr const char* bold_text = " font-weight=\"bold\"";

  /// `anchor`: "start", "middle" or "end". `attributes` begin with a space. Draws nothing for no words.
  void text(int x, int y, std::string_view anchor, std::string_view words,
            std::string_view attributes = "");
  /// With words in its middle.
  void box(int x, int y, int width, int height, std::string_view fill, std::string_view words = "");
  /// The mark of what is left out, in the middle of the space for it.
  void elided(int x, int y, int width, int height, bool across);
  /// Any other element, as it is.
  void element(std::string_view markup);

  /// Text with what XML gives a meaning replaced.
  [[nodiscard]] static std::string escaped(std::string_view text);

  /// All of it, on white.
  [[nodiscard]] std::string document(int width, int height) const;

 private:
  std::string body_;
};

}  // namespace meshwork
