// The row kernels of one instruction set; its vector file is included first. Everything has internal linkage (see
// table.hpp). Sums in float64 are of multiples of a power of two so coarse that it holds every partial sum: their order
// makes no difference. Sums in float32 have a fixed order, the same for any number of lanes.
#pragma once
#include <cmath>
#include <cstdint>

#include "rows.hpp"

namespace {

using outrider::Arrival, outrider::RowKernels;

constexpr float kLowest = -125.0f;  // 2 to the power of less counts as 0, which keeps clear of denormals

inline F at_least_lowest(F t) { return max(set1(kLowest), t); }  // in this order NaN passes through

// 2^t for kLowest <= t <= 0. sampling/rows.py has the same steps: nothing is fused.
inline F row_power(F t) {
    const I n = round_int(t);
    const F r = sub(t, to_float(n));
    F p = set1(0.00132647273f);
    p = add(mul(p, r), set1(0.00967151299f));
    p = add(mul(p, r), set1(0.0555073358f));
    p = add(mul(p, r), set1(0.240222424f));
    p = add(mul(p, r), set1(0.693147004f));
    p = add(mul(p, r), set1(1.0f));
    return as_float(add(as_int(p), shift_left<23>(n)));
}

// Sixteen sums in float64.
struct Sums {
    typedef double Four __attribute__((vector_size(32)));
    typedef float FourFloats __attribute__((vector_size(16)));
    Four sum[4] = {};
    Four magic;

    explicit Sums(double grid) : magic{grid, grid, grid, grid} {}
    inline void add_all(F a) {
#if defined(__AVX2__) && !defined(__AVX512F__)
        add_four(0, _mm256_cvtps_pd(_mm256_castps256_ps128(a.lo)));
        add_four(1, _mm256_cvtps_pd(_mm256_extractf128_ps(a.lo, 1)));
        add_four(2, _mm256_cvtps_pd(_mm256_castps256_ps128(a.hi)));
        add_four(3, _mm256_cvtps_pd(_mm256_extractf128_ps(a.hi, 1)));
#else
        float v[16];
        store(v, a);
        for (int j = 0; j < 4; ++j) {
            FourFloats four;
            __builtin_memcpy(&four, v + 4 * j, sizeof four);
            add_four(j, __builtin_convertvector(four, Four));
        }
#endif
    }
    inline void add_four(int j, const Four& a) { sum[j] += (a + magic) - magic; }
    inline double all() const {
        const Four four = (sum[0] + sum[1]) + (sum[2] + sum[3]);
        return (four[0] + four[1]) + (four[2] + four[3]);
    }
};

// Up to 16 values, filled up.
inline F load_part(const float* x, size_t n, float filler) {
    float v[16];
    for (size_t j = 0; j < 16; ++j) v[j] = j < n ? x[j] : filler;
    return load(v);
}

float row_peak(const float* x, size_t n) {
    F most[2] = {set1(-INFINITY), set1(-INFINITY)};
    size_t i = 0;
    for (; i + 32 <= n; i += 32)
        for (int j = 0; j < 2; ++j) most[j] = max(load(x + i + 16 * j), most[j]);
    for (; i < n; i += 16) most[0] = max(load_part(x + i, n - i, -INFINITY), most[0]);
    return max_lanes(max(most[0], most[1]));
}

size_t row_above(const float* x, size_t n, float bound, int64_t* found, size_t room) {
    constexpr size_t kVectors = 4, kStretch = 16 * kVectors;
    constexpr int32_t kInfinity = 0x7F800000;  // the bits of NaN, without the sign, are more
    size_t held = 0;
    I bits = zero_int();
    for (size_t start = 0; start < n; start += kStretch) {
        F v[kVectors], most = set1(-INFINITY);
        for (size_t j = 0; j < kVectors; ++j) {
            const size_t at = start + 16 * j;
            v[j] = at + 16 <= n ? load(x + at) : load_part(x + at, at < n ? n - at : 0, -INFINITY);
            bits = max(bits, bit_and(as_int(v[j]), set1(int32_t(0x7FFFFFFF))));
            most = max(v[j], most);
        }
        if (!(max_lanes(most) > bound)) continue;
        for (size_t j = 0; j < kVectors; ++j) {
            if (!(max_lanes(v[j]) > bound)) continue;
            for (size_t i = start + 16 * j; i < start + 16 * (j + 1) && i < n; ++i) {
                if (!(x[i] > bound)) continue;
                if (held == room) return room + 1;
                found[held++] = int64_t(i);
            }
        }
    }
    return max_lanes(bits) > kInfinity ? 0 : held;
}

// The sum of term(x) over x [n]. Eight vectors are added up in float32, in order, before float64 goes on: that is most
// of the work saved. The lowest terms round to nothing, so what fills the last vector up may have one.
template <class Term> inline double sum_terms(const float* x, size_t n, double magic, Term term) {
    constexpr size_t kStretch = 8 * 16;
    Sums sums(magic);
    size_t i = 0;
    for (; i + kStretch <= n; i += kStretch) {
        F sum = term(load(x + i));
        for (int j = 1; j < 8; ++j) sum = add(sum, term(load(x + i + 16 * j)));
        sums.add_all(sum);
    }
    if (i == n) return sums.all();
    F sum = set1(0.0f);
    for (; i < n; i += 16) sum = add(sum, term(load_part(x + i, n - i, -INFINITY)));
    sums.add_all(sum);
    return sums.all();
}

double row_total(const float* x, size_t n, float peak, float pace, double magic) {
    const F top = set1(peak), by = set1(pace);
    return sum_terms(x, n, magic, [&](F v) { return row_power(at_least_lowest(mul(sub(v, top), by))); });
}

double row_depth(const float* x, size_t n, float peak, float pace, double magic) {
    const F top = set1(peak), by = set1(pace);
    return sum_terms(x, n, magic, [&](F v) {
        const F t = at_least_lowest(mul(sub(v, top), by));
        return mul(row_power(t), t);
    });
}

void row_softmax(const float* x, size_t n, float peak, float pace, float total, float* out) {
    const F top = set1(peak), by = set1(pace), whole = set1(total);
    const auto share = [&](F v) {
        const F t = mul(sub(v, top), by);
        return div(zero_below(t, kLowest, row_power(at_least_lowest(t))), whole);
    };
    size_t i = 0;
    for (; i + 16 <= n; i += 16) store(out + i, share(load(x + i)));
    if (i < n) {
        float v[16];
        store(v, share(load_part(x + i, n - i, -INFINITY)));
        __builtin_memcpy(out + i, v, (n - i) * sizeof *out);
    }
}

double row_excess(const float* p, const float* q, size_t n, float scale, double magic) {
    Sums sums(magic);
    const F by = set1(scale), none = set1(0.0f);
    size_t i = 0;
    if (!q) {
        for (; i + 16 <= n; i += 16) sums.add_all(mul(load(p + i), by));
        if (i < n) sums.add_all(mul(load_part(p + i, n - i, 0.0f), by));
        return sums.all();
    }
    for (; i + 16 <= n; i += 16) sums.add_all(max(sub(mul(load(p + i), by), load(q + i)), none));
    if (i < n)
        sums.add_all(max(sub(mul(load_part(p + i, n - i, 0.0f), by), load_part(q + i, n - i, 0.0f)), none));
    return sums.all();
}

constexpr uint64_t kGamma = 0x9E3779B97F4A7C15u;

// Element i of the SplitMix64 stream of a key; see sampling/noise.py.
inline uint64_t noise_bits(uint64_t key, uint64_t i) {
    uint64_t z = key + (i + 1) * kGamma;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

// A token's time is -log(u) / p, and -log(u) >= 1 - u. So only tokens with 1 - u <= bound · p can arrive before the
// bound, the count-th time so far; they are few, and only they need a logarithm. A first look takes the upper 31 bits
// of u, rounded towards passing.
size_t row_race(const float* p, size_t n, uint64_t key, size_t count, Arrival* found, size_t room) {
    constexpr size_t kBatch = 64;
    constexpr double kSlack = 1 + 1e-9;  // more than any logarithm's error
    double bound = INFINITY;
    size_t held = 0;
    for (size_t start = 0; start < n; start += kBatch) {
        const size_t size = n - start < kBatch ? n - start : kBatch;
        float weight[kBatch] = {};
        __builtin_memcpy(weight, p + start, size * sizeof *p);
        int32_t gap[kBatch];
        for (size_t j = 0; j < kBatch; ++j) gap[j] = int32_t(~noise_bits(key, start + j) >> 33);
        const float scale = float(bound * (0x1p31 * 1.00001));
        int any = 0;
        for (size_t j = 0; j < kBatch; ++j) any |= float(gap[j]) <= weight[j] * scale;
        // Until a bound is known, zero times infinity would hide nothing but zeros.
        if (!any) continue;
        for (size_t j = 0; j < size; ++j) {
            if (!(weight[j] > 0) || !(float(gap[j]) <= weight[j] * scale)) continue;
            const uint64_t odd = noise_bits(key, start + j) >> 11 | 1;
            const double time = -std::log(double(odd) * 0x1p-53) / double(weight[j]);
            if (!(time <= bound * kSlack)) continue;
            if (held == room) return room + 1;
            found[held++] = {time, int64_t(start + j)};
            if (held < count) continue;
            if (count == 1) {
                bound = time < bound ? time : bound;
                continue;
            }
            // The count-th smallest: few are held, and most tokens never come here. Those past it are dropped.
            for (size_t a = 1; a < held; ++a) {
                const Arrival own = found[a];
                size_t b = a;
                for (; b > 0 && found[b - 1].time > own.time; --b) found[b] = found[b - 1];
                found[b] = own;
            }
            bound = found[count - 1].time;
            while (held > count && found[held - 1].time > bound * kSlack) --held;
        }
    }
    size_t kept = 0;
    for (size_t a = 0; a < held; ++a)
        if (held <= count || found[a].time <= bound * kSlack) found[kept++] = found[a];
    return kept;
}

constexpr RowKernels make_rows(const char* name) {
    return {name, row_peak, row_above, row_total, row_depth, row_softmax, row_excess, row_race};
}

}  // namespace
