// Upsampling of images with channels last, by repeating or by interpolating between neighbours.
//
// What outputs look at (upsampling_looks.h), and which outputs look at an input, are tables in
// device memory. A thread an element of the result; the gradient gathers, in the order of the
// outputs. Bound by memory traffic.
#include <algorithm>
#include <vector>

#include "runtime/device/body_kernel.h"
#include "runtime/device/cuda/image_index.h"
#include "runtime/device/cuda/kernels.h"
#include "runtime/device/cuda/launch.h"
#include "runtime/device/kernels/upsampling.h"
#include "runtime/device/upsampling_looks.h"

namespace meshwork::cuda {

namespace {

/// Outputs [begin, end): all that look at one input, and perhaps some that do not.
struct Lookers {
  std::int64_t begin, end;
};

std::vector<Lookers> lookers_of(const std::vector<Look>& looks, std::int64_t inputs) {
  std::vector<Lookers> lookers(static_cast<std::size_t>(inputs), Lookers{0, 0});
  const auto add = [&](std::int64_t input, std::int64_t output) {
    Lookers& of = lookers[static_cast<std::size_t>(input)];
    if (of.begin == of.end) of.begin = output;
    of.end = output + 1;
  };
  for (std::size_t o = 0; o < looks.size(); ++o) {
    add(looks[o].low, static_cast<std::int64_t>(o));
    add(looks[o].high, static_cast<std::int64_t>(o));
  }
  return lookers;
}

/// The weight with which `look` looks at `input`.
[[nodiscard]] MESHWORK_HOST_DEVICE float weight_of(const Look& look, std::int64_t input) {
  return (look.low == input ? 1 - look.weight : 0.0f) + (look.high == input ? look.weight : 0.0f);
}

struct Enlarge {
  UpsamplingShape at;
  const Look *rows, *columns;
  const float* x;
  float* y;
  [[nodiscard]] MESHWORK_HOST_DEVICE float input(const ImageIndex& of, std::int64_t row,
                                                 std::int64_t column) const {
    return x[((of.image * at.rows.input + row) * at.columns.input + column) * at.channels +
             of.channel];
  }
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    const ImageIndex of = image_index(i, at.rows.output, at.columns.output, at.channels);
    const Look row = rows[of.row], column = columns[of.column];
    if (at.interpolation == Interpolation::nearest) {
      y[i] = input(of, row.low, column.low);
      return;
    }
    const float down = row.weight, right = column.weight;
    const float above =
        (1 - right) * input(of, row.low, column.low) + right * input(of, row.low, column.high);
    const float below =
        (1 - right) * input(of, row.high, column.low) + right * input(of, row.high, column.high);
    y[i] = (1 - down) * above + down * below;
  }
};

struct EnlargeGradient {
  UpsamplingShape at;
  const Look *rows, *columns;
  const Lookers *row_lookers, *column_lookers;
  const float* dy;
  float* dx;
  MESHWORK_HOST_DEVICE void operator()(std::int64_t i) const {
    const ImageIndex of = image_index(i, at.rows.input, at.columns.input, at.channels);
    const Lookers down = row_lookers[of.row], right = column_lookers[of.column];
    float sum = 0;
    for (std::int64_t row = down.begin; row < down.end; ++row) {
      const float row_weight = weight_of(rows[row], of.row);
      if (row_weight == 0.0f) continue;
      for (std::int64_t column = right.begin; column < right.end; ++column) {
        const float weight = row_weight * weight_of(columns[column], of.column);
        if (weight == 0.0f) continue;
        sum += weight *
               dy[((of.image * at.rows.output + row) * at.columns.output + column) * at.channels +
                  of.channel];
      }
    }
    dx[i] = sum;
  }
};

template <class T>
std::shared_ptr<const Memory> upload(const Context& context, const std::vector<T>& table) {
  return context.upload(table.data(), static_cast<std::int64_t>(table.size() * sizeof(T)));
}
template <class T>
const T* table_in(const std::shared_ptr<const Memory>& memory) {
  return static_cast<const T*>(memory->data());
}

/// The tables of one shape; empty where nothing is written or looked at.
struct Tables {
  std::vector<Look> rows, columns;
  Tables(const UpsamplingShape& at, const std::string& name) {
    if (at.batch == 0 || at.channels == 0 || at.rows.output == 0 || at.columns.output == 0) return;
    rows = looks_of(at.rows, at.interpolation, name);
    columns = looks_of(at.columns, at.interpolation, name);
  }
};

KernelPointer compile(const UpsamplingSpec& spec, const Context& context) {
  const Tables tables(spec.at, *context.launcher.name);
  return make_kernel([at = spec.at, rows = upload(context, tables.rows),
                      columns = upload(context, tables.columns),
                      launcher = context.launcher](void* const* operands) {
    for_elements(launcher, at.batch * at.rows.output * at.columns.output * at.channels,
                 Enlarge{at, table_in<Look>(rows), table_in<Look>(columns),
                         meshwork::at(operands, 0), meshwork::at(operands, 1)});
  });
}

KernelPointer compile(const UpsamplingGradientSpec& spec, const Context& context) {
  const Tables tables(spec.at, *context.launcher.name);
  return make_kernel(
      [at = spec.at, rows = upload(context, tables.rows), columns = upload(context, tables.columns),
       row_lookers = upload(context, lookers_of(tables.rows, spec.at.rows.input)),
       column_lookers = upload(context, lookers_of(tables.columns, spec.at.columns.input)),
       launcher = context.launcher](void* const* operands) {
        for_elements(
            launcher, at.batch * at.rows.input * at.columns.input * at.channels,
            EnlargeGradient{at, table_in<Look>(rows), table_in<Look>(columns),
                            table_in<Lookers>(row_lookers), table_in<Lookers>(column_lookers),
                            meshwork::at(operands, 0), meshwork::at(operands, 1)});
      });
}

}  // namespace

void add_upsampling(Kernels& kernels) {
  kernels.add<UpsamplingSpec, UpsamplingGradientSpec>(
      [](const auto& spec, const Context& context) { return compile(spec, context); });
}

}  // namespace meshwork::cuda
