// Networks that nobody thought of, drawn by a number: the section `model` of a configuration, as a
// user writes it.
//
// A network is a chain of layers over images, sequences or vectors, with branches that add or
// concatenate, and with layers that are called several times (repeated_layer.h, which the reader of
// the text has to know); lengths are small and odd, so that blocks are unequal, thinner than windows, or
// empty. Every layer's options are drawn too. Every network is legal.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "collectives/joined_text.h"
#include "runtime/device/kernels/activation.h"
#include "runtime/shape/shape.h"

namespace meshwork::test {

/// Numbers that are the same on every machine.
class Draws {
 public:
  explicit Draws(unsigned seed) : words_(seed) {}
  /// From `low` to `high`, both among them.
  std::int64_t from(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(words_() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool one_in(std::int64_t n) { return from(1, n) == 1; }
  template <class T>
  const T& of(const std::vector<T>& all) {
    return all[static_cast<std::size_t>(from(0, static_cast<std::int64_t>(all.size()) - 1))];
  }

 private:
  std::mt19937 words_;
};

class RandomNetwork {
 public:
  explicit RandomNetwork(Draws& draws) : draws_(draws) {
    switch (draws_.from(1, 8)) {
      case 1:
        sample_ = {draws_.from(2, 9)};
        break;
      case 2:
      case 3:
        sample_ = {draws_.from(1, 13), draws_.from(1, 4)};
        break;
      default:
        sample_ = {draws_.from(1, 9), draws_.from(1, 9), draws_.from(1, 4)};
        if (draws_.one_in(4)) {
          sample_ = {draws_.from(5, 17), draws_.from(5, 17), draws_.from(1, 2)};
        }
    }
    shape_ = sample_;
    for (std::int64_t left = draws_.from(1, 7); left > 0; --left) {
      if (element_count(shape_) > 2000) {
        add_pooling();
      } else {
        add_something();
      }
    }
    add_head();
  }

  [[nodiscard]] std::string text() const {
    return fmt::format("model:\n  input: [{}]\n  layers:\n{}", joined_text(sample_, ", "), layers_);
  }
  [[nodiscard]] const Shape& sample() const { return sample_; }
  /// Of a sample of the prediction.
  [[nodiscard]] const Shape& shape() const { return shape_; }

 private:
  using Options = std::vector<std::string>;

  static std::string both(std::int64_t a, std::int64_t b) { return fmt::format("[{}, {}]", a, b); }
  std::string padding() { return draws_.one_in(3) ? "valid" : "same"; }

  // ---- the text ---------------------------------------------------------------------------------

  // A layer that takes what the one before it gave, or `inputs`; gives its name.
  std::string add(const std::string& layer, const Options& options, Shape shape,
                  const std::string& inputs = "") {
    const std::string name = fmt::format("l{}", ++count_);
    std::string text = fmt::format("    - {}: {{name: {}", layer, name);
    if (!inputs.empty()) {
      text += ", inputs: " + inputs;
    }
    for (const std::string& option : options) {
      text += ", " + option;
    }
    layers_ += text + "}\n";
    shape_ = std::move(shape);
    return name;
  }

  void kernel_options(Options& options) {
    if (draws_.one_in(2)) {
      options.push_back("activation: " +
                        draws_.of<std::string>({"relu", "tanh", "gelu", "sigmoid", "relu", "elu",
                                                "silu", "softsign"}));
    }
    if (draws_.one_in(3)) {
      options.emplace_back("use_bias: false");
    } else {
      // Not zero: a bias that only noise moves would put values on either side of relu's kink.
      options.emplace_back("bias_initializer: random_uniform");
    }
    if (draws_.one_in(5)) {
      options.emplace_back("kernel_regularizer: {L2: 0.01}");
    }
    if (draws_.one_in(6)) options.emplace_back("trainable: false");
  }

  // ---- lengths ----------------------------------------------------------------------------------

  struct Window {
    std::int64_t size, stride, dilation;
  };
  // 0 if no window fits.
  static std::int64_t windows(std::int64_t length, const Window& at, const std::string& padding) {
    if (padding != "valid") {
      return (length + at.stride - 1) / at.stride;
    }
    const std::int64_t extent = (at.size - 1) * at.dilation + 1;
    return length < extent ? 0 : (length - extent) / at.stride + 1;
  }

  // ---- layers -----------------------------------------------------------------------------------

  void add_something() {
    if (draws_.one_in(5)) {
      return add_repeated();
    }
    if (shape_.size() == 1) {
      return draws_.one_in(2) ? add_dense() : add_anywhere();
    }
    if (draws_.one_in(3)) {
      return add_anywhere();
    }
    if (shape_.size() == 2) {
      return draws_.one_in(3) ? add_pooling() : add_convolution();
    }
    switch (draws_.from(1, 10)) {
      case 1:
        return add_transposed();
      case 2:
      case 3:
        return add_pooling();
      case 4:
        return draws_.one_in(3) ? add_cropping() : add_padding();
      case 5:
        return add_enlarging();
      case 6:
        return add_branches();
      default:
        return add_convolution();
    }
  }

  void add_dense() {
    Shape shape = shape_;
    shape.back() = draws_.from(1, 7);
    Options options{fmt::format("units: {}", shape.back())};
    kernel_options(options);
    add("Dense", options, shape);
  }

  void add_convolution(const std::string& inputs = "") {
    const std::size_t spatial = shape_.size() - 1;
    std::string padding = this->padding();
    if (spatial == 1 && draws_.one_in(3)) {
      padding = "causal";
    }
    Shape shape = shape_;
    std::vector<std::int64_t> sizes, strides, dilations;
    for (std::size_t d = 0; d < spatial; ++d) {
      Window at{draws_.from(1, 5), draws_.one_in(3) ? draws_.from(2, 3) : 1, 1};
      if (draws_.one_in(4)) {
        at.dilation = draws_.from(2, 3);
      }
      while (windows(shape_[d], at, padding) == 0) {
        --at.size;
      }
      shape[d] = windows(shape_[d], at, padding);
      sizes.push_back(at.size);
      strides.push_back(at.stride);
      dilations.push_back(at.dilation);
    }
    std::vector<std::int64_t> divisors;
    for (std::int64_t g = 1; g <= shape_.back(); ++g) {
      if (shape_.back() % g == 0) {
        divisors.push_back(g);
      }
    }
    const std::int64_t groups = draws_.one_in(3) ? draws_.of(divisors) : 1;
    shape.back() = groups * draws_.from(1, groups > 1 ? 3 : 7);
    Options options{fmt::format("filters: {}", shape.back()), "padding: " + padding};
    const auto lengths = [&](const std::string& name, const std::vector<std::int64_t>& of,
                             bool required) {
      if (required || *std::max_element(of.begin(), of.end()) > 1) {
        options.push_back(spatial == 1 ? fmt::format("{}: {}", name, of[0])
                                       : fmt::format("{}: [{}]", name, joined_text(of, ", ")));
      }
    };
    lengths("kernel_size", sizes, true);
    lengths("strides", strides, false);
    lengths("dilation_rate", dilations, false);
    if (groups > 1) {
      options.push_back(fmt::format("groups: {}", groups));
    }
    kernel_options(options);
    add(spatial == 1 ? "Conv1D" : "Conv2D", options, shape, inputs);
  }

  void add_transposed() {
    const std::string padding = this->padding();
    Shape shape = shape_;
    std::vector<std::int64_t> sizes, strides, dilations;
    for (std::size_t d = 0; d < 2; ++d) {
      sizes.push_back(draws_.from(1, 4));
      strides.push_back(shape_[d] > 6 ? 1 : draws_.from(1, 3));
      dilations.push_back(draws_.one_in(5) ? 2 : 1);
      const std::int64_t extent = (sizes[d] - 1) * dilations[d] + 1;
      shape[d] = shape_[d] * strides[d] +
                 (padding == "valid" ? std::max<std::int64_t>(extent - strides[d], 0) : 0);
    }
    shape[2] = draws_.from(1, 5);
    Options options{fmt::format("filters: {}", shape[2]), "padding: " + padding,
                    "kernel_size: " + both(sizes[0], sizes[1]),
                    "strides: " + both(strides[0], strides[1]),
                    "dilation_rate: " + both(dilations[0], dilations[1])};
    kernel_options(options);
    add("Conv2DTranspose", options, shape);
  }

  void add_pooling() {
    const std::size_t spatial = shape_.size() - 1;
    const std::string padding = this->padding();
    const bool strided = draws_.one_in(2);
    Shape shape = shape_;
    std::vector<std::int64_t> sizes, strides;
    for (std::size_t d = 0; d < spatial; ++d) {
      const std::int64_t size = std::min(draws_.from(1, 4), shape_[d]);
      sizes.push_back(size);
      strides.push_back(strided ? draws_.from(1, 3) : size);
      shape[d] = windows(shape_[d], {size, strides[d], 1}, padding);
    }
    Options options{"padding: " + padding};
    if (spatial == 1) {
      options.push_back(fmt::format("pool_size: {}", sizes[0]));
    } else {
      options.push_back("pool_size: " + both(sizes[0], sizes[1]));
    }
    if (strided) {
      options.push_back(spatial == 1 ? fmt::format("strides: {}", strides[0])
                                     : "strides: " + both(strides[0], strides[1]));
    }
    add(fmt::format("{}Pooling{}D", draws_.one_in(2) ? "Max" : "Average", spatial), options, shape);
  }

  void add_cropping() {
    const auto cut = [&](std::size_t d) {
      return draws_.from(0, std::min<std::int64_t>(2, shape_[d] - 1));
    };
    const std::int64_t top = cut(0), right = cut(1);
    add("Cropping2D", {fmt::format("cropping: [[{}, 0], [0, {}]]", top, right)},
        {shape_[0] - top, shape_[1] - right, shape_[2]});
  }

  void add_padding() {
    std::vector<std::int64_t> borders;
    for (int i = 0; i < 4; ++i) {
      borders.push_back(draws_.from(0, 3));
    }
    add("ZeroPadding2D",
        {fmt::format("padding: [[{}, {}], [{}, {}]]", borders[0], borders[1], borders[2],
                     borders[3])},
        {shape_[0] + borders[0] + borders[1], shape_[1] + borders[2] + borders[3], shape_[2]});
  }

  void add_enlarging() {
    const std::int64_t rows = shape_[0] > 8 ? 1 : draws_.from(1, 3);
    const std::int64_t columns = shape_[1] > 8 ? 1 : draws_.from(1, 3);
    add("UpSampling2D",
        {"size: " + both(rows, columns),
         std::string("interpolation: ") + (draws_.one_in(2) ? "bilinear" : "nearest")},
        {shape_[0] * rows, shape_[1] * columns, shape_[2]});
  }

  // Two or three convolutions of one value, which keep its rows and columns, joined.
  void add_branches() {
    const std::string stem = add(
        "Activation", {"activation: " + std::string(draws_.one_in(2) ? "tanh" : "linear")}, shape_);
    const Shape shape = shape_;
    const bool sum = draws_.one_in(2);
    const int dimension = sum ? 2 : static_cast<int>(draws_.from(0, 2));
    const std::int64_t filters = draws_.from(1, 5);
    std::vector<std::string> branches;
    Shape joined = shape;
    joined[dimension] = 0;
    const std::int64_t same_window = draws_.one_in(2) ? draws_.from(1, 4) : 0;
    for (std::int64_t left = draws_.from(2, 3); left > 0; --left) {
      const bool free = !sum && dimension == 2;
      const std::int64_t channels = free ? draws_.from(1, 4) : filters;
      const std::int64_t rows = same_window > 0 ? same_window : draws_.from(1, 4);
      const std::int64_t columns = same_window > 0 ? same_window : draws_.from(1, 4);
      Options options{fmt::format("filters: {}", channels), "padding: same",
                      "kernel_size: " + both(rows, columns)};
      kernel_options(options);
      branches.push_back(add("Conv2D", options, {shape[0], shape[1], channels}, stem));
      if (dimension == 2) {
        joined[2] = sum ? filters : joined[2] + channels;
      } else {
        joined[2] = filters;
        joined[dimension] += shape[dimension];
      }
    }
    const std::string inputs = fmt::format("[{}]", joined_text(branches, ", "));
    if (sum) {
      constexpr const char* merging[] = {"Add", "Multiply", "Average", "Maximum", "Minimum"};
      add(merging[draws_.from(0, 4)], {}, joined, inputs);
    } else {
      add("Concatenate", {fmt::format("axis: {}", dimension + 1)}, joined, inputs);
    }
  }

  Options normalization_options() {
    Options options;
    if (draws_.one_in(3)) options.emplace_back("scale: false");
    if (draws_.one_in(3)) options.emplace_back("center: false");
    if (draws_.one_in(3)) options.emplace_back("momentum: 0.5");
    if (draws_.one_in(4)) options.emplace_back("trainable: false");
    return options;
  }

  // One layer that is called two or three times, on its own output or on several values.
  void add_repeated() {
    const bool chain = draws_.one_in(2);
    Shape shape = shape_;
    std::string layer = "BatchNormalization";
    Options options;
    const auto draw_channels = [&] {
      shape.back() = chain ? shape.back() : draws_.from(1, 5);
      return shape.back();
    };
    switch (draws_.from(1, 6)) {
      case 1:
        layer = "Dense";
        options.push_back(fmt::format("units: {}", draw_channels()));
        kernel_options(options);
        break;
      case 2:
        if (shape_.size() > 1) {
          layer = fmt::format("Conv{}D", shape_.size() - 1);
          options = {fmt::format("filters: {}", draw_channels()), "padding: same",
                     fmt::format("kernel_size: {}", draws_.from(1, 3))};
          kernel_options(options);
          break;
        }
        [[fallthrough]];
      case 3:
        layer = "Sequential";
        options.push_back(
            fmt::format("layers: [Dense: {{units: {}, use_bias: false}}, BatchNormalization: "
                        "{{momentum: 0.5}}, Dropout: {{rate: 0.2}}]",
                        draw_channels()));
        break;
      default:
        options = normalization_options();
    }
    add("Repeated",
        {fmt::format("calls: {}", draws_.from(2, 3)), chain ? "join: chain" : "join: mean",
         fmt::format("layer: {{{}: {{{}}}}}", layer, joined_text(options, ", "))},
        shape);
  }

  void add_anywhere() {
    const auto dimensions = static_cast<std::int64_t>(shape_.size());
    switch (draws_.from(1, 12)) {
      case 12:
        add("Sequential",
            {"layers: [Dense: {units: 3, activation: relu, use_bias: false}, BatchNormalization: , "
             "Dropout: {rate: "
             "0.2}]"},
            [&] {
              Shape shape = shape_;
              shape.back() = 3;
              return shape;
            }());
        break;
      case 1:
      case 2:
      case 3: {
        add("BatchNormalization", normalization_options(), shape_);
        break;
      }
      case 4:
        add("ReLU", draws_.one_in(2) ? Options{"negative_slope: 0.2", "max_value: 0.7"} : Options{},
            shape_);
        break;
      case 5:
        add("Softmax", {fmt::format("axis: {}", draws_.from(1, dimensions))}, shape_);
        break;
      case 6:
        add("Dropout", {"rate: 0.3"}, shape_);
        break;
      case 7:
        add("Rescaling", {"scale: 1.5", "offset: -0.25"}, shape_);
        break;
      case 8: {
        std::vector<std::int64_t> order;
        for (std::int64_t d = 0; d < dimensions; ++d) {
          order.insert(order.begin() + draws_.from(0, d), d + 1);
        }
        Shape shape;
        for (const std::int64_t d : order) {
          shape.push_back(shape_[static_cast<std::size_t>(d - 1)]);
        }
        add("Permute", {fmt::format("dims: [{}]", joined_text(order, ", "))}, shape);
        break;
      }
      case 9: {
        // Two dimensions into one, or the first into two.
        Shape shape = shape_;
        if (shape.size() > 1 && draws_.one_in(2)) {
          const std::size_t d = static_cast<std::size_t>(draws_.from(0, dimensions - 2));
          shape[d] *= shape[d + 1];
          shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(d) + 1);
        } else if (shape.size() < 3) {
          for (std::int64_t factor = 3; factor > 0; --factor) {
            if (shape[0] % factor == 0) {
              shape[0] /= factor;
              shape.insert(shape.begin() + draws_.from(0, 1), factor);
              break;
            }
          }
        }
        add("Reshape", {fmt::format("target_shape: [{}]", joined_text(shape, ", "))}, shape);
        break;
      }
      case 10:
        add_dense();
        break;
      default:
        add_activation();
    }
  }

  void add_activation() {
    switch (draws_.from(1, 4)) {
      case 1:
        add("LeakyReLU", {}, shape_);
        break;
      case 2:
        add("ELU", {"alpha: 0.5"}, shape_);
        break;
      case 3:
        add("PReLU",
            {"alpha_initializer: random_uniform",
             shape_.size() > 1 && draws_.one_in(2) ? "shared_axes: [1]" : "shared_axes: []"},
            shape_);
        break;
      default: {
        const auto all = all_activations();
        const auto which = draws_.from(0, static_cast<std::int64_t>(all.size()) - 1);
        // exp of exp soon is infinite; a jump in the value makes much of a rounding.
        const Activation drawn = all[static_cast<std::size_t>(which)];
        const bool wild = drawn == Activation::exponential || drawn == Activation::hard_shrink;
        add("Activation", {fmt::format("activation: {}", name_of(wild ? Activation::gelu : drawn))},
            shape_);
      }
    }
  }

  // What ends images and sequences, if anything does.
  void add_head() {
    if (shape_.size() > 1) {
      const std::string images = shape_.size() == 2 ? "1D" : "2D";
      switch (draws_.from(1, 4)) {
        case 1:
          add("GlobalAveragePooling" + images, {}, {shape_.back()});
          break;
        case 2:
          add("GlobalMaxPooling" + images, {}, {shape_.back()});
          break;
        case 3:
          add("Flatten", {}, {element_count(shape_)});
          break;
        default:
          break;
      }
    }
    if (draws_.one_in(4)) {
      return;
    }
    Shape shape = shape_;
    shape.back() = draws_.from(2, 6);
    // A bias that is not zero tells classes apart where every feature is.
    add("Dense", {fmt::format("units: {}", shape.back()), "bias_initializer: random_uniform"},
        shape);
  }

  Draws& draws_;
  Shape sample_, shape_;
  std::string layers_;
  int count_ = 0;
};

}  // namespace meshwork::test
