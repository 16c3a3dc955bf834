// What a C++ kernel of a pass may use: float16 and bfloat16, float vectors, a parallel loop.
//
// Arithmetic is float32; `load` widens, `store` rounds to nearest even, `round<T>` rounds a value as if it had
// been stored as T and loaded again, which is what eager does between two operators.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <omp.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace pn {

using i64 = std::int64_t;

// ---- 16-bit floats ------------------------------------------------------------------------------------------

inline float bits_to_float(std::uint32_t u) { float f; std::memcpy(&f, &u, 4); return f; }
inline std::uint32_t float_to_bits(float f) { std::uint32_t u; std::memcpy(&u, &f, 4); return u; }

struct bf16 {
  std::uint16_t bits;
  bf16() = default;
  bf16(float f) {
    const std::uint32_t u = float_to_bits(f);
    bits = f != f ? 0x7fc0 : static_cast<std::uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
  }
  operator float() const { return bits_to_float(static_cast<std::uint32_t>(bits) << 16); }
};

struct half {
  std::uint16_t bits;
  half() = default;
#ifdef __F16C__
  half(float f) : bits(static_cast<std::uint16_t>(_cvtss_sh(f, _MM_FROUND_TO_NEAREST_INT))) {}
  operator float() const { return _cvtsh_ss(bits); }
#else
  half(float f) {
    const std::uint32_t u = float_to_bits(f), sign = (u >> 16) & 0x8000, a = u & 0x7fffffff;
    std::uint32_t h;
    if (a > 0x7f800000) h = 0x7e00;                       // NaN
    else if (a >= 0x477ff000) h = 0x7c00;                 // rounds to infinity
    else if (a < 0x38800000) {                            // subnormal: the float adder rounds to 2^-24
      h = float_to_bits(bits_to_float(a) + 0.5f) - 0x3f000000;
    } else h = (a - 0x38000000 + 0xfff + ((a >> 13) & 1)) >> 13;
    bits = static_cast<std::uint16_t>(sign | h);
  }
  operator float() const {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16, e = (bits >> 10) & 31, m = bits & 0x3ff;
    if (e == 0) { const float f = static_cast<float>(m) * 0x1p-24f; return sign ? -f : f; }
    if (e == 31) return bits_to_float(sign | 0x7f800000 | (m << 13));
    return bits_to_float(sign | ((e + 112) << 23) | (m << 13));
  }
#endif
};

template <typename T> inline float round(float x) { return static_cast<float>(T(x)); }
template <> inline float round<float>(float x) { return x; }

// ---- vectors of W floats -------------------------------------------------------------------------------------

constexpr int W = 16;
typedef float vec __attribute__((vector_size(64)));
typedef std::int32_t ivec __attribute__((vector_size(64)));
typedef std::uint32_t uvec __attribute__((vector_size(64)));
typedef std::uint16_t u16vec __attribute__((vector_size(32)));

inline vec splat(float x) { return x - vec{}; }

inline vec widen(u16vec h, half) {
#if defined(__AVX512F__)
  return reinterpret_cast<vec>(_mm512_cvtph_ps(reinterpret_cast<__m256i>(h)));
#elif defined(__F16C__)
  __m128i part[2]; __m256 out[2]; vec v;
  std::memcpy(part, &h, 32);
  out[0] = _mm256_cvtph_ps(part[0]); out[1] = _mm256_cvtph_ps(part[1]);
  std::memcpy(&v, out, 64);
  return v;
#else
  vec v;
  for (int i = 0; i < W; ++i) { half x; x.bits = h[i]; v[i] = x; }
  return v;
#endif
}
inline u16vec narrow(vec v, half) {
#if defined(__AVX512F__)
  return reinterpret_cast<u16vec>(
      _mm512_cvtps_ph(reinterpret_cast<__m512>(v), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif defined(__F16C__)
  __m256 part[2]; __m128i out[2]; u16vec h;
  std::memcpy(part, &v, 64);
  out[0] = _mm256_cvtps_ph(part[0], _MM_FROUND_TO_NEAREST_INT);
  out[1] = _mm256_cvtps_ph(part[1], _MM_FROUND_TO_NEAREST_INT);
  std::memcpy(&h, out, 32);
  return h;
#else
  u16vec h;
  for (int i = 0; i < W; ++i) h[i] = half(v[i]).bits;
  return h;
#endif
}
inline vec widen(u16vec h, bf16) { return reinterpret_cast<vec>(__builtin_convertvector(h, uvec) << 16); }
inline u16vec narrow(vec v, bf16) {
  const uvec u = reinterpret_cast<uvec>(v);
  const uvec rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
  return __builtin_convertvector(v == v ? rounded : uvec{} + 0x7fc0, u16vec);
}

// W consecutive elements, or the first n of them with zeros behind.
template <typename T> inline vec load(const T* p) { u16vec h; std::memcpy(&h, p, 32); return widen(h, T()); }
template <> inline vec load<float>(const float* p) { vec v; std::memcpy(&v, p, 64); return v; }
template <typename T> inline vec load(const T* p, int n) {
  T part[W] = {};
  std::memcpy(part, p, static_cast<std::size_t>(n) * sizeof(T));
  return load(part);
}
template <typename T> inline void store(T* p, vec v) { const u16vec h = narrow(v, T()); std::memcpy(p, &h, 32); }
template <> inline void store<float>(float* p, vec v) { std::memcpy(p, &v, 64); }
template <typename T> inline void store(T* p, vec v, int n) {
  T part[W];
  store(part, v);
  std::memcpy(p, part, static_cast<std::size_t>(n) * sizeof(T));
}
template <typename T> inline vec round(vec v) { return widen(narrow(v, T()), T()); }
template <> inline vec round<float>(vec v) { return v; }

inline float sum(vec v) {
  for (int step = W / 2; step > 0; step /= 2)
    for (int i = 0; i < step; ++i) v[i] += v[i + step];
  return v[0];
}
inline float max(vec v) {
  float m = v[0];
  for (int i = 1; i < W; ++i) m = v[i] > m ? v[i] : m;
  return m;
}
inline vec max(vec a, vec b) { return a > b ? a : b; }
inline vec min(vec a, vec b) { return a < b ? a : b; }
inline vec fma(vec a, vec b, vec c) {
#if defined(__AVX512F__)
  return reinterpret_cast<vec>(_mm512_fmadd_ps(
      reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b), reinterpret_cast<__m512>(c)));
#else
  for (int i = 0; i < W; ++i) c[i] = std::fma(a[i], b[i], c[i]);
  return c;
#endif
}

// e^x: 2^k times a polynomial on [-ln2/2, ln2/2]; relative error below 2e-7, 0 and infinity beyond float's range.
inline vec exp(vec x) {
  const vec limited = min(max(x, splat(-104.0f)), splat(89.0f));
  const vec magic = splat(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const vec k = (limited * 1.44269504f + magic) - magic;
  vec r = fma(k, splat(-0.693359375f), limited);
  r = fma(k, splat(2.12194440e-4f), r);
  vec p = splat(1.9875691500e-4f);
  p = fma(p, r, splat(1.3981999507e-3f));
  p = fma(p, r, splat(8.3334519073e-3f));
  p = fma(p, r, splat(4.1665795894e-2f));
  p = fma(p, r, splat(1.6666665459e-1f));
  p = fma(p, r, splat(5.0000001201e-1f));
  p = fma(p, r * r, r + 1.0f);
  // 2^k in two factors, so that results near both ends of the range do not overflow on the way.
  const ivec n = __builtin_convertvector(k, ivec), lower = n >> 1, upper = n - lower;
  const vec scaled = p * reinterpret_cast<vec>((lower + 127) << 23) * reinterpret_cast<vec>((upper + 127) << 23);
  return x == x ? scaled : x;
}
inline vec sigmoid(vec x) { return 1.0f / (1.0f + exp(-x)); }

// erf by a rational function on [-4, 4]; absolute error below 4e-7.
inline vec erf(vec x) {
  const vec c = min(max(x, splat(-4.0f)), splat(4.0f)), s = c * c;
  vec p = splat(-2.72614225801306e-10f);
  p = fma(p, s, splat(2.77068142495902e-08f));
  p = fma(p, s, splat(-2.10102402082508e-06f));
  p = fma(p, s, splat(-5.69250639462346e-05f));
  p = fma(p, s, splat(-7.34990630326855e-04f));
  p = fma(p, s, splat(-2.95459980854025e-03f));
  p = fma(p, s, splat(-1.60960333262415e-02f));
  vec q = splat(-1.45660718464996e-05f);
  q = fma(q, s, splat(-2.13374055278905e-04f));
  q = fma(q, s, splat(-1.68282697438203e-03f));
  q = fma(q, s, splat(-7.37332916720468e-03f));
  q = fma(q, s, splat(-1.42647390514189e-02f));
  const vec y = c * p / q;
  return x == x ? y : x;
}
inline vec tanh(vec x) {
  const vec a = x < 0.0f ? -x : x;
  const vec e = exp(a * -2.0f);
  const vec y = (1.0f - e) / (1.0f + e);
  // Below 0.3 the difference 1 - e loses digits; the odd series to x^11 does not.
  const vec s = x * x;
  vec p = splat(-1382.0f / 155925.0f);
  p = fma(p, s, splat(62.0f / 2835.0f));
  p = fma(p, s, splat(-17.0f / 315.0f));
  p = fma(p, s, splat(2.0f / 15.0f));
  p = fma(p, s, splat(-1.0f / 3.0f));
  return a < 0.3f ? fma(x * s, p, x) : (x < 0.0f ? -y : y);
}

// ---- strided and several tensors -----------------------------------------------------------------------------

// A tensor of any strides (in elements).
template <typename T, int N> struct view {
  T* data;
  i64 sizes[N];
  i64 strides[N];
};

// A list of contiguous tensors.
template <typename T> struct list {
  T* const* data;
  i64 count;
  T* operator[](i64 i) const { return data[i]; }
};

// ---- parallel loop -------------------------------------------------------------------------------------------

int max_threads();  // torch.get_num_threads() of the calling thread

// Calls f(begin, end) on parts of [0, n). Parts have at least `grain` items: with n <= grain, one thread or inside
// another parallel loop it is a plain call, without any of OpenMP's cost.
template <typename F> inline void parallel_for(i64 n, i64 grain, const F& f) {
  if (n <= 0) return;
  i64 parts = grain > 0 ? (n + grain - 1) / grain : n;
  if (parts > 1) {
    const i64 threads = omp_in_parallel() ? 1 : max_threads();
    parts = parts < threads ? parts : threads;
  }
  if (parts <= 1) {
    f(i64{0}, n);
    return;
  }
#pragma omp parallel num_threads(static_cast<int>(parts))
  {
    const i64 team = omp_get_num_threads(), part = omp_get_thread_num();
    const i64 begin = n * part / team, end = n * (part + 1) / team;
    if (begin < end) f(begin, end);
  }
}

}  // namespace pn
