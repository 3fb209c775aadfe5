// Sixteen lanes on AVX-512: one register.
#pragma once
#include <immintrin.h>

#include <cstdint>

namespace {

constexpr int kGroupRows = 12;   // rows of a group: 24 sums of two panels, 8 registers to spare
constexpr int kPairFloats = 12;  // up to how many rows two panels are taken together
constexpr int kPairBlocks = 8;
constexpr int kKept = 32;       // vectors of integers and sums of a group that stay in registers
constexpr int kChains = 8;      // sums of integers that keep the multipliers busy
constexpr int kMaxQueries = 12; // of one call of attend
constexpr int kSums = 24;        // vectors of sums that stay in registers

struct F {
    __m512 v;
};
struct I {
    __m512i v;
};

inline F load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline void store(float* p, F a) { _mm512_storeu_ps(p, a.v); }
inline F set1(float a) { return {_mm512_set1_ps(a)}; }
inline F add(F a, F b) { return {_mm512_add_ps(a.v, b.v)}; }
inline F sub(F a, F b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline F mul(F a, F b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline F div(F a, F b) { return {_mm512_div_ps(a.v, b.v)}; }
inline F fma(F a, F b, F c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline F max(F a, F b) { return {_mm512_max_ps(a.v, b.v)}; }
inline F min(F a, F b) { return {_mm512_min_ps(a.v, b.v)}; }
inline float max_lanes(F a) { return _mm512_reduce_max_ps(a.v); }
inline F abs(F a) { return {_mm512_abs_ps(a.v)}; }
inline F zero_below(F x, float limit, F a) {
    return {_mm512_mask_mov_ps(a.v, _mm512_cmp_ps_mask(x.v, _mm512_set1_ps(limit), _CMP_LT_OQ), _mm512_setzero_ps())};
}

inline F load_half(const uint16_t* p) { return {_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p))}; }
inline void store_half(uint16_t* p, F a) {
    _mm256_storeu_si256((__m256i*)p, _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
inline F load_bf16(const uint16_t* p) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
}
inline F from_u8(const uint8_t* p) {
    return {_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)p)))};
}
inline F from_i8(const uint8_t* p) {
    return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i*)p)))};
}

inline I zero_int() { return {_mm512_setzero_si512()}; }
inline I load(const int32_t* p) { return {_mm512_loadu_si512(p)}; }
inline I load_bytes(const uint8_t* p) { return {_mm512_loadu_si512(p)}; }
inline void store(int32_t* p, I a) { _mm512_storeu_si512(p, a.v); }
inline I set1(int32_t a) { return {_mm512_set1_epi32(a)}; }
inline I add(I a, I b) { return {_mm512_add_epi32(a.v, b.v)}; }
inline I sub16(I a, I b) { return {_mm512_sub_epi16(a.v, b.v)}; }
inline I bit_and(I a, I b) { return {_mm512_and_si512(a.v, b.v)}; }
inline I bit_or(I a, I b) { return {_mm512_or_si512(a.v, b.v)}; }
template <int n> inline I shift_right(I a) { return {_mm512_srli_epi32(a.v, n)}; }
template <int n> inline I shift_left(I a) { return {_mm512_slli_epi32(a.v, n)}; }
inline I load_i8_pairs(const uint8_t* p) { return {_mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i*)p))}; }
inline F to_float(I a) { return {_mm512_cvtepi32_ps(a.v)}; }
inline I round_int(F a) { return {_mm512_cvtps_epi32(a.v)}; }
inline I as_int(F a) { return {_mm512_castps_si512(a.v)}; }
inline I max(I a, I b) { return {_mm512_max_epi32(a.v, b.v)}; }
inline int32_t max_lanes(I a) { return _mm512_reduce_max_epi32(a.v); }
inline F as_float(I a) { return {_mm512_castsi512_ps(a.v)}; }

// acc + w.lo · x.lo + w.hi · x.hi of each lane's two int16.
inline I dot_pair(I acc, I w, I x) {
#ifdef __AVX512VNNI__
    return {_mm512_dpwssd_epi32(acc.v, w.v, x.v)};
#else
    return {_mm512_add_epi32(acc.v, _mm512_madd_epi16(w.v, x.v))};
#endif
}

constexpr bool kNarrowSums = false, kSignedBytes = false;

// Lanes' bytes a0 b0 a1 b1, of pairs of bytes.
inline I zip_bytes(const uint8_t* a, const uint8_t* b) {
    const __m512i low = _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i*)a));
    const __m512i high = _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i*)b));
    return {_mm512_or_si512(low, _mm512_slli_epi16(high, 8))};
}
inline I flip(I a, uint32_t bits) { return {_mm512_xor_si512(a.v, _mm512_set1_epi32(int32_t(bits)))}; }

#ifdef __AVX512VNNI__
// acc + the products of each lane's four bytes, of w without a sign and of x with one.
inline I dot_quad(I acc, I w, I x) { return {_mm512_dpbusd_epi32(acc.v, w.v, x.v)}; }
#endif

}  // namespace
