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
inline vec round_bf16(vec v) {
  const uvec u = reinterpret_cast<uvec>(v);
  const uvec rounded = (u + 0x7fff + ((u >> 16) & 1)) & 0xffff0000u;
  return reinterpret_cast<vec>(v == v ? rounded : uvec{} + 0x7fc00000u);
}
inline u16vec narrow(vec v, bf16) {
  return __builtin_convertvector(reinterpret_cast<uvec>(round_bf16(v)) >> 16, u16vec);
}

// W consecutive elements, or the first n of them with zeros behind.
template <typename T> inline vec load(const T* p) { u16vec h; std::memcpy(&h, p, 32); return widen(h, T()); }
template <> inline vec load<float>(const float* p) { vec v; std::memcpy(&v, p, 64); return v; }
template <typename T> inline vec load(const T* p, int n) {
  if (n == W) return load(p);
  T part[W] = {};
  std::memcpy(part, p, static_cast<std::size_t>(n) * sizeof(T));
  return load(part);
}
template <typename T> inline void store(T* p, vec v) { const u16vec h = narrow(v, T()); std::memcpy(p, &h, 32); }
template <> inline void store<float>(float* p, vec v) { std::memcpy(p, &v, 64); }
template <typename T> inline void store(T* p, vec v, int n) {
  if (n == W) return store(p, v);
  T part[W];
  store(part, v);
  std::memcpy(p, part, static_cast<std::size_t>(n) * sizeof(T));
}
template <typename T> inline vec round(vec v) { return widen(narrow(v, T()), T()); }
template <> inline vec round<float>(vec v) { return v; }
template <> inline vec round<bf16>(vec v) { return round_bf16(v); }

// v with zeros behind its first n elements.
inline vec head(vec v, int n) {
  if (n == W) return v;
  for (int i = n; i < W; ++i) v[i] = 0.0f;
  return v;
}

// Calls f(i, count) for every W elements of [0, n) and for the rest: count is W but for the last call.
template <typename F> inline __attribute__((always_inline)) void each(i64 n, const F& f) {
  i64 i = 0;
  for (; i + W <= n; i += W) f(i, W);
  if (i < n) f(i, static_cast<int>(n - i));
}

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

inline vec rint(vec x) {
#if defined(__AVX512F__)
  return reinterpret_cast<vec>(_mm512_roundscale_ps(reinterpret_cast<__m512>(x), _MM_FROUND_TO_NEAREST_INT));
#else
  for (int i = 0; i < W; ++i) x[i] = std::nearbyint(x[i]);
  return x;
#endif
}

// The sum of f over [0, n), f(i, count) giving elements i to i + count, in the order in which torch's CPU kernel
// sums a contiguous last dimension: 4 accumulators of 8 lanes, cascaded over 4 levels. Bit-equal to x.sum(-1) from 8 elements on.
template <typename F> inline float eager_sum(i64 n, const F& f) {
  constexpr int LEVELS = 4, ROW = 32;
  const i64 rows = n / ROW;
  int log = 0;
  while ((i64{1} << log) < rows) ++log;
  const int power = log / LEVELS > 4 ? log / LEVELS : 4;
  const i64 step = i64{1} << power;
  vec acc[LEVELS][2] = {};
  i64 i = 0;
  const auto add_row = [&] {
    acc[0][0] += f(i * ROW, W);
    acc[0][1] += f(i * ROW + W, W);
    ++i;
  };
  while (i + step <= rows) {
    for (i64 k = 0; k < step; ++k) add_row();
    for (int level = 1; level < LEVELS; ++level) {
      for (int k = 0; k < 2; ++k) {
        acc[level][k] += acc[level - 1][k];
        acc[level - 1][k] = vec{};
      }
      if (i & ((step - 1) << (level * power))) break;
    }
  }
  while (i < rows) add_row();
  for (int level = 1; level < LEVELS; ++level)
    for (int k = 0; k < 2; ++k) acc[0][k] += acc[level][k];
  float lanes[ROW], rest[ROW] = {};
  std::memcpy(lanes, acc[0], sizeof lanes);
  const int left = static_cast<int>(n - rows * ROW);
  for (int k = 0; k < left; k += W) store(rest + k, f(rows * ROW + k, left - k < W ? left - k : W));
  for (int k = 0; k < left / 8 * 8; ++k) lanes[k % 8] += rest[k];
  for (int k = 8; k < ROW; ++k) lanes[k % 8] += lanes[k];
  float total = 0.0f;
  for (int k = left / 8 * 8; k < left; ++k) total += rest[k];
  for (int k = 0; k < 8; ++k) total += lanes[k];
  return total;
}

// e^x within 1 ulp, with the reduction and polynomial of SLEEF's expf (Boost licence), which is what torch's CPU
// kernels call: rounding the result to 16 bits then gives what eager gives.
inline vec exp(vec x) {
  const vec k = rint(x * 1.442695040888963407359924681001892137426645954152985934135449406931f);
  vec r = fma(k, splat(-0.693145751953125f), x);
  r = fma(k, splat(-1.428606765330187045e-06f), r);
  vec p = splat(0.000198527617612853646278381f);
  p = fma(p, r, splat(0.00139304355252534151077271f));
  p = fma(p, r, splat(0.00833336077630519866943359f));
  p = fma(p, r, splat(0.0416664853692054748535156f));
  p = fma(p, r, splat(0.166666671633720397949219f));
  p = fma(p, r, splat(0.5f));
  p = fma(r * r, p, r) + 1.0f;
  // 2^k in two factors, so that results near both ends of the range do not overflow on the way.
  const ivec n = __builtin_convertvector(min(max(k, splat(-200.0f)), splat(200.0f)), ivec);
  const ivec lower = n >> 1, upper = n - lower;
  vec y = p * reinterpret_cast<vec>((lower + 127) << 23) * reinterpret_cast<vec>((upper + 127) << 23);
  y = x < -104.0f ? vec{} : y;
  return x > 100.0f ? splat(__builtin_inff()) : y;
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

typedef double dvec __attribute__((vector_size(64)));
typedef float half_vec __attribute__((vector_size(32)));
typedef std::int64_t lvec __attribute__((vector_size(64)));

inline dvec fma(dvec a, dvec b, dvec c) {
#if defined(__AVX512F__)
  return reinterpret_cast<dvec>(_mm512_fmadd_pd(
      reinterpret_cast<__m512d>(a), reinterpret_cast<__m512d>(b), reinterpret_cast<__m512d>(c)));
#else
  return a * b + c;
#endif
}

// tanh in double to about 1e-10, so that the float result is correctly rounded but for one in hundreds.
inline dvec tanh(dvec x) {
  dvec a = x < 0.0 ? -x : x;
  a = a > 20.0 ? 20.0 - dvec{} : a;
  const dvec y = a * -2.0;
  const dvec magic = 6755399441055744.0 - dvec{};  // 1.5 * 2^52: adding it rounds to an integer
  const dvec k = fma(y, 1.4426950408889634 - dvec{}, magic) - magic;
  const dvec r = fma(k, -0.6931471805599453 - dvec{}, y);
  // e^r - 1 by its series to r^9: |r| <= ln2 / 2, so the next term is below 1e-11.
  dvec p = 1.0 / 362880 - dvec{};
  constexpr double terms[] = {1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0};
  for (double term : terms) p = fma(p, r, term - dvec{});
  p *= r;
  const dvec scale = reinterpret_cast<dvec>((__builtin_convertvector(k, lvec) + 1023) << 52);
  const dvec e1 = fma(p, scale, scale - 1.0);  // e^-2a - 1, without cancellation
  const dvec t = -e1 / (e1 + 2.0);
  return x < 0.0 ? -t : (x == x ? t : x);
}
inline vec tanh(vec x) {
  half_vec part[2];
  std::memcpy(part, &x, 64);
  for (half_vec& h : part) h = __builtin_convertvector(tanh(__builtin_convertvector(h, dvec)), half_vec);
  vec y;
  std::memcpy(&y, part, 64);
  return y;
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
