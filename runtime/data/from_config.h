// Sources of samples as configurations write them.
//
//     {kind: idx, images: train-images.gz, labels: train-labels.gz}
//     {kind: hdf5, features: "train.h5:/images", targets: "train.h5:/labels"}
//     {kind: npy, features: x.npy, targets: y.npy}
//     {kind: npz, file: data.npz, features: x, targets: y}
//     {kind: csv, file: table.csv, features: [age, city], targets: price}
//     {kind: images, directory: photos}
//     {kind: text, file: novel.txt, length: 64}
//     {kind: synthetic, rows: 128, features: {kind: normal, shape: [28, 28, 1]},
//                                  targets: {kind: classes, classes: 10}}
//
// `labels` and `targets` may be absent where nothing is compared with them. Where a model has
// several inputs, `features` is a map that has an entry for each, by its name; where it has several
// outputs, so is `targets`. Options of synthetic
// fields are those of SyntheticField (synthetic.h); foreign_hdf5.h says what HDF5's `virtual` and
// `sparse` are for. File names are relative to the directory in which the program runs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/config/options.h"
#include "runtime/data/source.h"

namespace meshwork {

/// What a source is opened for.
struct SourceContext {
  std::span<const std::string> inputs;  // the names of the model's inputs
  /// Of a model with several outputs, the names of those that are compared with targets; of a model
  /// with one, none.
  std::span<const std::string> outputs = {};
  /// The names of fields whose numbers may not be rounded: those of rows and classes. The only
  /// target is called "targets".
  std::span<const std::string> exact = {};
  std::uint64_t seed = 0;  // of the run, which a synthetic source is made by unless it says its own
  /// Of the training data, where this source is of others; null if these are not known.
  const std::vector<Categories>* categories = nullptr;
};

/// Opens the source that `node` describes; its features are in the order of the model's inputs and
/// have their names, as have targets of several outputs. Throws `ConfigError` with the place:
/// unknown kinds and options, and all that is wrong with the files.
[[nodiscard]] std::shared_ptr<const Source> source_from_config(const ConfigNode& node,
                                                               const SourceContext& context);

/// Throws `ConfigError` for an unknown kind and for options that are wrong, as far as that can be
/// told before the model's inputs are known. Opens nothing.
void check_source(const ConfigNode& node);

/// What `meshwork reference` says of each kind, and of each kind of synthetic field, as
/// "synthetic/normal".
[[nodiscard]] std::map<std::string, Explained> explained_sources();

}  // namespace meshwork
