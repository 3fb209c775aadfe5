// Sixteen lanes on AArch64 NEON: four registers.
#pragma once
#include <arm_neon.h>

#include <cstdint>

namespace {

constexpr int kGroupRows = 6;
constexpr int kPairFloats = 3;
constexpr int kPairBlocks = 0;
constexpr int kKept = 6;        // vectors of integers and sums of a group that stay in registers
constexpr int kChains = 1;
constexpr int kMaxQueries = 4;  // of one call of attend
constexpr int kSums = 6;        // vectors of sums that stay in registers

struct F {
    float32x4_t v[4];
};
struct I {
    int32x4_t v[4];
};

#define EACH(expression)                    \
    {                                       \
        for (int j = 0; j < 4; ++j) {       \
            expression;                     \
        }                                   \
    }

inline F load(const float* p) { F a; EACH(a.v[j] = vld1q_f32(p + 4 * j)) return a; }
inline void store(float* p, F a) { EACH(vst1q_f32(p + 4 * j, a.v[j])) }
inline F set1(float x) { F a; EACH(a.v[j] = vdupq_n_f32(x)) return a; }
inline F add(F a, F b) { EACH(a.v[j] = vaddq_f32(a.v[j], b.v[j])) return a; }
inline F sub(F a, F b) { EACH(a.v[j] = vsubq_f32(a.v[j], b.v[j])) return a; }
inline F mul(F a, F b) { EACH(a.v[j] = vmulq_f32(a.v[j], b.v[j])) return a; }
inline F div(F a, F b) { EACH(a.v[j] = vdivq_f32(a.v[j], b.v[j])) return a; }
inline F fma(F a, F b, F c) { EACH(c.v[j] = vfmaq_f32(c.v[j], a.v[j], b.v[j])) return c; }
inline F max(F a, F b) { EACH(a.v[j] = vmaxq_f32(a.v[j], b.v[j])) return a; }
inline F min(F a, F b) { EACH(a.v[j] = vminq_f32(a.v[j], b.v[j])) return a; }
inline float max_lanes(F a) {
    return vmaxvq_f32(vmaxq_f32(vmaxq_f32(a.v[0], a.v[1]), vmaxq_f32(a.v[2], a.v[3])));
}
inline F abs(F a) { EACH(a.v[j] = vabsq_f32(a.v[j])) return a; }
inline F zero_below(F x, float limit, F a) {
    EACH(a.v[j] = vbslq_f32(vcltq_f32(x.v[j], vdupq_n_f32(limit)), vdupq_n_f32(0.0f), a.v[j])) return a;
}

inline F load_half(const uint16_t* p) {
    F a; EACH(a.v[j] = vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4 * j)))) return a;
}
inline void store_half(uint16_t* p, F a) { EACH(vst1_u16(p + 4 * j, vreinterpret_u16_f16(vcvt_f16_f32(a.v[j])))) }
inline F load_bf16(const uint16_t* p) {
    F a; EACH(a.v[j] = vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p + 4 * j), 16))) return a;
}
inline F from_u8(const uint8_t* p) {
    F a; EACH(for (int i = 0; i < 4; ++i) a.v[j][i] = p[4 * j + i]) return a;
}
inline F from_i8(const uint8_t* p) {
    F a; EACH(for (int i = 0; i < 4; ++i) a.v[j][i] = (int8_t)p[4 * j + i]) return a;
}

inline I load(const int32_t* p) { I a; EACH(a.v[j] = vld1q_s32(p + 4 * j)) return a; }
inline I load_bytes(const uint8_t* p) {
    I a; EACH(a.v[j] = vreinterpretq_s32_u8(vld1q_u8(p + 16 * j))) return a;
}
inline void store(int32_t* p, I a) { EACH(vst1q_s32(p + 4 * j, a.v[j])) }
inline I set1(int32_t x) { I a; EACH(a.v[j] = vdupq_n_s32(x)) return a; }
inline I zero_int() { return set1(int32_t(0)); }
inline I add(I a, I b) { EACH(a.v[j] = vaddq_s32(a.v[j], b.v[j])) return a; }
inline I sub16(I a, I b) {
    EACH(a.v[j] = vreinterpretq_s32_s16(
             vsubq_s16(vreinterpretq_s16_s32(a.v[j]), vreinterpretq_s16_s32(b.v[j])))) return a;
}
inline I bit_and(I a, I b) { EACH(a.v[j] = vandq_s32(a.v[j], b.v[j])) return a; }
inline I bit_or(I a, I b) { EACH(a.v[j] = vorrq_s32(a.v[j], b.v[j])) return a; }
template <int n> inline I shift_right(I a) {
    if constexpr (n > 0)
        EACH(a.v[j] = vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(a.v[j]), n)))
    return a;
}
template <int n> inline I shift_left(I a) { EACH(a.v[j] = vshlq_n_s32(a.v[j], n)) return a; }
inline I load_i8_pairs(const uint8_t* p) {
    I a; EACH(a.v[j] = vreinterpretq_s32_s16(vmovl_s8(vld1_s8((const int8_t*)p + 8 * j)))) return a;
}
inline F to_float(I a) { F b; EACH(b.v[j] = vcvtq_f32_s32(a.v[j])) return b; }
inline I round_int(F a) { I b; EACH(b.v[j] = vcvtnq_s32_f32(a.v[j])) return b; }
inline I as_int(F a) { I b; EACH(b.v[j] = vreinterpretq_s32_f32(a.v[j])) return b; }
inline I max(I a, I b) { EACH(a.v[j] = vmaxq_s32(a.v[j], b.v[j])) return a; }
inline int32_t max_lanes(I a) {
    return vmaxvq_s32(vmaxq_s32(vmaxq_s32(a.v[0], a.v[1]), vmaxq_s32(a.v[2], a.v[3])));
}
inline F as_float(I a) { F b; EACH(b.v[j] = vreinterpretq_f32_s32(a.v[j])) return b; }

// acc + w.lo · x.lo + w.hi · x.hi of each lane's two int16.
inline I dot_pair(I acc, I w, I x) {
    EACH(const int16x8_t a = vreinterpretq_s16_s32(w.v[j]); const int16x8_t b = vreinterpretq_s16_s32(x.v[j]);
         const int32x4_t products = vpaddq_s32(vmull_s16(vget_low_s16(a), vget_low_s16(b)), vmull_high_s16(a, b));
         acc.v[j] = vaddq_s32(acc.v[j], products))
    return acc;
}

// Codes without a sign are below 128 here, so all bytes may as well have one.
constexpr bool kNarrowSums = false, kSignedBytes = true;

// Lanes' bytes a0 b0 a1 b1, of pairs of bytes.
inline I zip_bytes(const uint8_t* a, const uint8_t* b) {
    I c;
    EACH(const uint8x8_t p = vld1_u8(a + 8 * j); const uint8x8_t q = vld1_u8(b + 8 * j);
         c.v[j] = vreinterpretq_s32_u8(vcombine_u8(vzip1_u8(p, q), vzip2_u8(p, q)))) return c;
}
inline I flip(I a, uint32_t bits) {
    EACH(a.v[j] = veorq_s32(a.v[j], vdupq_n_s32(int32_t(bits)))) return a;
}

// acc + the products of each lane's four bytes.
inline I dot_signed(I acc, I w, I x) {
    EACH(const int8x16_t a = vreinterpretq_s8_s32(w.v[j]); const int8x16_t b = vreinterpretq_s8_s32(x.v[j]);
         const int32x4_t low = vpaddlq_s16(vmull_s8(vget_low_s8(a), vget_low_s8(b)));
         const int32x4_t high = vpaddlq_s16(vmull_high_s8(a, b));
         acc.v[j] = vaddq_s32(acc.v[j], vpaddq_s32(low, high)))
    return acc;
}
inline I dot_quad(I acc, I w, I x) { return dot_signed(acc, w, x); }

#undef EACH

}  // namespace
