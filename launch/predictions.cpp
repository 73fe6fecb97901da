#include "launch/predictions.h"

#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <vector>

#include "collectives/element_type.h"
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
  CsvFile(std::string name, const std::vector<PredictedOutput>& outputs)
      : new_(std::move(name)), file_(new_.temporary()) {
    const FileSizeSignalBlocked blocked;
    check("opened");
    std::string heading;
    for (const PredictedOutput& output : outputs) {
      columns_.push_back(static_cast<std::size_t>(element_count(output.shape)));
      const std::string prefix = outputs.size() == 1 ? "output_" : "output_" + output.name + "_";
      for (std::size_t column = 0; column < columns_.back(); ++column) {
        heading += in_csv(prefix + std::to_string(column)) + ",";
      }
    }
    if (!heading.empty()) heading.pop_back();
    file_ << heading << '\n';
    check("written");
  }

  ~CsvFile() override {
    const FileSizeSignalBlocked blocked;
    file_.close();
  }

  void write(std::int64_t, std::span<const std::vector<float>> outputs) override {
    const FileSizeSignalBlocked blocked;
    std::string text;
    for (std::size_t row = 0; row * columns_.front() < outputs.front().size(); ++row) {
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        const float* values = outputs[i].data() + row * columns_[i];
        for (std::size_t column = 0; column < columns_[i]; ++column) {
          // A NaN's sign says nothing, and would be written.
          const float value =
              std::isnan(values[column]) ? std::numeric_limits<float>::quiet_NaN() : values[column];
          text += fmt::format("{},", value);
        }
      }
      text.back() = '\n';
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

  // A field of a CSV line.
  static std::string in_csv(const std::string& name) {
    if (name.find_first_of(",\"\r\n") == std::string::npos) return name;
    std::string quoted = "\"";
    for (const char c : name) quoted += c == '"' ? "\"\"" : std::string(1, c);
    return quoted + "\"";
  }

  std::vector<std::size_t> columns_;  // by output
  NewFile new_;
  std::ofstream file_;
};

// What an HDF5 file has beside the predictions, and more.
constexpr std::int64_t for_describing = 4096;

class Hdf5PredictionFile final : public PredictionFile {
 public:
  Hdf5PredictionFile(std::string name, std::int64_t rows,
                     const std::vector<PredictedOutput>& outputs)
      : name_(name_within(std::move(name), rows, outputs)), new_(name_) {
    const FileSizeSignalBlocked blocked;
    const Hdf5Guard guard;
    writing([&] { create(rows, outputs); });
  }

  ~Hdf5PredictionFile() override {
    const FileSizeSignalBlocked blocked;  // closing writes
    outputs_.clear();
    file_ = WrittenFile();
  }

  void write(std::int64_t first_row, std::span<const std::vector<float>> outputs) override {
    const FileSizeSignalBlocked blocked;
    const Hdf5Guard guard;
    for (std::size_t i = 0; i < outputs.size(); ++i) write(outputs_[i], first_row, outputs[i]);
  }

  void finish() override {
    const FileSizeSignalBlocked blocked;
    writing([&] {
      for (Output& output : outputs_) output.dataset.close(name_);
      file_.flush();
      file_.close();
      new_.give_name();
    });
  }

 private:
  struct Output {
    Shape shape;  // with the rows as dimension 0
    Hdf5Dataset dataset;
  };

  void write(const Output& output, std::int64_t first_row, const std::vector<float>& values) {
    if (values.empty()) {
      return;
    }
    Block block = whole(output.shape);
    const std::int64_t row_elements = element_count(output.shape) / output.shape[0];
    block[0] = {first_row, first_row + std::ssize(values) / row_elements};
    const Selection selection = select(output.dataset, &block, name_);
    writing([&] {
      check_hdf5(H5Dwrite(output.dataset.native(), H5T_NATIVE_FLOAT, selection.memory.native(),
                          selection.file.native(), H5P_DEFAULT, values.data()),
                 "cannot be written", name_);
    });
  }

  /// `name`, where a file of the predictions may be as large as it will be.
  static std::string name_within(std::string name, std::int64_t rows,
                                 const std::vector<PredictedOutput>& outputs) {
    const FileSizeSignalBlocked blocked;
    std::int64_t bytes = 0;
    for (const PredictedOutput& output : outputs) {
      bytes += rows * element_count(output.shape) * float32_bytes + for_describing;
    }
    writing([&] { check_file_size(name_while_writing(name).string(), bytes); });
    return name;
  }

  // Makes the file, and the datasets in it.
  void create(std::int64_t rows, const std::vector<PredictedOutput>& outputs) {
    const std::string& part = new_.temporary();
    file_ = WrittenFile(
        Hdf5File(check_hdf5(H5Fcreate(part.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT),
                            "cannot be created", part)),
        part);
    const Hdf5Properties with_groups(
        check_hdf5(H5Pcreate(H5P_LINK_CREATE), "no properties of a link", part));
    check_hdf5(H5Pset_create_intermediate_group(with_groups.native(), 1), "no properties of a link",
               part);
    for (const PredictedOutput& output : outputs) {
      Shape shape = output.shape;
      shape.insert(shape.begin(), rows);
      const std::vector<hsize_t> lengths(shape.begin(), shape.end());
      const Hdf5Dataspace space(
          check_hdf5(H5Screate_simple(static_cast<int>(lengths.size()), lengths.data(), nullptr),
                     "no room for the predictions", part));
      const std::string name = outputs.size() == 1 ? "predictions" : "predictions/" + output.name;
      outputs_.push_back(
          {std::move(shape),
           Hdf5Dataset(
               check_hdf5(H5Dcreate2(file_.native(), name.c_str(), H5T_IEEE_F32LE, space.native(),
                                     with_groups.native(), H5P_DEFAULT, H5P_DEFAULT),
                          fmt::format("the dataset \"{}\" cannot be created", name), part))});
    }
  }

  std::string name_;
  NewFile new_;
  WrittenFile file_;
  std::vector<Output> outputs_;
};

}  // namespace

std::unique_ptr<PredictionFile> make_prediction_file(const std::string& name, std::int64_t rows,
                                                     const std::vector<PredictedOutput>& outputs) {
  if (const std::string obstacle = obstacle_to_writing(name, Writing::beside); !obstacle.empty()) {
    fail("{}: predictions cannot be written: {}", name, obstacle);
  }
  if (name.ends_with(".csv")) {
    return std::make_unique<CsvFile>(name, outputs);
  }
  if (name.ends_with(".h5") || name.ends_with(".hdf5")) {
    return std::make_unique<Hdf5PredictionFile>(name, rows, outputs);
  }
  fail("{}: predictions are written to files that end with .h5, .hdf5 or .csv", name);
}

}  // namespace meshwork
