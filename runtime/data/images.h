// Images: PNG and JPEG files as samples, decoded when they are read.
//
//     photos/cat/a.png, photos/cat/b.jpg, photos/dog/c.png        a folder a class
//     photos/a.png, photos/b.jpg                                  no classes: for predictions
//     photos/..., and a table with a column of their names        classes or numbers of any kind
//
// All images have the height and width of the first; another one is an error that names it. They have
// one channel or three, and values of uint8 (image_files.h). Images end with .png, .jpg or .jpeg. Names
// with other endings, such as notes.txt, and names that begin with a point are passed over; images of
// other formats, such as .webp, are errors.
//
// A class is the name of its folder, its number the place of that in their order (categories.h). The
// samples of folders come in the order of a hash of their names: a part that is split off for
// validation so has samples of all classes. Without classes they come in the order of their names,
// and with a table in that of its rows.
//
// Opening lists the files and reads the header of the first. `prepare` reads the headers of up to
// 10,000, spread evenly; the size of every image is checked again when it is read. Memory keeps the
// names only, so there may be more images than fit. Each rank decodes the images of its own rows.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/csv.h"
#include "runtime/data/image_files.h"
#include "runtime/data/source.h"

namespace meshwork {

/// The table that says what is on each image.
struct ImageLabels {
  std::filesystem::path table;    // a CSV file
  std::string file = "file";      // the column of the files, relative to the folder
  std::vector<CsvField> targets;  // whatever their role
  char separator = ',';
  std::string weights;  // the column of the samples' weights; "": none
};

struct ImageFolder {
  std::string field = "images";
  std::filesystem::path folder;
  int channels = 0;  // 1 or 3; 0: as the first image has
  std::optional<ImageLabels> labels;
  /// Of the training data, where they are known.
  const std::vector<Categories>* known = nullptr;
};

class ImageSource final : public Source {
 public:
  /// Lists the images. Throws `Error`: a folder that is missing or has no images, folders beside
  /// images, a class that the training data do not have, what is wrong with the table, a first
  /// image that is none.
  explicit ImageSource(const ImageFolder& folder);
  ~ImageSource() override;

  [[nodiscard]] std::string locate(int field, std::int64_t row) const override;
  [[nodiscard]] std::int64_t classes_by_construction(int field) const override;
  [[nodiscard]] std::span<const std::string> texts_of(int field) const override;
  [[nodiscard]] std::vector<Categories> categories() const override;
  [[nodiscard]] std::string fingerprint() const override;
  [[nodiscard]] std::vector<std::filesystem::path> files() const override;

 private:
  /// Looks at the sizes of up to 10,000 images. Throws `Error` that names the first that differs.
  void make_ready(int field) const override;
  struct Files;
  explicit ImageSource(std::unique_ptr<Files> files);
  void read_rows(int field, std::span<const std::int64_t> rows, const Block& block,
                 std::byte* destination) const override;

  std::unique_ptr<Files> files_;
};

}  // namespace meshwork
