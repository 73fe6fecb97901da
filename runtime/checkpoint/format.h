// The file: how a checkpoint's contents stand in HDF5.
//
//     /                      attributes: format, format_version, program, writer, created, step,
//                            epoch, mesh
//     /params/<path>         float32, the variable at its global shape
//     /slots/<path>/<slot>   float32, an optimizer slot likewise
//                            each with the attributes kind, path, slot, callback, trainable,
//                            layout and sum (checksum.h)
//     /state                 attributes: the numbers and short texts of CheckpointState; datasets:
//                            its lists, the configuration, the fingerprint of the data, where each
//                            variable stands in a Keras weights file, and which kernels were
//                            chosen by timing
//     /history/epoch         int64: the epochs of the history
//     /history/<log>         float64, with the attribute name; "/" in a log's name is "|" here
//     /callbacks/<i>-<class> attributes: class, keeps_weights, and below it
//         numbers            a group whose attributes are what the callback remembers
//         texts/<j>          text, with the attribute name
//         weights/<path>     float32: the weights that it keeps
//     /checksums/datasets    texts: the names of all datasets above
//     /checksums/regions     uint64 (regions, columns): the dataset's number, the hash of the
//                            region's bytes, its dimensions D, then begin and end in each of the D
//                            dimensions, then zeros
//     /checksums/objects     texts: the paths of all groups and datasets, these included, in order
//     /checksums/object_hashes
//                            uint64: the hash of each one's attributes, type and shape
//                            (structure.h). The attribute hash of /checksums, the only thing that
//                            these leave out, is that of the bytes of these four datasets, one
//                            behind the other.
//
// Format version 1 had neither objects nor object_hashes: nothing tells whether its attributes are
// those that were written.
//
// All datasets are contiguous and not filtered. The library's format of 1.8 is used, in which
// everything that is not the data of a dataset carries a checksum of the library's, and nothing
// marks a file as open (written_file.h). Large datasets begin at multiples of 1 MiB.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/checkpoint/contents.h"
#include "runtime/checkpoint/reader.h"
#include "runtime/data/hdf5_handles.h"

namespace meshwork {

inline constexpr const char* checkpoint_format_name = "meshwork checkpoint";

/// The first version of the format in which attributes, types and shapes have checksums.
inline constexpr std::int64_t first_version_with_objects = 2;

/// The group of the checksums, and its attribute, which is the hash of the datasets in it.
inline constexpr const char* checksum_group = "checksums";
inline constexpr const char* checksum_of_table = "hash";

/// "callbacks/0-EarlyStopping".
[[nodiscard]] std::string callback_group(int index, const std::vector<CallbackRecord>& callbacks);

/// Access properties of all checkpoint files: the format's version, alignment, and no locks (where
/// several processes read one file, or the file system has none).
[[nodiscard]] Hdf5Properties checkpoint_access(const std::string& subject);

/// Makes the file `name` (replacing one that is there) with everything but the data of the tensors,
/// for which there is room. One process calls it. `regions` are those of the tensors. Throws
/// `Error`.
void create_checkpoint_file(const std::string& name, const CheckpointState& state,
                            const std::vector<CheckpointTensor>& tensors,
                            const std::vector<StoredRegion>& regions);

}  // namespace meshwork
