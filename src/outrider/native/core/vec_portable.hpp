// Sixteen lanes in plain C++, for processors without a vector file of their own.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

#include "half.hpp"

namespace {

constexpr int kGroupRows = 2;
constexpr int kPairFloats = 0;
constexpr int kPairBlocks = 0;
constexpr int kKept = 4;        // vectors of integers and sums of a group that stay in registers
constexpr int kChains = 1;
constexpr int kMaxQueries = 4;  // of one call of attend
constexpr int kSums = 4;        // vectors of sums that stay in registers

struct F {
    float v[16];
};
struct I {
    int32_t v[16];
};

template <class G> inline F each(G g) {
    F a;
    for (int j = 0; j < 16; ++j) a.v[j] = g(j);
    return a;
}
template <class G> inline I each_int(G g) {
    I a;
    for (int j = 0; j < 16; ++j) a.v[j] = g(j);
    return a;
}

inline F load(const float* p) { return each([=](int j) { return p[j]; }); }
inline void store(float* p, F a) { std::memcpy(p, a.v, sizeof a.v); }
inline F set1(float a) { return each([=](int) { return a; }); }
inline F add(F a, F b) { return each([&](int j) { return a.v[j] + b.v[j]; }); }
inline F sub(F a, F b) { return each([&](int j) { return a.v[j] - b.v[j]; }); }
inline F mul(F a, F b) { return each([&](int j) { return a.v[j] * b.v[j]; }); }
inline F div(F a, F b) { return each([&](int j) { return a.v[j] / b.v[j]; }); }
inline F fma(F a, F b, F c) { return each([&](int j) { return a.v[j] * b.v[j] + c.v[j]; }); }
inline F max(F a, F b) { return each([&](int j) { return a.v[j] > b.v[j] ? a.v[j] : b.v[j]; }); }
inline F min(F a, F b) { return each([&](int j) { return a.v[j] < b.v[j] ? a.v[j] : b.v[j]; }); }
inline float max_lanes(F a) {
    float most = a.v[0];
    for (int j = 1; j < 16; ++j) most = a.v[j] > most ? a.v[j] : most;
    return most;
}
inline F abs(F a) { return each([&](int j) { return std::fabs(a.v[j]); }); }
inline F zero_below(F x, float limit, F a) { return each([&](int j) { return x.v[j] < limit ? 0.0f : a.v[j]; }); }

inline F load_half(const uint16_t* p) { return each([=](int j) { return half_to_float(p[j]); }); }
inline void store_half(uint16_t* p, F a) {
    for (int j = 0; j < 16; ++j) p[j] = float_to_half(a.v[j]);
}
inline F load_bf16(const uint16_t* p) { return each([=](int j) { return float_of(uint32_t(p[j]) << 16); }); }
inline F from_u8(const uint8_t* p) { return each([=](int j) { return float(p[j]); }); }
inline F from_i8(const uint8_t* p) { return each([=](int j) { return float((int8_t)p[j]); }); }

inline I load(const int32_t* p) { return each_int([=](int j) { return p[j]; }); }
inline I load_bytes(const uint8_t* p) {
    I a;
    std::memcpy(a.v, p, sizeof a.v);
    return a;
}
inline void store(int32_t* p, I a) { std::memcpy(p, a.v, sizeof a.v); }
inline I set1(int32_t a) { return each_int([=](int) { return a; }); }
inline I zero_int() { return set1(int32_t(0)); }
inline I add(I a, I b) { return each_int([&](int j) { return a.v[j] + b.v[j]; }); }
inline int32_t pair_of(int low, int high) { return int32_t(uint32_t(uint16_t(high)) << 16 | uint16_t(low)); }
inline int low_of(int32_t a) { return int16_t(a & 0xFFFF); }
inline int high_of(int32_t a) { return int16_t(uint32_t(a) >> 16); }
inline I sub16(I a, I b) {
    return each_int([&](int j) {
        return pair_of(low_of(a.v[j]) - low_of(b.v[j]), high_of(a.v[j]) - high_of(b.v[j]));
    });
}
inline I bit_and(I a, I b) { return each_int([&](int j) { return a.v[j] & b.v[j]; }); }
inline I bit_or(I a, I b) { return each_int([&](int j) { return a.v[j] | b.v[j]; }); }
template <int n> inline I shift_right(I a) {
    return each_int([&](int j) { return int32_t(uint32_t(a.v[j]) >> n); });
}
template <int n> inline I shift_left(I a) {
    return each_int([&](int j) { return int32_t(uint32_t(a.v[j]) << n); });
}
inline I load_i8_pairs(const uint8_t* p) {
    return each_int([=](int j) { return pair_of((int8_t)p[2 * j], (int8_t)p[2 * j + 1]); });
}
inline F to_float(I a) { return each([&](int j) { return float(a.v[j]); }); }
inline I round_int(F a) {
    return each_int([&](int j) {
        // Out of range, as on x86: the most negative integer.
        const float r = std::nearbyint(a.v[j]);
        return r >= -2147483648.0f && r < 2147483648.0f ? int32_t(r) : INT32_MIN;
    });
}
inline I as_int(F a) { return each_int([&](int j) { return int32_t(bits_of(a.v[j])); }); }
inline I max(I a, I b) { return each_int([&](int j) { return a.v[j] > b.v[j] ? a.v[j] : b.v[j]; }); }
inline int32_t max_lanes(I a) {
    int32_t most = a.v[0];
    for (int j = 1; j < 16; ++j) most = a.v[j] > most ? a.v[j] : most;
    return most;
}
inline F as_float(I a) { return each([&](int j) { return float_of(uint32_t(a.v[j])); }); }

// acc + w.lo · x.lo + w.hi · x.hi of each lane's two int16.
inline I dot_pair(I acc, I w, I x) {
    return each_int([&](int j) {
        return acc.v[j] + low_of(w.v[j]) * low_of(x.v[j]) + high_of(w.v[j]) * high_of(x.v[j]);
    });
}

constexpr bool kNarrowSums = false, kSignedBytes = false;

// Lanes' bytes a0 b0 a1 b1, of pairs of bytes.
inline I zip_bytes(const uint8_t* a, const uint8_t* b) {
    return each_int([=](int j) {
        return int32_t(uint32_t(b[2 * j + 1]) << 24 | uint32_t(a[2 * j + 1]) << 16 | uint32_t(b[2 * j]) << 8 | a[2 * j]);
    });
}
inline I flip(I a, uint32_t bits) { return each_int([&](int j) { return int32_t(uint32_t(a.v[j]) ^ bits); }); }

// acc + the products of each lane's four bytes, of w without a sign and of x with one.
inline I dot_quad(I acc, I w, I x) {
    return each_int([&](int j) {
        int32_t sum = acc.v[j];
        for (int i = 0; i < 32; i += 8) sum += int(uint8_t(w.v[j] >> i)) * int(int8_t(x.v[j] >> i));
        return sum;
    });
}

}  // namespace
