// Views: a source seen differently, without copying it.
//
// `with_shape` adds or removes dimensions of length 1, so that images of (28, 28) feed an input of
// (28, 28, 1). `cached` keeps in memory what was read once. `with_equal_weights` gives weights to
// samples that have none. `with_one_hot` makes vectors of class numbers, `as_float32` numbers of
// any type float32. (`Subset`, in source.h, takes some rows.)
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/data/source.h"

namespace meshwork {

/// `source` with the samples of field `field` in `shape`: the same lengths in the same order, apart
/// from those that are 1. Throws `Error` naming both shapes for any other change (the model can
/// make it, with a Reshape layer). Returns `source` itself if nothing changes.
[[nodiscard]] std::shared_ptr<const Source> with_shape(std::shared_ptr<const Source> source,
                                                       int field, const Shape& shape);

/// `source` with a memory: every row of a field that is read is kept, in the block in which it was
/// asked for, and comes from memory the next time. A rank so holds just the rows and columns that
/// it uses; each different block of a field takes its own memory. Memory for all rows is reserved
/// at the first reading, and used as rows come.
[[nodiscard]] std::shared_ptr<const Source> cached(const std::shared_ptr<const Source>& source);

/// `source`, whose samples have no weights, with the weight 1 for each of them, of the shape `shape`.
[[nodiscard]] std::shared_ptr<const Source> with_equal_weights(
    const std::shared_ptr<const Source>& source, const Shape& shape);

/// `source` with a vector for each class number of `field`: 1 at the number, 0 elsewhere. Its length
/// `classes` is a new last dimension, or takes the place of a last one of length 1. Reading a number
/// that is no class throws `WrongInput`. Throws `Error` for less than one class.
[[nodiscard]] std::shared_ptr<const Source> with_one_hot(std::shared_ptr<const Source> source,
                                                         int field, std::int64_t classes);

/// `source` with the values of `field` as float32; `source` itself if they are that.
[[nodiscard]] std::shared_ptr<const Source> as_float32(std::shared_ptr<const Source> source,
                                                       int field);

}  // namespace meshwork
