// The part of AVX-512 that the kernels of AMX use, played by AVX2: the sanitizers then see them on processors without
// either. Found ahead of the compiler's header; a name here hides the compiler's from whatever is in the unnamed
// namespace, as all kernels are.
#pragma once
#include_next <immintrin.h>

#include <cstdint>

#undef _mm512_cmp_ps_mask
#undef _mm512_cvtps_ph
#undef _mm512_slli_epi16
#undef _mm512_slli_epi32
#undef _mm512_srai_epi32
#undef _mm512_srli_epi32
// Called rather than inlined, for the compiler's sake.
#define OUTRIDER_PLAYED [[gnu::noinline, maybe_unused]] static

namespace {

template <class Whole, class Half> struct Halves {
    Half lo, hi;
    Halves(Half low, Half high) : lo(low), hi(high) {}
    explicit Halves(const Whole& whole) { __builtin_memcpy(this, &whole, sizeof whole); }
    Whole whole() const {
        Whole out;
        __builtin_memcpy(&out, this, sizeof out);
        return out;
    }
};
using HalfFloats = Halves<__m512, __m256>;
using HalfInts = Halves<__m512i, __m256i>;

#define OUTRIDER_FLOATS(name)                                                                \
    OUTRIDER_PLAYED __m512 _mm512_##name(__m512 a, __m512 b) {                               \
        const HalfFloats x(a), y(b);                                                         \
        return HalfFloats(_mm256_##name(x.lo, y.lo), _mm256_##name(x.hi, y.hi)).whole();     \
    }
OUTRIDER_FLOATS(add_ps)
OUTRIDER_FLOATS(sub_ps)
OUTRIDER_FLOATS(mul_ps)
OUTRIDER_FLOATS(div_ps)
OUTRIDER_FLOATS(max_ps)
OUTRIDER_FLOATS(min_ps)

#define OUTRIDER_INTS(name, half)                                                            \
    OUTRIDER_PLAYED __m512i _mm512_##name(__m512i a, __m512i b) {                            \
        const HalfInts x(a), y(b);                                                           \
        return HalfInts(_mm256_##half(x.lo, y.lo), _mm256_##half(x.hi, y.hi)).whole();       \
    }
OUTRIDER_INTS(add_epi32, add_epi32)
OUTRIDER_INTS(sub_epi32, sub_epi32)
OUTRIDER_INTS(sub_epi16, sub_epi16)
OUTRIDER_INTS(madd_epi16, madd_epi16)
OUTRIDER_INTS(max_epi32, max_epi32)
OUTRIDER_INTS(and_si512, and_si256)
OUTRIDER_INTS(or_si512, or_si256)
OUTRIDER_INTS(xor_si512, xor_si256)

#define OUTRIDER_SHIFT(name)                                                                 \
    OUTRIDER_PLAYED __m512i _mm512_##name(__m512i a, unsigned bits) {                        \
        const HalfInts x(a);                                                                 \
        return HalfInts(_mm256_##name(x.lo, int(bits)), _mm256_##name(x.hi, int(bits))).whole(); \
    }
OUTRIDER_SHIFT(slli_epi16)
OUTRIDER_SHIFT(slli_epi32)
OUTRIDER_SHIFT(srli_epi32)
OUTRIDER_SHIFT(srai_epi32)

template <class To, class From> To same_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "other bits");
    To to;
    __builtin_memcpy(&to, &from, sizeof to);
    return to;
}
OUTRIDER_PLAYED __m512i _mm512_castps_si512(__m512 a) { return same_bits<__m512i>(a); }
OUTRIDER_PLAYED __m512 _mm512_castsi512_ps(__m512i a) { return same_bits<__m512>(a); }

struct Bytes64 {
    uint8_t bytes[64];
};
struct alignas(64) Line : Bytes64 {};  // of which the sanitizer checks the boundary
OUTRIDER_PLAYED __m512 _mm512_loadu_ps(const void* p) { return same_bits<__m512>(*(const Bytes64*)p); }
OUTRIDER_PLAYED __m512i _mm512_loadu_si512(const void* p) { return same_bits<__m512i>(*(const Bytes64*)p); }
OUTRIDER_PLAYED __m512i _mm512_load_si512(const void* p) { return same_bits<__m512i>(*(const Line*)p); }
OUTRIDER_PLAYED void _mm512_storeu_ps(void* p, __m512 a) { *(Bytes64*)p = same_bits<Bytes64>(a); }
OUTRIDER_PLAYED void _mm512_storeu_si512(void* p, __m512i a) { *(Bytes64*)p = same_bits<Bytes64>(a); }
OUTRIDER_PLAYED void _mm512_store_si512(void* p, __m512i a) { *(Line*)p = same_bits<Line>(a); }

OUTRIDER_PLAYED __m512 _mm512_set1_ps(float a) { return HalfFloats(_mm256_set1_ps(a), _mm256_set1_ps(a)).whole(); }
OUTRIDER_PLAYED __m512i _mm512_set1_epi32(int a) {
    return HalfInts(_mm256_set1_epi32(a), _mm256_set1_epi32(a)).whole();
}
OUTRIDER_PLAYED __m512 _mm512_setzero_ps() { return _mm512_set1_ps(0.0f); }
OUTRIDER_PLAYED __m512i _mm512_setzero_si512() { return _mm512_set1_epi32(0); }

OUTRIDER_PLAYED __m512 _mm512_fmadd_ps(__m512 a, __m512 b, __m512 c) {
    const HalfFloats x(a), y(b), z(c);
    return HalfFloats(_mm256_fmadd_ps(x.lo, y.lo, z.lo), _mm256_fmadd_ps(x.hi, y.hi, z.hi)).whole();
}
OUTRIDER_PLAYED __m512 _mm512_abs_ps(__m512 a) {
    return _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(a), _mm512_set1_epi32(0x7FFFFFFF)));
}
OUTRIDER_PLAYED __mmask16 _mm512_cmp_ps_mask(__m512 a, __m512 b, int) {  // the one that is asked for: less than
    const HalfFloats x(a), y(b);
    return __mmask16(_mm256_movemask_ps(_mm256_cmp_ps(x.lo, y.lo, _CMP_LT_OQ)) |
                     _mm256_movemask_ps(_mm256_cmp_ps(x.hi, y.hi, _CMP_LT_OQ)) << 8);
}
OUTRIDER_PLAYED __m512 _mm512_mask_mov_ps(__m512 a, __mmask16 mask, __m512 b) {
    for (int i = 0; i < 16; ++i)
        if (mask >> i & 1) a[i] = b[i];
    return a;
}
OUTRIDER_PLAYED float _mm512_reduce_max_ps(__m512 a) {
    float most = a[0];
    for (int i = 1; i < 16; ++i) most = a[i] > most ? a[i] : most;
    return most;
}
OUTRIDER_PLAYED int _mm512_reduce_max_epi32(__m512i a) {
    struct {
        int32_t lanes[16];
    } ints;
    __builtin_memcpy(&ints, &a, sizeof ints);
    int most = ints.lanes[0];
    for (int lane : ints.lanes) most = lane > most ? lane : most;
    return most;
}

OUTRIDER_PLAYED __m512 _mm512_cvtepi32_ps(__m512i a) {
    const HalfInts x(a);
    return HalfFloats(_mm256_cvtepi32_ps(x.lo), _mm256_cvtepi32_ps(x.hi)).whole();
}
OUTRIDER_PLAYED __m512i _mm512_cvtps_epi32(__m512 a) {
    const HalfFloats x(a);
    return HalfInts(_mm256_cvtps_epi32(x.lo), _mm256_cvtps_epi32(x.hi)).whole();
}
OUTRIDER_PLAYED __m512 _mm512_cvtph_ps(__m256i a) {
    return HalfFloats(_mm256_cvtph_ps(_mm256_castsi256_si128(a)), _mm256_cvtph_ps(_mm256_extracti128_si256(a, 1)))
        .whole();
}
OUTRIDER_PLAYED __m256i _mm512_cvtps_ph(__m512 a, int) {  // to the nearest
    const HalfFloats x(a);
    return _mm256_set_m128i(_mm256_cvtps_ph(x.hi, _MM_FROUND_TO_NEAREST_INT),
                            _mm256_cvtps_ph(x.lo, _MM_FROUND_TO_NEAREST_INT));
}
OUTRIDER_PLAYED __m512i _mm512_cvtepu16_epi32(__m256i a) {
    return HalfInts(_mm256_cvtepu16_epi32(_mm256_castsi256_si128(a)),
                    _mm256_cvtepu16_epi32(_mm256_extracti128_si256(a, 1)))
        .whole();
}
OUTRIDER_PLAYED __m512i _mm512_cvtepu8_epi16(__m256i a) {
    return HalfInts(_mm256_cvtepu8_epi16(_mm256_castsi256_si128(a)),
                    _mm256_cvtepu8_epi16(_mm256_extracti128_si256(a, 1)))
        .whole();
}
OUTRIDER_PLAYED __m512i _mm512_cvtepi8_epi16(__m256i a) {
    return HalfInts(_mm256_cvtepi8_epi16(_mm256_castsi256_si128(a)),
                    _mm256_cvtepi8_epi16(_mm256_extracti128_si256(a, 1)))
        .whole();
}
OUTRIDER_PLAYED __m512i _mm512_cvtepu8_epi32(__m128i a) {
    return HalfInts(_mm256_cvtepu8_epi32(a), _mm256_cvtepu8_epi32(_mm_srli_si128(a, 8))).whole();
}
OUTRIDER_PLAYED __m512i _mm512_cvtepi8_epi32(__m128i a) {
    return HalfInts(_mm256_cvtepi8_epi32(a), _mm256_cvtepi8_epi32(_mm_srli_si128(a, 8))).whole();
}

struct Words {
    uint16_t at[32];
};
OUTRIDER_PLAYED __m256i _mm512_cvtepi32_epi16(__m512i a) {  // the lower halves
    const Words words = same_bits<Words>(a);
    struct {
        uint16_t at[16];
    } lower;
    for (int i = 0; i < 16; ++i) lower.at[i] = words.at[2 * i];
    return same_bits<__m256i>(lower);
}
OUTRIDER_PLAYED __m512i _mm512_permutex2var_epi16(__m512i a, __m512i index, __m512i b) {
    const Words low = same_bits<Words>(a), high = same_bits<Words>(b), places = same_bits<Words>(index);
    Words out;
    for (int i = 0; i < 32; ++i) {
        const int place = places.at[i] % 64;
        out.at[i] = place < 32 ? low.at[place] : high.at[place - 32];
    }
    return same_bits<__m512i>(out);
}
OUTRIDER_PLAYED __m512i _mm512_permutexvar_epi16(__m512i index, __m512i a) {
    return _mm512_permutex2var_epi16(a, index, a);
}

}  // namespace
