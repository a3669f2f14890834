// One vector of floats per SIMD level. The level is chosen by a macro on the command line; see CMakeLists.txt.
// Everything has internal linkage: an instruction of one level must never end up in code that other levels share.
#pragma once

#include <stdint.h>
#include <string.h>

#if defined(DXDW_LEVEL_AVX512) || defined(DXDW_LEVEL_AVX512BF16) || defined(DXDW_LEVEL_AVX2)
#include <immintrin.h>
#elif defined(DXDW_LEVEL_NEON) || defined(DXDW_LEVEL_NEONBF16)
#include <arm_neon.h>
#endif

namespace {

#define DXDW_INLINE static inline __attribute__((always_inline))

// ---- 16-bit floats, one at a time ----

DXDW_INLINE float float_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

DXDW_INLINE uint32_t bits_of_float(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

// A float, or a pair of 16-bit items, at any address that these may have.
DXDW_INLINE float load_unaligned(const float *p) {
  float value;
  memcpy(&value, p, sizeof value);
  return value;
}

DXDW_INLINE float from_bf16(uint16_t half) { return float_of_bits(static_cast<uint32_t>(half) << 16); }

DXDW_INLINE uint16_t to_bf16(float value) {
  const uint32_t bits = bits_of_float(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t quiet = (bits >> 16) | 0x40u;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

#if defined(DXDW_LEVEL_AVX512) || defined(DXDW_LEVEL_AVX512BF16) || defined(DXDW_LEVEL_AVX2)

DXDW_INLINE float from_f16(uint16_t half) { return _cvtsh_ss(half); }
DXDW_INLINE uint16_t to_f16(float value) { return _cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT); }

#elif defined(DXDW_LEVEL_NEON) || defined(DXDW_LEVEL_NEONBF16)

DXDW_INLINE float from_f16(uint16_t half) {
  __fp16 value;
  memcpy(&value, &half, sizeof value);
  return value;
}
DXDW_INLINE uint16_t to_f16(float value) {
  const __fp16 rounded = static_cast<__fp16>(value);
  uint16_t half;
  memcpy(&half, &rounded, sizeof half);
  return half;
}

#else

DXDW_INLINE float from_f16(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1fu;
  const uint32_t fraction = half & 0x3ffu;
  if (exponent == 0x1f) return float_of_bits(sign | 0x7f800000u | (fraction << 13) | (fraction != 0 ? 0x400000u : 0u));
  if (exponent != 0) return float_of_bits(sign | ((exponent + 112) << 23) | (fraction << 13));
  // Subnormal: fraction units of 2^-24, exact in float32.
  return float_of_bits(sign | bits_of_float(static_cast<float>(fraction) * 5.9604644775390625e-8f));
}

DXDW_INLINE uint16_t to_f16(float value) {
  const uint32_t bits = bits_of_float(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude >= 0x38800000u) {
    const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
  }
  if (magnitude < 0x33000000u) return static_cast<uint16_t>(sign);
  // Subnormal result: shift the fraction into units of 2^-24, rounding to nearest even.
  const uint32_t shift = 126u - (magnitude >> 23);
  const uint32_t fraction = (magnitude & 0x7fffffu) | 0x800000u;
  const uint32_t kept = fraction >> shift;
  const uint32_t rest = fraction & ((1u << shift) - 1u);
  const uint32_t half = 1u << (shift - 1);
  return static_cast<uint16_t>(sign | (kept + (rest > half || (rest == half && (kept & 1u)) ? 1u : 0u)));
}

#endif

// ---- A vector of floats ----

#if defined(DXDW_LEVEL_AVX512) || defined(DXDW_LEVEL_AVX512BF16)

#if defined(DXDW_LEVEL_AVX512BF16)
constexpr char kName[] = "avx512bf16";
#define DXDW_TABLE kernels_avx512bf16
#define DXDW_BF16_PAIRS 1
#else
constexpr char kName[] = "avx512";
#define DXDW_TABLE kernels_avx512
#endif
constexpr bool kFused = true;
constexpr int kLanes = 16;
// 28 accumulators, 2 vectors of B, 1 broadcast: 31 of 32 registers.
constexpr int kTileRows = 14, kTileVectors = 2;
// 24 accumulators, 4 vectors of B, 1 broadcast: fewer loads and instructions for each product.
constexpr int kWideRows = 6, kWideVectors = 4;

typedef __m512 Vec;

DXDW_INLINE Vec v_zero() { return _mm512_setzero_ps(); }
DXDW_INLINE Vec v_load(const float *p) { return _mm512_loadu_ps(p); }
DXDW_INLINE void v_store(float *p, Vec v) { _mm512_storeu_ps(p, v); }
DXDW_INLINE void v_stream(float *p, Vec v) { _mm512_stream_ps(p, v); }
DXDW_INLINE void v_stream_half(uint16_t *p, const uint16_t *half) {
  _mm256_stream_si256(reinterpret_cast<__m256i *>(p), _mm256_loadu_si256(reinterpret_cast<const __m256i *>(half)));
}
static inline void v_fence() { _mm_sfence(); }
DXDW_INLINE __mmask16 first(int n) { return static_cast<__mmask16>((1u << n) - 1u); }
DXDW_INLINE Vec v_load_n(const float *p, int n) { return _mm512_maskz_loadu_ps(first(n), p); }
DXDW_INLINE void v_store_n(float *p, Vec v, int n) { _mm512_mask_storeu_ps(p, first(n), v); }
DXDW_INLINE Vec v_set(float x) { return _mm512_set1_ps(x); }
DXDW_INLINE Vec v_add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
DXDW_INLINE Vec v_mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
DXDW_INLINE Vec v_fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
DXDW_INLINE Vec v_sub(Vec a, Vec b) { return _mm512_sub_ps(a, b); }
DXDW_INLINE Vec v_div(Vec a, Vec b) { return _mm512_div_ps(a, b); }
DXDW_INLINE Vec v_sqrt(Vec a) { return _mm512_sqrt_ps(a); }
// a > b ? yes : no, lane by lane; NaN is greater than nothing.
DXDW_INLINE Vec v_if_greater(Vec a, Vec b, Vec yes, Vec no) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_GT_OQ), no, yes);
}
// v . 2^n for whole n, one rounding.
DXDW_INLINE Vec v_scale(Vec v, Vec n) { return _mm512_scalef_ps(v, n); }
DXDW_INLINE Vec v_from_bf16(const uint16_t *p) {
  const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}
DXDW_INLINE Vec v_from_f16(const uint16_t *p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(p)));
}
DXDW_INLINE void v_to_f16(uint16_t *p, Vec v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i *>(p), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
DXDW_INLINE void v_to_bf16(uint16_t *p, Vec v) {
#if defined(DXDW_LEVEL_AVX512BF16)
  // The chip's own conversion takes subnormals as zero; all else it rounds as the code below does.
  constexpr int kSubnormal = 0x20;
  if (__builtin_expect(_mm512_fpclass_ps_mask(v, kSubnormal) == 0, 1)) {
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(p), (__m256i)_mm512_cvtneps_pbh(v));
    return;
  }
#endif
  const __m512i bits = _mm512_castps_si512(v);
  const __m512i high = _mm512_srli_epi32(bits, 16);
  const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
  const __m512i rounded =
      _mm512_srli_epi32(_mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd), 16);
  const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  const __m512i result = _mm512_mask_or_epi32(rounded, nan, high, _mm512_set1_epi32(0x40));
  _mm256_storeu_si256(reinterpret_cast<__m256i *>(p), _mm512_cvtepi32_epi16(result));
}

// 16 x 16, rows to columns.
DXDW_INLINE void v_transpose(Vec *r) {
  Vec t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm512_shuffle_ps(t[i], t[i + 2], 0xee);
    r[i + 2] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
  }
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
    r[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
    r[i + 4] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0x88);
    r[i + 12] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0xdd);
  }
}

#if defined(DXDW_BF16_PAIRS)
// acc + the two products of each pair.
DXDW_INLINE Vec v_dot_pairs(Vec a, Vec b, Vec acc) { return _mm512_dpbf16_ps(acc, (__m512bh)(a), (__m512bh)(b)); }
// The same with one pair in memory. A broadcast of its own for each dot product would slow both down by a third.
DXDW_INLINE Vec v_dot_pair_at(const float *a, Vec b, Vec acc) {
  asm("vdpbf16ps %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(b), "m"(*a));
  return acc;
}
// Two vectors that hold no subnormals, as 2 * kLanes bfloat16: the chip's own conversion rounds all else as to_bf16
// does.
DXDW_INLINE void v_to_bf16_normal(uint16_t *p, Vec low, Vec high, bool stream) {
  const __m512i both = (__m512i)_mm512_cvtne2ps_pbh(high, low);
  stream ? _mm512_stream_si512(reinterpret_cast<__m512i *>(p), both) : _mm512_storeu_si512(p, both);
}
// The first n pairs (low[i], high[i]), zeros behind them.
DXDW_INLINE Vec v_pairs(const uint16_t *low, const uint16_t *high, int n) {
  const __m512i l = _mm512_castsi256_si512(_mm256_maskz_loadu_epi16(first(n), low));
  const __m512i h = _mm512_castsi256_si512(_mm256_maskz_loadu_epi16(first(n), high));
  const __m512i zip = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6, 37,
                                       5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  return _mm512_castsi512_ps(_mm512_permutex2var_epi16(l, zip, h));
}
// The first n pairs of two vectors, in the order that costs least.
DXDW_INLINE void v_pairs_mixed(const uint16_t *low, const uint16_t *high, int n, Vec (&out)[2]) {
  __m512i l, h;
  if (n == 2 * kLanes) {
    l = _mm512_loadu_si512(low);
    h = _mm512_loadu_si512(high);
  } else {
    l = _mm512_maskz_loadu_epi16((1u << n) - 1u, low);
    h = _mm512_maskz_loadu_epi16((1u << n) - 1u, high);
  }
  out[0] = _mm512_castsi512_ps(_mm512_unpacklo_epi16(l, h));
  out[1] = _mm512_castsi512_ps(_mm512_unpackhi_epi16(l, h));
}
// What belongs to v_pairs_mixed's lanes, in the order of memory.
DXDW_INLINE void v_unmix(Vec (&v)[2]) {
  const __m512i low = _mm512_set_epi32(23, 22, 21, 20, 7, 6, 5, 4, 19, 18, 17, 16, 3, 2, 1, 0);
  const __m512i high = _mm512_set_epi32(31, 30, 29, 28, 15, 14, 13, 12, 27, 26, 25, 24, 11, 10, 9, 8);
  const Vec mixed = v[0];
  v[0] = _mm512_permutex2var_ps(mixed, low, v[1]);
  v[1] = _mm512_permutex2var_ps(mixed, high, v[1]);
}
#endif

#elif defined(DXDW_LEVEL_AVX2)

constexpr char kName[] = "avx2";
#define DXDW_TABLE kernels_avx2
constexpr bool kFused = true;
constexpr int kLanes = 8;
// 12 accumulators, 2 vectors of B, 1 broadcast: 15 of 16 registers.
constexpr int kTileRows = 6, kTileVectors = 2;
constexpr int kWideRows = kTileRows, kWideVectors = kTileVectors;

typedef __m256 Vec;

DXDW_INLINE Vec v_zero() { return _mm256_setzero_ps(); }
DXDW_INLINE Vec v_load(const float *p) { return _mm256_loadu_ps(p); }
DXDW_INLINE void v_store(float *p, Vec v) { _mm256_storeu_ps(p, v); }
DXDW_INLINE void v_stream(float *p, Vec v) { _mm256_stream_ps(p, v); }
DXDW_INLINE void v_stream_half(uint16_t *p, const uint16_t *half) {
  _mm_stream_si128(reinterpret_cast<__m128i *>(p), _mm_loadu_si128(reinterpret_cast<const __m128i *>(half)));
}
static inline void v_fence() { _mm_sfence(); }
DXDW_INLINE __m256i first(int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
DXDW_INLINE Vec v_load_n(const float *p, int n) { return _mm256_maskload_ps(p, first(n)); }
DXDW_INLINE void v_store_n(float *p, Vec v, int n) { _mm256_maskstore_ps(p, first(n), v); }
DXDW_INLINE Vec v_set(float x) { return _mm256_set1_ps(x); }
DXDW_INLINE Vec v_add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
DXDW_INLINE Vec v_mul(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
DXDW_INLINE Vec v_fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
DXDW_INLINE Vec v_sub(Vec a, Vec b) { return _mm256_sub_ps(a, b); }
DXDW_INLINE Vec v_div(Vec a, Vec b) { return _mm256_div_ps(a, b); }
DXDW_INLINE Vec v_sqrt(Vec a) { return _mm256_sqrt_ps(a); }
// a > b ? yes : no, lane by lane; NaN is greater than nothing.
DXDW_INLINE Vec v_if_greater(Vec a, Vec b, Vec yes, Vec no) {
  return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_GT_OQ));
}
// 2^n for whole n from -126 to 127.
DXDW_INLINE Vec v_power_of_two(Vec n) {
  const __m256i biased = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  return _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23));
}
DXDW_INLINE Vec v_from_bf16(const uint16_t *p) {
  const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i *>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}
DXDW_INLINE Vec v_from_f16(const uint16_t *p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p)));
}
DXDW_INLINE void v_to_f16(uint16_t *p, Vec v) {
  _mm_storeu_si128(reinterpret_cast<__m128i *>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
DXDW_INLINE void v_to_bf16(uint16_t *p, Vec v) {
  float lanes[kLanes];
  v_store(lanes, v);
  for (int i = 0; i < kLanes; ++i) p[i] = to_bf16(lanes[i]);
}

// 8 x 8, rows to columns.
DXDW_INLINE void v_transpose(Vec *r) {
  Vec t[8], u[8];
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    u[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    u[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    u[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    u[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x20);
    r[i + 4] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x31);
  }
}

#elif defined(DXDW_LEVEL_NEON) || defined(DXDW_LEVEL_NEONBF16)

#if defined(DXDW_LEVEL_NEONBF16)
constexpr char kName[] = "neonbf16";
#define DXDW_TABLE kernels_neonbf16
#define DXDW_BF16_PAIRS 1
#else
constexpr char kName[] = "neon";
#define DXDW_TABLE kernels_neon
#endif
constexpr bool kFused = true;
constexpr int kLanes = 4;
// 24 accumulators, 2 vectors of B, 1 broadcast: 27 of 32 registers.
constexpr int kTileRows = 12, kTileVectors = 2;
constexpr int kWideRows = kTileRows, kWideVectors = kTileVectors;

typedef float32x4_t Vec;

DXDW_INLINE Vec v_zero() { return vdupq_n_f32(0.0f); }
DXDW_INLINE Vec v_load(const float *p) { return vld1q_f32(p); }
DXDW_INLINE void v_store(float *p, Vec v) { vst1q_f32(p, v); }
DXDW_INLINE void v_stream(float *p, Vec v) { vst1q_f32(p, v); }
DXDW_INLINE void v_stream_half(uint16_t *p, const uint16_t *half) { vst1_u16(p, vld1_u16(half)); }
static inline void v_fence() {}
DXDW_INLINE Vec v_load_n(const float *p, int n) {
  if (n == kLanes) return v_load(p);
  float lanes[kLanes] = {0, 0, 0, 0};
  for (int i = 0; i < n && i < kLanes; ++i) lanes[i] = p[i];
  return v_load(lanes);
}
DXDW_INLINE void v_store_n(float *p, Vec v, int n) {
  if (n == kLanes) return v_store(p, v);
  float lanes[kLanes];
  v_store(lanes, v);
  for (int i = 0; i < n && i < kLanes; ++i) p[i] = lanes[i];
}
DXDW_INLINE Vec v_set(float x) { return vdupq_n_f32(x); }
DXDW_INLINE Vec v_add(Vec a, Vec b) { return vaddq_f32(a, b); }
DXDW_INLINE Vec v_mul(Vec a, Vec b) { return vmulq_f32(a, b); }
DXDW_INLINE Vec v_fma(Vec a, Vec b, Vec c) { return vfmaq_f32(c, a, b); }
DXDW_INLINE Vec v_sub(Vec a, Vec b) { return vsubq_f32(a, b); }
DXDW_INLINE Vec v_div(Vec a, Vec b) { return vdivq_f32(a, b); }
DXDW_INLINE Vec v_sqrt(Vec a) { return vsqrtq_f32(a); }
// a > b ? yes : no, lane by lane; NaN is greater than nothing.
DXDW_INLINE Vec v_if_greater(Vec a, Vec b, Vec yes, Vec no) { return vbslq_f32(vcgtq_f32(a, b), yes, no); }
// 2^n for whole n from -126 to 127.
DXDW_INLINE Vec v_power_of_two(Vec n) {
  return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127)), 23));
}
DXDW_INLINE Vec v_from_bf16(const uint16_t *p) {
  return vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(vld1_u16(p)), 16));
}
DXDW_INLINE Vec v_from_f16(const uint16_t *p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
DXDW_INLINE void v_to_f16(uint16_t *p, Vec v) { vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(v))); }
DXDW_INLINE void v_to_bf16(uint16_t *p, Vec v) {
  const uint32x4_t bits = vreinterpretq_u32_f32(v);
  const uint32x4_t high = vshrq_n_u32(bits, 16);
  const uint32x4_t odd = vandq_u32(high, vdupq_n_u32(1));
  const uint32x4_t rounded = vshrq_n_u32(vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd), 16);
  const uint32x4_t quiet = vorrq_u32(high, vdupq_n_u32(0x40));
  vst1_u16(p, vmovn_u32(vbslq_u32(vceqq_f32(v, v), rounded, quiet)));
}

// 4 x 4, rows to columns.
DXDW_INLINE void v_transpose(Vec *r) {
  const Vec even_low = vzip1q_f32(r[0], r[2]), even_high = vzip2q_f32(r[0], r[2]);
  const Vec odd_low = vzip1q_f32(r[1], r[3]), odd_high = vzip2q_f32(r[1], r[3]);
  r[0] = vzip1q_f32(even_low, odd_low);
  r[1] = vzip2q_f32(even_low, odd_low);
  r[2] = vzip1q_f32(even_high, odd_high);
  r[3] = vzip2q_f32(even_high, odd_high);
}

#if defined(DXDW_BF16_PAIRS)
// acc + the two products of each pair.
DXDW_INLINE Vec v_dot_pairs(Vec a, Vec b, Vec acc) {
  return vbfdotq_f32(acc, vreinterpretq_bf16_f32(a), vreinterpretq_bf16_f32(b));
}
// The same with one pair in memory.
DXDW_INLINE Vec v_dot_pair_at(const float *a, Vec b, Vec acc) { return v_dot_pairs(v_set(load_unaligned(a)), b, acc); }
DXDW_INLINE uint32x4_t v_widen(const uint16_t *p, int n) {
  if (n == kLanes) return vmovl_u16(vld1_u16(p));
  uint16_t items[kLanes] = {};
  for (int i = 0; i < n && i < kLanes; ++i) items[i] = p[i];
  return vmovl_u16(vld1_u16(items));
}
// The first n pairs (low[i], high[i]), zeros behind them.
DXDW_INLINE Vec v_pairs(const uint16_t *low, const uint16_t *high, int n) {
  return vreinterpretq_f32_u32(vorrq_u32(v_widen(low, n), vshlq_n_u32(v_widen(high, n), 16)));
}
// The first n pairs of two vectors, in the order that costs least: that of memory.
DXDW_INLINE void v_pairs_mixed(const uint16_t *low, const uint16_t *high, int n, Vec (&out)[2]) {
  if (n < 2 * kLanes) {
    out[0] = v_pairs(low, high, n < kLanes ? n : kLanes);
    out[1] = n > kLanes ? v_pairs(low + kLanes, high + kLanes, n - kLanes) : v_zero();
    return;
  }
  const uint16x8_t l = vld1q_u16(low), h = vld1q_u16(high);
  out[0] = vreinterpretq_f32_u16(vzip1q_u16(l, h));
  out[1] = vreinterpretq_f32_u16(vzip2q_u16(l, h));
}
DXDW_INLINE void v_unmix(Vec (&)[2]) {}
#endif

#else

constexpr char kName[] = "baseline";
#define DXDW_TABLE kernels_baseline
constexpr bool kFused = false;
// 8 accumulators, 2 vectors of B, 1 broadcast, products: 16 registers.
constexpr int kTileRows = 4, kTileVectors = 2;
constexpr int kWideRows = kTileRows, kWideVectors = kTileVectors;
constexpr int kLanes = 4;

typedef float Vec __attribute__((vector_size(16)));

DXDW_INLINE Vec v_zero() { return Vec{0, 0, 0, 0}; }
DXDW_INLINE Vec v_load(const float *p) {
  Vec v;
  memcpy(&v, p, sizeof v);
  return v;
}
DXDW_INLINE void v_store(float *p, Vec v) { memcpy(p, &v, sizeof v); }
DXDW_INLINE void v_stream(float *p, Vec v) { memcpy(p, &v, sizeof v); }
DXDW_INLINE void v_stream_half(uint16_t *p, const uint16_t *half) { memcpy(p, half, kLanes * sizeof *p); }
static inline void v_fence() {}
DXDW_INLINE Vec v_load_n(const float *p, int n) {
  if (n == kLanes) return v_load(p);
  float lanes[kLanes] = {0, 0, 0, 0};
  for (int i = 0; i < n && i < kLanes; ++i) lanes[i] = p[i];
  return v_load(lanes);
}
DXDW_INLINE void v_store_n(float *p, Vec v, int n) {
  if (n == kLanes) return v_store(p, v);
  for (int i = 0; i < n && i < kLanes; ++i) p[i] = v[i];
}
DXDW_INLINE Vec v_set(float x) { return Vec{x, x, x, x}; }
DXDW_INLINE Vec v_add(Vec a, Vec b) { return a + b; }
DXDW_INLINE Vec v_mul(Vec a, Vec b) { return a * b; }
DXDW_INLINE Vec v_fma(Vec a, Vec b, Vec c) { return c + a * b; }
DXDW_INLINE Vec v_sub(Vec a, Vec b) { return a - b; }
DXDW_INLINE Vec v_div(Vec a, Vec b) { return a / b; }
DXDW_INLINE Vec v_sqrt(Vec a) {
  for (int i = 0; i < kLanes; ++i) a[i] = __builtin_sqrtf(a[i]);
  return a;
}
// a > b ? yes : no, lane by lane; NaN is greater than nothing.
DXDW_INLINE Vec v_if_greater(Vec a, Vec b, Vec yes, Vec no) { return a > b ? yes : no; }
// 2^n for whole n from -126 to 127.
DXDW_INLINE Vec v_power_of_two(Vec n) {
  typedef int32_t Ints __attribute__((vector_size(16)));
  const Ints biased = __builtin_convertvector(n, Ints) + 127;
  const Ints bits = biased << 23;
  Vec power;
  memcpy(&power, &bits, sizeof power);
  return power;
}
DXDW_INLINE Vec v_from_bf16(const uint16_t *p) {
  return Vec{from_bf16(p[0]), from_bf16(p[1]), from_bf16(p[2]), from_bf16(p[3])};
}
DXDW_INLINE Vec v_from_f16(const uint16_t *p) {
  return Vec{from_f16(p[0]), from_f16(p[1]), from_f16(p[2]), from_f16(p[3])};
}
DXDW_INLINE void v_to_f16(uint16_t *p, Vec v) {
  for (int i = 0; i < kLanes; ++i) p[i] = to_f16(v[i]);
}
DXDW_INLINE void v_to_bf16(uint16_t *p, Vec v) {
  for (int i = 0; i < kLanes; ++i) p[i] = to_bf16(v[i]);
}

// 4 x 4, rows to columns.
DXDW_INLINE void v_transpose(Vec *r) {
  const Vec a = r[0], b = r[1], c = r[2], d = r[3];
  for (int i = 0; i < 4; ++i) r[i] = Vec{a[i], b[i], c[i], d[i]};
}

#endif

// ---- What follows from the above on every level ----

#if !defined(DXDW_LEVEL_AVX512) && !defined(DXDW_LEVEL_AVX512BF16)
// v . 2^n for whole n from -250 to 250, one rounding: the first half of n changes the exponent alone.
DXDW_INLINE Vec v_scale(Vec v, Vec n) {
  const Vec big = v_set(0x1.8p23f);
  const Vec half = v_sub(v_add(v_mul(n, v_set(0.5f)), big), big);
  return v_mul(v_mul(v, v_power_of_two(half)), v_power_of_two(v_sub(n, half)));
}
#endif

constexpr int kTileCols = kTileVectors * kLanes, kWideCols = kWideVectors * kLanes;

// One float as the level rounds a multiply-add.
DXDW_INLINE float s_fma(float a, float b, float c) { return kFused ? __builtin_fmaf(a, b, c) : c + a * b; }

// Halves are added to halves.
DXDW_INLINE float v_sum(Vec v) {
#if defined(DXDW_LEVEL_AVX512) || defined(DXDW_LEVEL_AVX512BF16)
  return _mm512_reduce_add_ps(v);
#endif
  float lanes[kLanes];
  v_store(lanes, v);
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  return lanes[0];
}

// kLanes 16-bit items of which the first n come from memory, the others are 0.
DXDW_INLINE void v_copy_n(uint16_t *to, const uint16_t *from, int n) {
#if defined(DXDW_LEVEL_AVX512) || defined(DXDW_LEVEL_AVX512BF16)
  _mm256_storeu_si256(reinterpret_cast<__m256i *>(to), _mm256_maskz_loadu_epi16(first(n), from));
#else
  for (int i = 0; i < kLanes; ++i) to[i] = i < n ? from[i] : 0;
#endif
}
DXDW_INLINE void v_copy_n(float *to, const float *from, int n) { v_store(to, v_load_n(from, n)); }

// The element types of memory: floats are what the kernels compute with.
struct F32 {
  typedef float Item;
  DXDW_INLINE float get(const Item *p) { return *p; }
  DXDW_INLINE void put(Item *p, float v) { *p = v; }
  DXDW_INLINE Vec load(const Item *p) { return v_load(p); }
  DXDW_INLINE void store(Item *p, Vec v) { v_store(p, v); }
  DXDW_INLINE void stream(Item *p, Vec v) { v_stream(p, v); }
};

struct F16 {
  typedef uint16_t Item;
  DXDW_INLINE float get(const Item *p) { return from_f16(*p); }
  DXDW_INLINE void put(Item *p, float v) { *p = to_f16(v); }
  DXDW_INLINE Vec load(const Item *p) { return v_from_f16(p); }
  DXDW_INLINE void store(Item *p, Vec v) { v_to_f16(p, v); }
  DXDW_INLINE void stream(Item *p, Vec v) {
    Item half[kLanes];
    v_to_f16(half, v);
    v_stream_half(p, half);
  }
};

struct BF16 {
  typedef uint16_t Item;
  DXDW_INLINE float get(const Item *p) { return from_bf16(*p); }
  DXDW_INLINE void put(Item *p, float v) { *p = to_bf16(v); }
  DXDW_INLINE Vec load(const Item *p) { return v_from_bf16(p); }
  DXDW_INLINE void store(Item *p, Vec v) { v_to_bf16(p, v); }
  DXDW_INLINE void stream(Item *p, Vec v) {
    Item half[kLanes];
    v_to_bf16(half, v);
    v_stream_half(p, half);
  }
};

template <typename T>
DXDW_INLINE const typename T::Item *items(const char *p) {
  return reinterpret_cast<const typename T::Item *>(p);
}

template <typename T>
DXDW_INLINE typename T::Item *items(char *p) {
  return reinterpret_cast<typename T::Item *>(p);
}

// First n of kLanes elements, zeros behind them, without touching memory beyond.
template <typename T>
DXDW_INLINE Vec v_load_first(const typename T::Item *p, int n) {
  if (n == kLanes) return T::load(p);
  if (sizeof(typename T::Item) == sizeof(float)) return v_load_n(reinterpret_cast<const float *>(p), n);
  typename T::Item items[kLanes];
  v_copy_n(items, p, n);
  return T::load(items);
}

// The same of every second element: p[0], p[2], ... p[2 n - 2].
template <typename T>
DXDW_INLINE Vec v_load_second(const typename T::Item *p, int n) {
#if defined(DXDW_LEVEL_AVX512) || defined(DXDW_LEVEL_AVX512BF16)
  const uint32_t there = (2u << (2 * n - 2)) - 1u;
  if constexpr (sizeof(typename T::Item) == sizeof(float)) {
    const Vec low = _mm512_maskz_loadu_ps(static_cast<__mmask16>(there), p);
    const Vec high = _mm512_maskz_loadu_ps(static_cast<__mmask16>(there >> 16), p + kLanes);
    const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    return _mm512_permutex2var_ps(low, even, high);
  } else {
    typename T::Item near[kLanes];
    const __m512i both = _mm512_maskz_loadu_epi16(there, p);
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(near), _mm512_cvtepi32_epi16(both));
    return T::load(near);
  }
#else
#if defined(DXDW_LEVEL_AVX2)
  if constexpr (sizeof(typename T::Item) == sizeof(float)) {
    const Vec low = v_load_n(p, 2 * n - 1), high = v_load_n(p + kLanes, 2 * n - 1 - kLanes);
    const __m256d halves = _mm256_castps_pd(_mm256_shuffle_ps(low, high, 0x88));
    return _mm256_castpd_ps(_mm256_permute4x64_pd(halves, 0xd8));
  }
#endif
  typename T::Item near[kLanes] = {};
  for (int i = 0; i < n; ++i) near[i] = p[2 * i];
  return T::load(near);
#endif
}

#if defined(DXDW_BF16_PAIRS)

// The first n pairs (low[2 i], high[2 i]), zeros behind them.
DXDW_INLINE Vec v_pairs_second(const uint16_t *low, const uint16_t *high, int n) {
#if defined(DXDW_LEVEL_AVX512BF16)
  const __mmask32 there = (2u << (2 * n - 2)) - 1u;
  const __m512i l = _mm512_maskz_loadu_epi16(there, low), h = _mm512_maskz_loadu_epi16(there, high);
  return _mm512_castsi512_ps(_mm512_mask_blend_epi16(0xaaaaaaaau, l, _mm512_slli_epi32(h, 16)));
#else
  uint16_t near_low[kLanes] = {}, near_high[kLanes] = {};
  for (int i = 0; i < n; ++i) near_low[i] = low[2 * i], near_high[i] = high[2 * i];
  return v_pairs(near_low, near_high, kLanes);
#endif
}

// The first n pairs (p[4 i], p[4 i + 2]), zeros behind them.
DXDW_INLINE Vec v_line_pairs_second(const uint16_t *p, int n) {
#if defined(DXDW_LEVEL_AVX512BF16)
  const uint64_t there = (uint64_t{2} << (4 * n - 2)) - 1u;
  const __m512i low = _mm512_maskz_loadu_epi16(static_cast<__mmask32>(there), p);
  const __m512i high = _mm512_maskz_loadu_epi16(static_cast<__mmask32>(there >> 32), p + 2 * kLanes);
  const __m512i even = _mm512_set_epi16(62, 60, 58, 56, 54, 52, 50, 48, 46, 44, 42, 40, 38, 36, 34, 32, 30, 28, 26, 24,
                                        22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  return _mm512_castsi512_ps(_mm512_permutex2var_epi16(low, even, high));
#else
  uint16_t near[2 * kLanes] = {};
  for (int i = 0; i < 2 * n; ++i) near[i] = p[2 * i];
  Vec pairs;
  memcpy(&pairs, near, sizeof pairs);
  return pairs;
#endif
}

#endif

template <typename T>
DXDW_INLINE void v_store_first(typename T::Item *p, Vec v, int n) {
  if (n == kLanes) return T::store(p, v);
  if (sizeof(typename T::Item) == sizeof(float)) return v_store_n(reinterpret_cast<float *>(p), v, n);
  typename T::Item items[kLanes];
  T::store(items, v);
  for (int i = 0; i < n; ++i) p[i] = items[i];
}

}  // namespace
