#include "runtime/data/hdf5_handles.h"

#include "collectives/error.h"

#include <string_view>
#include <vector>

namespace meshwork {

namespace {

std::recursive_mutex& library_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

// What the operating system said of a file, where HDF5 passes it on among times and addresses:
// "..., errno = 28, error message = 'No space left on device', buf = ...".
std::string without_details(const std::string& text) {
  constexpr std::string_view mark = "error message = '";
  const std::size_t begin = text.find(mark);
  const std::size_t end = begin == std::string::npos ? begin : text.find("',", begin);
  return end == std::string::npos ? text
                                  : text.substr(begin + mark.size(), end - begin - mark.size());
}

herr_t append_description(unsigned, const H5E_error2_t* entry, void* list) {
  try {
    auto& texts = *static_cast<std::vector<std::string>*>(list);
    std::string text = entry->desc == nullptr ? "" : without_details(entry->desc);
    if (!text.empty() && (texts.empty() || texts.back() != text)) texts.push_back(std::move(text));
    return 0;
  } catch (...) {
    return -1;  // exceptions do not cross the library
  }
}

}  // namespace

Hdf5Guard::Hdf5Guard() : lock_(library_mutex()) {
  if (H5Eget_auto2(H5E_DEFAULT, &printer_, &printer_data_) < 0 ||
      H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr) < 0) {
    internal_error("HDF5 refused to hold back its error messages");
  }
}

Hdf5Guard::~Hdf5Guard() {
  H5Eset_auto2(H5E_DEFAULT, printer_, printer_data_);
}

std::string hdf5_error_text() {
  std::vector<std::string> texts;
  if (H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, append_description, &texts) < 0 || texts.empty()) {
    return "HDF5 gave no reason";
  }
  std::string line;
  for (const std::string& text : texts) line += (line.empty() ? "" : ": ") + text;
  return line;
}

void fail_hdf5(std::string_view what, std::string_view subject) {
  const std::string text = hdf5_error_text();
  H5Eclear2(H5E_DEFAULT);
  fail("{}: {}: {}", subject, what, text);
}

}  // namespace meshwork
