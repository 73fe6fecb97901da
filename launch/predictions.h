// The file that predictions go to: HDF5 or CSV, by the name's extension.
//
// HDF5: a float32 dataset "predictions" of shape (rows, shape of an output...). CSV: a line of
// names, output_0 and so on, then a line for each sample, the elements of its output in row-major
// order with as many digits as give the float32 back. A file is written beside its final name and
// renamed when it is whole.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "runtime/shape/shape.h"

namespace meshwork {

class PredictionFile {
 public:
  virtual ~PredictionFile() = default;
  /// Writes the outputs of samples, the first of which is `first_row`. Rows come in order.
  virtual void write(std::int64_t first_row, std::span<const float> outputs) = 0;
  /// Ends the file and gives it its name.
  virtual void finish() = 0;
};

/// The file `name` for `rows` outputs of `shape`, one of .h5, .hdf5 and .csv. For one rank to call.
/// All throw `FailedWrite`, and `Error` for a name that is none, naming the file.
[[nodiscard]] std::unique_ptr<PredictionFile> make_prediction_file(const std::string& name,
                                                                   std::int64_t rows,
                                                                   const Shape& shape);

}  // namespace meshwork
