// Upsampling of images with channels last, by repeating or by interpolating between neighbours.
//
// Which inputs an output looks at, and with which weights, is worked out per dimension when the
// kernel is made, in whole numbers from global indices: every split gives the same numbers. Nearest
// is bilinear with all weight on the first of two. Gradients are added output by output, an image
// on one thread. Bound by memory traffic.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "collectives/error.h"
#include "runtime/device/cpu/loops.h"
#include "runtime/device/kernels/upsampling.h"
#include "runtime/device/upsampling_looks.h"

namespace meshwork::cpu {

namespace {

struct Upsampling {
  Upsampling(const UpsamplingShape& shape, const std::string& name) : at(shape) {
    // Of nothing nothing is looked at.
    if (at.batch == 0 || at.channels == 0 || at.rows.output == 0 || at.columns.output == 0) return;
    rows = looks_of(at.rows, at.interpolation, name);
    columns = looks_of(at.columns, at.interpolation, name);
  }
  [[nodiscard]] std::int64_t image_count() const {
    return at.rows.input * at.columns.input * at.channels;
  }
  /// Offset of the input (row, column) of an image.
  [[nodiscard]] std::int64_t input(std::int64_t row, std::int64_t column) const {
    return (row * at.columns.input + column) * at.channels;
  }

  UpsamplingShape at;
  std::vector<Look> rows, columns;  // by output
};

void enlarge_nearest(const Upsampling& of, const Look& row, const float* image, float* to) {
  for (const Look& column : of.columns) {
    std::memcpy(to, image + of.input(row.low, column.low),
                static_cast<std::size_t>(of.at.channels) * sizeof(float));
    to += of.at.channels;
  }
}

void enlarge_bilinear(const Upsampling& of, const Look& row, const float* image, float* to) {
  for (const Look& column : of.columns) {
    const float* above_left = image + of.input(row.low, column.low);
    const float* above_right = image + of.input(row.low, column.high);
    const float* below_left = image + of.input(row.high, column.low);
    const float* below_right = image + of.input(row.high, column.high);
    const float down = row.weight, right = column.weight;
#pragma omp simd
    for (std::int64_t c = 0; c < of.at.channels; ++c) {
      const float above = (1 - right) * above_left[c] + right * above_right[c];
      const float below = (1 - right) * below_left[c] + right * below_right[c];
      to[c] = (1 - down) * above + down * below;
    }
    to += of.at.channels;
  }
}

KernelPointer compile(const UpsamplingSpec& spec, const Context& context) {
  const auto body = [of = Upsampling(spec.at, spec.text()),
                     threads = context.threads](void* const* operands) {
    const UpsamplingShape& at = of.at;
    const float* x = meshwork::at(operands, 0);
    float* y = meshwork::at(operands, 1);
    const auto outputs = static_cast<std::int64_t>(of.rows.size());
    const std::int64_t row_count = at.columns.output * at.channels;
    for_rows(threads, at.batch * outputs, row_count * 8, [&](std::int64_t row) {
      const float* image = x + row / outputs * of.image_count();
      const Look& look = of.rows[static_cast<std::size_t>(row % outputs)];
      if (at.interpolation == Interpolation::nearest) {
        enlarge_nearest(of, look, image, y + row * row_count);
      } else {
        enlarge_bilinear(of, look, image, y + row * row_count);
      }
    });
  };
  return make_kernel(body);
}

KernelPointer compile(const UpsamplingGradientSpec& spec, const Context& context) {
  const auto body = [of = Upsampling(spec.at, spec.text()),
                     threads = context.threads](void* const* operands) {
    const UpsamplingShape& at = of.at;
    const float* dy = meshwork::at(operands, 0);
    float* dx = meshwork::at(operands, 1);
    const std::int64_t channels = at.channels;
    for_rows(threads, at.batch, of.image_count() * 8, [&](std::int64_t n) {
      float* image = dx + n * of.image_count();
      std::fill_n(image, of.image_count(), 0.0f);
      const float* gradient = dy + n * at.rows.output * at.columns.output * channels;
      const auto add = [&](std::int64_t row, std::int64_t column, float weight) {
        if (weight == 0.0f) return;
        float* to = image + of.input(row, column);
#pragma omp simd
        for (std::int64_t c = 0; c < channels; ++c) to[c] += weight * gradient[c];
      };
      for (const Look& row : of.rows) {
        for (const Look& column : of.columns) {
          const float down = row.weight, right = column.weight;
          add(row.low, column.low, (1 - down) * (1 - right));
          add(row.low, column.high, (1 - down) * right);
          add(row.high, column.low, down * (1 - right));
          add(row.high, column.high, down * right);
          gradient += channels;
        }
      }
    });
  };
  return make_kernel(body);
}

}  // namespace

void add_upsampling(Kernels& kernels) {
  kernels.add<UpsamplingSpec, UpsamplingGradientSpec>(
      [](const auto& spec, const Context& context) { return compile(spec, context); });
}

}  // namespace meshwork::cpu
