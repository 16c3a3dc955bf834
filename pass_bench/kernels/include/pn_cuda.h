// What a CUDA kernel of a pass may use without any include: 16-bit floats that convert to and from float,
// aligned packs for vector loads, views and lists. NVRTC needs no header files for it.
#pragma once

typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;

namespace pn {

using i64 = int64_t;

struct half {
  uint16_t bits;
  half() = default;
  __device__ half(float f) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(f)); }
  __device__ operator float() const {
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(bits));
    return f;
  }
};

struct bf16 {
  uint16_t bits;
  bf16() = default;
  __device__ bf16(float f) {
    const uint32_t u = __float_as_uint(f);
    bits = f != f ? 0x7fc0 : static_cast<uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
  }
  __device__ operator float() const { return __uint_as_float(static_cast<uint32_t>(bits) << 16); }
};

// A value as it would be after being stored as T: what eager does between two operators.
template <typename T> __device__ inline float round(float x) { return static_cast<float>(T(x)); }

// N consecutive elements, moved by one instruction of up to 16 bytes.
template <typename T, int N> struct alignas(sizeof(T) * N) pack { T value[N]; };

template <typename T, int N> struct view {
  T* data;
  i64 sizes[N];
  i64 strides[N];
};

constexpr int MAX_LIST = 16;
template <typename T> struct list {
  T* data[MAX_LIST];
  i64 count;
  __device__ T* operator[](i64 i) const { return data[i]; }
};

__device__ inline float warp_sum(float x) {
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}
__device__ inline float warp_max(float x) {
  for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
  return x;
}

}  // namespace pn
