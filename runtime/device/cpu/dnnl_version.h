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

inline void append_relu(dnnl::post_ops& operations) {
#if DNNL_VERSION_MAJOR >= 3
  operations.append_eltwise(dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
#else
  operations.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
#endif
}

}  // namespace meshwork::cpu
