#include "launch/predictions.h"

#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <vector>

#include "collectives/error.h"
#include "collectives/failed_write.h"
#include "collectives/file_size_limit.h"
#include "runtime/checkpoint/hdf5_values.h"
#include "runtime/checkpoint/new_file.h"
#include "runtime/checkpoint/output_place.h"
#include "runtime/checkpoint/written_file.h"
#include "runtime/data/hdf5_handles.h"

namespace meshwork {
namespace {

class CsvFile final : public PredictionFile {
 public:
  CsvFile(std::string name, const Shape& shape)
      : columns_(element_count(shape)), new_(std::move(name)), file_(new_.temporary()) {
    const FileSizeSignalBlocked blocked;
    check("opened");
    std::string heading;
    for (std::int64_t column = 0; column < columns_; ++column) {
      fmt::format_to(std::back_inserter(heading), "{}output_{}", column == 0 ? "" : ",", column);
    }
    file_ << heading << '\n';
    check("written");
  }

  ~CsvFile() override {
    const FileSizeSignalBlocked blocked;
    file_.close();
  }

  void write(std::int64_t, std::span<const float> outputs) override {
    const FileSizeSignalBlocked blocked;
    std::string text;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const bool last = (static_cast<std::int64_t>(i) + 1) % columns_ == 0;
      // A NaN's sign says nothing, and would be written.
      const float output =
          std::isnan(outputs[i]) ? std::numeric_limits<float>::quiet_NaN() : outputs[i];
      fmt::format_to(std::back_inserter(text), "{}{}", output, last ? '\n' : ',');
    }
    file_ << text;
    check("written");
  }

  void finish() override {
    const FileSizeSignalBlocked blocked;
    file_.close();
    check("written");
    new_.give_name();
  }

 private:
  void check(const char* what) {
    if (!file_) {
      throw FailedWrite(
          fmt::format("{}: cannot be {}: {}", new_.temporary(), what, std::strerror(errno)));
    }
  }

  std::int64_t columns_;
  NewFile new_;
  std::ofstream file_;
};

// What an HDF5 file has beside the predictions, and more.
constexpr std::int64_t for_describing = 4096;

class Hdf5PredictionFile final : public PredictionFile {
 public:
  Hdf5PredictionFile(std::string name, std::int64_t rows, const Shape& shape)
      : name_(name_within(std::move(name), rows, shape)),
        row_elements_(element_count(shape)),
        shape_(shape),
        new_(name_) {
    const FileSizeSignalBlocked blocked;
    const Hdf5Guard guard;
    shape_.insert(shape_.begin(), rows);
    writing([&] { create(); });
  }

  ~Hdf5PredictionFile() override {
    const FileSizeSignalBlocked blocked;  // closing writes
    dataset_ = Hdf5Dataset();
    file_ = WrittenFile();
  }

  void write(std::int64_t first_row, std::span<const float> outputs) override {
    if (outputs.empty()) {
      return;
    }
    const FileSizeSignalBlocked blocked;
    const Hdf5Guard guard;
    Block block = whole(shape_);
    block[0] = {first_row, first_row + std::ssize(outputs) / row_elements_};
    const Selection selection = select(dataset_, &block, name_);
    writing([&] {
      check_hdf5(H5Dwrite(dataset_.native(), H5T_NATIVE_FLOAT, selection.memory.native(),
                          selection.file.native(), H5P_DEFAULT, outputs.data()),
                 "cannot be written", name_);
    });
  }

  void finish() override {
    const FileSizeSignalBlocked blocked;
    writing([&] {
      dataset_.close(name_);
      file_.flush();
      file_.close();
      new_.give_name();
    });
  }

 private:
  /// `name`, where a file of the predictions may be as large as it will be.
  static std::string name_within(std::string name, std::int64_t rows, const Shape& shape) {
    const FileSizeSignalBlocked blocked;
    writing([&] {
      check_file_size(name_while_writing(name).string(),
                      rows * element_count(shape) * 4 + for_describing);
    });
    return name;
  }

  // Makes the file, and the dataset in it.
  void create() {
    const std::vector<hsize_t> lengths(shape_.begin(), shape_.end());
    const std::string& part = new_.temporary();
    file_ = WrittenFile(
        Hdf5File(check_hdf5(H5Fcreate(part.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT),
                            "cannot be created", part)),
        part);
    const Hdf5Dataspace space(
        check_hdf5(H5Screate_simple(static_cast<int>(lengths.size()), lengths.data(), nullptr),
                   "no room for the predictions", part));
    dataset_ =
        Hdf5Dataset(check_hdf5(H5Dcreate2(file_.native(), "predictions", H5T_IEEE_F32LE,
                                          space.native(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                               "the dataset \"predictions\" cannot be created", part));
  }

  std::string name_;
  std::int64_t row_elements_;
  Shape shape_;  // with the rows as dimension 0
  NewFile new_;
  WrittenFile file_;
  Hdf5Dataset dataset_;
};

}  // namespace

std::unique_ptr<PredictionFile> make_prediction_file(const std::string& name, std::int64_t rows,
                                                     const Shape& shape) {
  if (const std::string obstacle = obstacle_to_writing(name, Writing::beside); !obstacle.empty()) {
    fail("{}: predictions cannot be written: {}", name, obstacle);
  }
  if (name.ends_with(".csv")) {
    return std::make_unique<CsvFile>(name, shape);
  }
  if (name.ends_with(".h5") || name.ends_with(".hdf5")) {
    return std::make_unique<Hdf5PredictionFile>(name, rows, shape);
  }
  fail("{}: predictions are written to files that end with .h5, .hdf5 or .csv", name);
}

}  // namespace meshwork
