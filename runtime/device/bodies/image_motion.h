// Images that are moved, for the loops of any device. Bound by the latency of scattered reads. The
// gradient of a channel of a sample is one thread's: it adds without atomic additions.
#pragma once

#include <cmath>

#include "runtime/device/body_forms.h"
#include "runtime/device/kernels/image_motion.h"

namespace meshwork::bodies {

// Of pixel (row, column) of y the place (first[d] + along_row[d] * row + along_column[d] * column)
// in x, where d is 0 for rows and 1 for columns.
struct MotionPlaces {
  double first[2], along_row[2] = {1, 0}, along_column[2] = {0, 1};

  MESHWORK_HOST_DEVICE MotionPlaces(const ImageMotion& of, const ImageMotionShape& at,
                                    const float* u)
      : first{0, 0} {
    const std::int64_t length[2] = {at.rows, at.columns};
    const double drawn[2] = {u[0], of.joint ? u[0] : u[1]};
    double t[2], middle[2];
    for (int d = 0; d < 2; ++d) {
      const double low = of.low[static_cast<std::size_t>(d)];
      const double high = of.high[static_cast<std::size_t>(d)];
      t[d] = low + (high - low) * drawn[d];
      middle[d] = static_cast<double>(length[d] - 1) / 2;
    }
    double* const along[2] = {along_row, along_column};
    if (of.motion == Motion::rotation) {
      const double angle = 6.283185307179586 * t[0];
      along_row[0] = along_column[1] = std::cos(angle);
      along_row[1] = -std::sin(angle);
      along_column[0] = std::sin(angle);
      for (int d = 0; d < 2; ++d) {
        first[d] = middle[d] - along_row[d] * middle[0] - along_column[d] * middle[1];
      }
      return;
    }
    for (int d = 0; d < 2; ++d) {
      if (of.motion == Motion::translation) {
        first[d] = -t[d] * static_cast<double>(length[d]);
      } else if (of.motion == Motion::crop) {
        first[d] = std::floor(t[d]);
      } else if (of.motion == Motion::zoom) {
        along[d][d] = 1 + t[d];
        first[d] = -t[d] * middle[d];
      } else if (drawn[d] < 0.5 && of.high[static_cast<std::size_t>(d)] > 0) {
        along[d][d] = -1;
        first[d] = 2 * middle[d];
      }
    }
  }
};

// The index that stands for index i of `length`; -1: the fill value does.
MESHWORK_HOST_DEVICE inline std::int64_t filled_index(FillMode fill, std::int64_t i,
                                                      std::int64_t length) {
  if (i >= 0 && i < length) return i;
  if (fill == FillMode::constant) return -1;
  if (fill == FillMode::nearest) return i < 0 ? 0 : length - 1;
  const std::int64_t period = fill == FillMode::wrap ? length : 2 * length;
  const std::int64_t within = (i % period + period) % period;
  return within < length ? within : period - 1 - within;
}

// An image of a sample, for the pixels of one row of y.
struct MovedRow {
  const float* x;  // of the sample
  float* y;
  ImageMotion of;
  ImageMotionShape at;
  MotionPlaces places;
  double row;

  /// f(pixel of x or -1, its weight) for each pixel that (row, column) of y is made of.
  template <class Function>
  MESHWORK_HOST_DEVICE void each(std::int64_t column, const Function& f) const {
    const std::int64_t length[2] = {at.rows, at.columns};
    std::int64_t index[2][2];
    double weight[2][2];
    for (int d = 0; d < 2; ++d) {
      const double place = places.first[d] + places.along_row[d] * row +
                           places.along_column[d] * static_cast<double>(column);
      const bool nearest = of.interpolation == Interpolation::nearest;
      const double below = std::floor(nearest ? place + 0.5 : place);
      weight[d][1] = nearest ? 0 : place - below;
      weight[d][0] = 1 - weight[d][1];
      for (int side = 0; side < 2; ++side) {
        index[d][side] = filled_index(of.fill, static_cast<std::int64_t>(below) + side, length[d]);
      }
    }
    for (int r = 0; r < 2; ++r) {
      for (int c = 0; c < 2; ++c) {
        const double both = weight[0][r] * weight[1][c];
        const bool inside = index[0][r] >= 0 && index[1][c] >= 0;
        if (both != 0) f(inside ? index[0][r] * at.columns + index[1][c] : -1, both);
      }
    }
  }
  MESHWORK_HOST_DEVICE void operator()(std::int64_t element, std::int64_t i) const {
    const std::int64_t channel = element % at.channels;
    double sum = 0;
    each(element / at.channels, [&](std::int64_t pixel, double weight) {
      const float value = pixel < 0 ? of.fill_value : x[pixel * at.channels + channel];
      sum += weight * static_cast<double>(value);
    });
    y[i] = static_cast<float>(sum);
  }
};

struct MovedImages {
  const float *x, *u;
  float* y;
  ImageMotion of;
  ImageMotionShape at;
  [[nodiscard]] MESHWORK_HOST_DEVICE MovedRow row(std::int64_t row) const {
    const std::int64_t sample = row / at.to_rows;
    return {x + sample * at.rows * at.columns * at.channels,
            y,
            of,
            at,
            MotionPlaces(of, at, u + 2 * sample),
            static_cast<double>(row % at.to_rows)};
  }
};

struct MovedGradients {
  const float *dy, *u;
  float* dx;
  ImageMotion of;
  ImageMotionShape at;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t plane) const {
    const std::int64_t sample = plane / at.channels, channel = plane % at.channels;
    float* const to = dx + sample * at.rows * at.columns * at.channels + channel;
    const float* from = dy + sample * at.to_rows * at.to_columns * at.channels + channel;
    MovedRow moved{nullptr, nullptr, of, at, MotionPlaces(of, at, u + 2 * sample), 0};
    for (std::int64_t row = 0; row < at.to_rows; ++row) {
      moved.row = static_cast<double>(row);
      for (std::int64_t column = 0; column < at.to_columns; ++column) {
        const double gradient = *from;
        from += at.channels;
        moved.each(column, [&](std::int64_t pixel, double weight) {
          if (pixel >= 0) to[pixel * at.channels] += static_cast<float>(weight * gradient);
        });
      }
    }
  }
};

template <class Loops>
void add_image_motion(auto& kernels) {
  kernels.template add<ImageMotionSpec>([](const ImageMotionSpec& spec, const auto& context) {
    return Loops::grid(
        context, spec.at.batch * spec.at.to_rows, spec.at.to_columns * spec.at.channels, 64,
        [of = spec.motion, at_shape = spec.at](void* const* operands) {
          return MovedImages{at(operands, 0), at(operands, 1), at(operands, 2), of, at_shape};
        });
  });
  kernels.template add<ImageMotionGradientSpec>([](const ImageMotionGradientSpec& spec,
                                                   const auto& context) {
    return Loops::elements(
        context, spec.at.batch * spec.at.channels, 64 * spec.at.to_rows * spec.at.to_columns,
        [of = spec.motion, at_shape = spec.at](void* const* operands) {
          return MovedGradients{at(operands, 0), at(operands, 1), at(operands, 2), of, at_shape};
        });
  });
}

}  // namespace meshwork::bodies
