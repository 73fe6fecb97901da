// exp, log, sigmoid, tanh and Phi in float32, written so that the compiler vectorises the loops
// that call them: no branches, no calls, no tables.
//
// Polynomials and reductions are those of S. L. Moshier's Cephes library (expf, logf, tanhf,
// ndtrf). NaN stays NaN, and each is accurate to a few units in the last place over the whole
// range; the tests state how many. Results too small for a normal number may be flushed to zero.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace meshwork::cpu {

/// e^x = p * 2^n for x between -105 and 89. p lies around 1. `shifted` has the bits of `shift` plus
/// n, and the low 9 bits of `shift` are 127: those of `shifted` are the exponent of 2^n.
struct VectorExp {
  float p, shifted;
  static constexpr float shift = 12582912.0f + 127;  // 1.5 * 2^23 + 127

  explicit VectorExp(float x) {
    shifted = x * 1.44269504088896341f + shift;
    const float n = shifted - shift;
    // ln 2 in two parts, the first exact in few bits.
    float r = x - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
  }
};

/// e^x; infinity from 88.73 on, 0 below -104.
[[nodiscard]] inline float vector_exp(float x) {
  x = x > 89.0f ? 89.0f : x;
  x = x < -105.0f ? -105.0f : x;
  const VectorExp e(x);
  // 2^n as a product of two, each of which is a normal number.
  const std::int32_t n =
      std::bit_cast<std::int32_t>(e.shifted) - std::bit_cast<std::int32_t>(VectorExp::shift);
  const std::int32_t half = n >> 1;
  const float low = std::bit_cast<float>((half + 127) << 23);
  const float high = std::bit_cast<float>((n - half + 127) << 23);
  return e.p * low * high;
}

/// e^x for x up to 80, in two thirds of the instructions; 0 below -87.
[[nodiscard]] inline float vector_exp_to_one(float x) {
  const VectorExp e(x);
  const float power = std::bit_cast<float>(std::bit_cast<std::uint32_t>(e.shifted) << 23);
  return x < -87.0f ? 0.0f : e.p * power;
}

/// 2^x for x up to 127, in three quarters of the instructions of `vector_exp_to_one`; 0 below -126.
/// The polynomial is that of least relative error which is 1 at 0.
[[nodiscard]] inline float vector_exp2_to_one(float x) {
  const float shifted = x + VectorExp::shift;
  const float r = x - (shifted - VectorExp::shift);
  float p = 1.55946812871746e-4f;
  p = p * r + 1.34066437149972e-3f;
  p = p * r + 9.61769295978622e-3f;
  p = p * r + 5.55031055159046e-2f;
  p = p * r + 2.40226527830054e-1f;
  p = p * r + 6.93147214967731e-1f;
  p = p * r + 1.0f;
  const float power = std::bit_cast<float>(std::bit_cast<std::uint32_t>(shifted) << 23);
  return x < -126.0f ? 0.0f : p * power;
}

/// ln x for normal x > 0; -infinity for 0 and below the normal numbers, infinity for infinity, NaN
/// for negative x.
[[nodiscard]] inline float vector_log(float x) {
  const std::int32_t bits = std::bit_cast<std::int32_t>(x);
  // x = 2^exponent * m with m in [sqrt(1/2), sqrt(2)).
  const std::int32_t offset = bits - 0x3f3504f3;
  const std::int32_t exponent = offset >> 23;
  const float m = std::bit_cast<float>(bits - (exponent << 23)) - 1.0f;
  const float n = static_cast<float>(exponent);
  const float square = m * m;
  float p = 7.0376836292e-2f;
  p = p * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  float result = p * m * square;
  result = result + n * -2.12194440e-4f;
  result = result - 0.5f * square;
  result = m + result;
  result = result + n * 0.693359375f;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  result = x < std::numeric_limits<float>::min() ? -infinity : result;
  result = x == infinity ? infinity : result;
  return x < 0.0f || x != x ? std::numeric_limits<float>::quiet_NaN() : result;
}

/// ln(1 + x) for x >= 0, to a few units in the last place also for tiny x (Kahan's correction of
/// the rounding of 1 + x).
[[nodiscard]] inline float vector_log1p(float x) {
  const float sum = 1.0f + x;
  const float rounded = sum - 1.0f;
  const float safe = rounded == 0.0f ? 1.0f : rounded;
  return rounded == 0.0f ? x : vector_log(sum) * (x / safe);
}

/// 1 / (1 + e^-x), from e^-|x| so that nothing overflows; 0 below -87.
[[nodiscard]] inline float vector_sigmoid(float x) {
  const float magnitude = x < 0.0f ? -x : x;
  const float e = vector_exp_to_one(-magnitude);
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

[[nodiscard]] inline float vector_tanh(float x) {
  const float magnitude = x < 0.0f ? -x : x;
  // e^80 does not overflow, and tanh is 1 long before.
  const float e = vector_exp_to_one(magnitude > 40.0f ? 80.0f : 2.0f * magnitude);
  const float large = 1.0f - 2.0f / (e + 1.0f);
  const float square = x * x;
  float p = -5.70498872745e-3f;
  p = p * square + 2.06390887954e-2f;
  p = p * square - 5.37397155531e-2f;
  p = p * square + 1.33314422036e-1f;
  p = p * square - 3.33332819422e-1f;
  const float small = p * square * x + x;
  return magnitude < 0.625f ? small : (x < 0.0f ? -large : large);
}

/// Phi(x), the distribution function of the standard normal, to relative accuracy also in its
/// tails.
[[nodiscard]] inline float vector_normal_cdf(float x) {
  const float t = x * 0.707106781186547524f;
  const float magnitude = t < 0.0f ? -t : t;
  const float square = t * t;
  // |t| < 1: erf as an odd polynomial.
  float small = 7.853861353153693e-5f;
  small = small * square - 8.010193625184903e-4f;
  small = small * square + 5.188327685732524e-3f;
  small = small * square - 2.685381193529856e-2f;
  small = small * square + 1.128358514861418e-1f;
  small = small * square - 3.761262582423300e-1f;
  small = small * square + 1.128379165726710f;
  const float near = 0.5f + 0.5f * small * t;
  // Else erfc(|t|) = e^(-t^2) / |t| * polynomial in 1 / t^2, one for |t| < 2, one beyond. e^x would
  // magnify the rounding of the square: it is found from the halves of t and taken off again.
  const float safe = magnitude < 1.0f ? 1.0f : (magnitude > 14.0f ? 14.0f : magnitude);
  const float q = 1.0f / safe;
  const float y = q * q;
  float middle = 2.326819970068386e-2f;
  middle = middle * y - 1.387039388740657e-1f;
  middle = middle * y + 3.687424674597105e-1f;
  middle = middle * y - 5.824733027278666e-1f;
  middle = middle * y + 6.210004621745983e-1f;
  middle = middle * y - 4.944515323274145e-1f;
  middle = middle * y + 3.404879937665872e-1f;
  middle = middle * y - 2.741127028184656e-1f;
  middle = middle * y + 5.638259427386472e-1f;
  float far = -1.047766399936249e+1f;
  far = far * y + 1.297719955372516e+1f;
  far = far * y - 7.495518717768503e+0f;
  far = far * y + 2.921019019210786e+0f;
  far = far * y - 1.015265279202700e+0f;
  far = far * y + 4.218463358204948e-1f;
  far = far * y - 2.820767439740514e-1f;
  far = far * y + 5.641895067754075e-1f;
  const float high = std::bit_cast<float>(std::bit_cast<std::int32_t>(safe) & ~0xfff);
  const float low = safe - high;
  const float squared = safe * safe;
  const float lost = high * high - squared + 2.0f * high * low + low * low;
  const float exponential = vector_exp(-squared) * (1.0f - lost);
  const float tail = 0.5f * exponential * q * (safe < 2.0f ? middle : far);
  const float outside = t < 0.0f ? tail : 1.0f - tail;
  return magnitude < 1.0f || x != x ? near : outside;
}

}  // namespace meshwork::cpu
