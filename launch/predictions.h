// The file that predictions go to: HDF5 or CSV, by the name's extension.
//
// HDF5: a float32 dataset "predictions" of shape (rows, shape of an output...); of a model with
// several outputs a group of that name, with a dataset for each. CSV: a line of names, output_0 and
// so on, then a line for each sample, the elements of its output in row-major order with as many
// digits as give the float32 back; of several outputs output_price_0 and so on, one behind the
// other. A file is written beside its final name and renamed when it is whole.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/shape/shape.h"

namespace meshwork {

/// An output whose predictions are written.
struct PredictedOutput {
  std::string name;  // not looked at where there is one
  Shape shape;       // of a sample
};

class PredictionFile {
 public:
  virtual ~PredictionFile() = default;
  /// Writes, of each output, the rows of some samples, the first of which is `first_row`. Rows come
  /// in order.
  virtual void write(std::int64_t first_row, std::span<const std::vector<float>> outputs) = 0;
  /// Ends the file and gives it its name.
  virtual void finish() = 0;
};

/// The file `name`, one of .h5, .hdf5 and .csv, for `rows` samples of `outputs`. For one rank to
/// call. All throw `FailedWrite`, and `Error` for a name that is none, naming the file.
[[nodiscard]] std::unique_ptr<PredictionFile> make_prediction_file(
    const std::string& name, std::int64_t rows, const std::vector<PredictedOutput>& outputs);

}  // namespace meshwork
