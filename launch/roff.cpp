#include "launch/roff.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace meshwork {

std::string roff(std::string_view text) {
  std::string safe;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool begins_line = i == 0 || text[i - 1] == '\n';
    if (begins_line && (c == '.' || c == '\'')) safe += "\\&";
    if (c == '\\') {
      safe += "\\e";
    } else if (c == '-') {
      safe += "\\-";
    } else if (c == '\'') {
      safe += "\\(aq";
    } else if (c == '`') {
      safe += "\\(ga";
    } else {
      safe += c;
    }
  }
  return safe;
}

std::string roff_title(int section, std::string_view what) {
  return fmt::format(".TH MESHWORK {} \"\" \"meshwork {}\" Meshwork\n.SH NAME\nmeshwork \\- {}\n",
                     section, MESHWORK_VERSION, roff(what));
}

std::string roff_item(std::string_view term, std::string_view value, std::string_view page) {
  return fmt::format(".TP\n\\fB{}\\fR{}\\fI{}\\fR\n{}\n", roff(term),
                     value.empty() || term.empty() ? "" : " ", roff(value), page);
}

std::string roff_text(std::string_view text, std::string_view heading) {
  std::string page;
  bool as_it_stands = false;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? "" : text.substr(end + 1);
    if (line.starts_with(' ') != as_it_stands) {
      as_it_stands = !as_it_stands;
      page += as_it_stands ? ".nf\n" : ".fi\n";
    }
    if (line.empty()) {
      page += text.empty() || text.starts_with('\n') ? "" : ".PP\n";
    } else if (line.ends_with(':') && text.starts_with(' ')) {
      std::string title(line.substr(0, line.size() - 1));
      if (heading == ".SH") std::transform(title.begin(), title.end(), title.begin(), toupper);
      page += fmt::format("{} \"{}\"\n", heading, roff(title));
    } else {
      page += roff(line) + "\n";
    }
  }
  return page + (as_it_stands ? ".fi\n" : "");
}

}  // namespace meshwork
