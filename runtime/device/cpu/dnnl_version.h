// The two generations of oneDNN's C++ interface, 2.x and 3.x, under one set of functions. They
// differ in how a primitive is described; nothing else in Meshwork asks for the version.
#pragma once

#include <oneapi/dnnl/dnnl_version.h>
#include <oneapi/dnnl/dnnl.hpp>

namespace meshwork::cpu {

/// `bias` may be an empty descriptor: none.
[[nodiscard]] inline dnnl::matmul::primitive_desc describe_matmul(
    const dnnl::engine& engine, const dnnl::memory::desc& source, const dnnl::memory::desc& weights,
    const dnnl::memory::desc& bias, const dnnl::memory::desc& destination,
    const dnnl::primitive_attr& attributes) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine, source, weights, bias, destination, attributes};
#else
  return {dnnl::matmul::desc(source, weights, bias, destination), attributes, engine};
#endif
}

/// What the three convolutions have in common. Dilations are oneDNN's: 0 for neighbouring places.
struct ConvolutionDescription {
  dnnl::memory::desc source, weights, bias, destination;  // an empty bias: none
  dnnl::memory::dims strides, dilations, padding_before, padding_after;
};

[[nodiscard]] inline dnnl::convolution_forward::primitive_desc describe_convolution(
    const dnnl::engine& engine, const ConvolutionDescription& of,
    const dnnl::primitive_attr& attributes) {
  constexpr auto kind = dnnl::prop_kind::forward_training;
  constexpr auto algorithm = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
  return {engine,           kind,           algorithm,  of.source,    of.weights,
          of.bias,          of.destination, of.strides, of.dilations, of.padding_before,
          of.padding_after, attributes};
#else
  return {{kind, algorithm, of.source, of.weights, of.bias, of.destination, of.strides,
           of.dilations, of.padding_before, of.padding_after},
          attributes,
          engine};
#endif
}

/// A gradient of the convolution `forward`: dnnl::convolution_backward_data, by its input, or
/// dnnl::convolution_backward_weights, by its kernel and not by its bias.
template <class Gradient>
[[nodiscard]] typename Gradient::primitive_desc describe_convolution_gradient(
    const dnnl::engine& engine, const ConvolutionDescription& of,
    const dnnl::primitive_attr& attributes,
    const dnnl::convolution_forward::primitive_desc& forward) {
  constexpr auto algorithm = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
  return {engine,       algorithm,         of.source,        of.weights, of.destination, of.strides,
          of.dilations, of.padding_before, of.padding_after, forward,    attributes};
#else
  return {{algorithm, of.source, of.weights, of.destination, of.strides, of.dilations,
           of.padding_before, of.padding_after},
          attributes,
          engine,
          forward};
#endif
}

}  // namespace meshwork::cpu
