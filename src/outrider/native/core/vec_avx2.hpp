// Sixteen lanes on AVX2 with FMA and F16C: two registers.
#pragma once
#include <immintrin.h>

#include <cstdint>

namespace {

constexpr int kGroupRows = 6;   // rows of a group: 12 registers of sums, 4 to spare
constexpr int kPairFloats = 3;  // up to how many rows two panels are taken together
constexpr int kPairBlocks = 0;
constexpr int kKept = 6;        // vectors of integers and sums of a group that stay in registers
constexpr int kChains = 1;      // sums of integers that keep the multipliers busy
constexpr int kMaxQueries = 4;  // of one call of attend
constexpr int kSums = 6;        // vectors of sums that stay in registers

struct F {
    __m256 lo, hi;
};
struct I {
    __m256i lo, hi;
};

inline F load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void store(float* p, F a) { _mm256_storeu_ps(p, a.lo), _mm256_storeu_ps(p + 8, a.hi); }
inline F set1(float a) { return {_mm256_set1_ps(a), _mm256_set1_ps(a)}; }
inline F add(F a, F b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
inline F sub(F a, F b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
inline F mul(F a, F b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
inline F div(F a, F b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
inline F fma(F a, F b, F c) { return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)}; }
inline F max(F a, F b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
inline F min(F a, F b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
inline float max_lanes(F a) {
    const __m256 eight = _mm256_max_ps(a.lo, a.hi);
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}
inline F abs(F a) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
}
inline F zero_below(F x, float limit, F a) {
    const __m256 bound = _mm256_set1_ps(limit);
    return {_mm256_andnot_ps(_mm256_cmp_ps(x.lo, bound, _CMP_LT_OQ), a.lo),
            _mm256_andnot_ps(_mm256_cmp_ps(x.hi, bound, _CMP_LT_OQ), a.hi)};
}

inline F load_half(const uint16_t* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p)),
            _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)(p + 8)))};
}
inline void store_half(uint16_t* p, F a) {
    _mm_storeu_si128((__m128i*)p, _mm256_cvtps_ph(a.lo, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128((__m128i*)(p + 8), _mm256_cvtps_ph(a.hi, _MM_FROUND_TO_NEAREST_INT));
}
inline F load_bf16(const uint16_t* p) {
    const __m256i lo = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p));
    const __m256i hi = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)(p + 8)));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(lo, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(hi, 16))};
}
inline F from_u8(const uint8_t* p) {
    return {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)p))),
            _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)(p + 8))))};
}
inline F from_i8(const uint8_t* p) {
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)p))),
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)(p + 8))))};
}

inline I zero_int() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
inline I load_bytes(const uint8_t* p) {
    return {_mm256_loadu_si256((const __m256i*)p), _mm256_loadu_si256((const __m256i*)(p + 32))};
}
inline I load(const int32_t* p) { return load_bytes((const uint8_t*)p); }
inline void store(int32_t* p, I a) {
    _mm256_storeu_si256((__m256i*)p, a.lo), _mm256_storeu_si256((__m256i*)(p + 8), a.hi);
}
inline I set1(int32_t a) { return {_mm256_set1_epi32(a), _mm256_set1_epi32(a)}; }
inline I add(I a, I b) { return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)}; }
inline I sub16(I a, I b) { return {_mm256_sub_epi16(a.lo, b.lo), _mm256_sub_epi16(a.hi, b.hi)}; }
inline I bit_and(I a, I b) { return {_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)}; }
inline I bit_or(I a, I b) { return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)}; }
template <int n> inline I shift_right(I a) { return {_mm256_srli_epi32(a.lo, n), _mm256_srli_epi32(a.hi, n)}; }
template <int n> inline I shift_left(I a) { return {_mm256_slli_epi32(a.lo, n), _mm256_slli_epi32(a.hi, n)}; }
inline I load_i8_pairs(const uint8_t* p) {
    return {_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i*)p)),
            _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i*)(p + 16)))};
}
inline F to_float(I a) { return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)}; }
inline I round_int(F a) { return {_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi)}; }
inline I as_int(F a) { return {_mm256_castps_si256(a.lo), _mm256_castps_si256(a.hi)}; }
inline I max(I a, I b) { return {_mm256_max_epi32(a.lo, b.lo), _mm256_max_epi32(a.hi, b.hi)}; }
inline int32_t max_lanes(I a) {
    const __m256i eight = _mm256_max_epi32(a.lo, a.hi);
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4E));
    return _mm_cvtsi128_si32(_mm_max_epi32(m, _mm_shuffle_epi32(m, 0xB1)));
}
inline F as_float(I a) { return {_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)}; }

// acc + w.lo · x.lo + w.hi · x.hi of each lane's two int16. The compiler must not see through the sum: it would
// put off all the additions and keep every product in memory meanwhile.
inline I dot_pair(I acc, I w, I x) {
    acc.lo = _mm256_add_epi32(acc.lo, _mm256_madd_epi16(w.lo, x.lo));
    acc.hi = _mm256_add_epi32(acc.hi, _mm256_madd_epi16(w.hi, x.hi));
    asm("" : "+x"(acc.lo), "+x"(acc.hi));
    return acc;
}

// Sums of two products of bytes are of 16 bits.
constexpr bool kNarrowSums = true, kSignedBytes = true;

// Lanes' bytes a0 b0 a1 b1, of pairs of bytes.
inline I zip_bytes(const uint8_t* a, const uint8_t* b) {
    const I low = {_mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i*)a)),
                   _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i*)(a + 16)))};
    const I high = {_mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i*)b)),
                    _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i*)(b + 16)))};
    return bit_or(low, I{_mm256_slli_epi16(high.lo, 8), _mm256_slli_epi16(high.hi, 8)});
}
inline I flip(I a, uint32_t bits) {
    const __m256i mask = _mm256_set1_epi32(int32_t(bits));
    return {_mm256_xor_si256(a.lo, mask), _mm256_xor_si256(a.hi, mask)};
}

// The sums of each lane's two int16.
inline I widen(I few) {
    const __m256i ones = _mm256_set1_epi16(1);
    return {_mm256_madd_epi16(few.lo, ones), _mm256_madd_epi16(few.hi, ones)};
}

// acc, two int16 a lane, + the products of its four bytes, of w without a sign and of x with one, in twos.
inline I dot_quad(I acc, I w, I x) {
    acc.lo = _mm256_add_epi16(acc.lo, _mm256_maddubs_epi16(w.lo, x.lo));
    acc.hi = _mm256_add_epi16(acc.hi, _mm256_maddubs_epi16(w.hi, x.hi));
    asm("" : "+x"(acc.lo), "+x"(acc.hi));
    return acc;
}

// acc + the products of each lane's four bytes, both with a sign; no byte of x is −128.
inline I dot_signed(I acc, I w, I x) {
    return add(acc, widen({_mm256_maddubs_epi16(_mm256_abs_epi8(w.lo), _mm256_sign_epi8(x.lo, w.lo)),
                           _mm256_maddubs_epi16(_mm256_abs_epi8(w.hi), _mm256_sign_epi8(x.hi, w.hi))}));
}

}  // namespace
