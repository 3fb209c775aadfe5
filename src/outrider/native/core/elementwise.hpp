// Norms, rotation, gates and the rounding of activations. Always whole vectors, in an order that only the
// width decides. Included by the instruction set's file.
#pragma once

namespace {

// Sum of 16 lanes, pairwise.
inline float sum_lanes(F a) {
    float v[16];
    store(v, a);
    for (int half = 8; half > 0; half /= 2)
        for (int j = 0; j < half; ++j) v[j] += v[j + half];
    return v[0];
}

// exp, within 2 units in the last place; 0 below −87.3. Range reduction by ln 2 in two parts, then the Taylor
// series to the 7th power on [−ln 2 / 2, ln 2 / 2].
inline F exp(F x) {
    const F bounded = min(max(x, set1(-87.3f)), set1(88.7f));
    const I n = round_int(mul(bounded, set1(1.44269504f)));
    const F whole = to_float(n);
    F r = fma(whole, set1(-0.693359375f), bounded);
    r = fma(whole, set1(2.12194440e-4f), r);
    F p = set1(1.0f / 5040);
    p = fma(p, r, set1(1.0f / 720));
    p = fma(p, r, set1(1.0f / 120));
    p = fma(p, r, set1(1.0f / 24));
    p = fma(p, r, set1(1.0f / 6));
    p = fma(p, r, set1(0.5f));
    p = fma(p, r, set1(1.0f));
    p = fma(p, r, set1(1.0f));
    // 2^n in two steps: n may be 128.
    p = mul(p, as_float(shift_left<23>(add(n, set1(int32_t(126))))));
    p = mul(p, set1(2.0f));
    return zero_below(x, -87.3f, add(p, mul(x, set1(0.0f))));  // x · 0 lets NaN through
}

inline float root_scale(float squares, int width, float eps) { return 1.0f / std::sqrt(squares / float(width) + eps); }

void norm(const float* x, const float* weight, int width, float eps, float* y) {
    F squares = set1(0.0f);
    for (int i = 0; i < width; i += 16) squares = fma(load(x + i), load(x + i), squares);
    const F scale = set1(root_scale(sum_lanes(squares), width, eps));
    for (int i = 0; i < width; i += 16) store(y + i, mul(mul(load(x + i), scale), load(weight + i)));
}

void head_norm(const float* x, const float* weight, int width, float eps, float* y) {
    float lanes[16] = {};
    for (int i = 0; i < width; ++i) lanes[i % 16] += x[i] * x[i];
    const float scale = root_scale(sum_lanes(load(lanes)), width, eps);
    for (int i = 0; i < width; ++i) y[i] = x[i] * scale * weight[i];
}

void rotate(float* x, const float* cos, const float* sin, int dim) {
    const int half = dim / 2;
    int i = 0;
    for (; i + 16 <= half; i += 16) {
        const F a = load(x + i), b = load(x + half + i), c = load(cos + i), s = load(sin + i);
        store(x + i, sub(mul(a, c), mul(b, s)));
        store(x + half + i, add(mul(b, c), mul(a, s)));
    }
    for (; i < half; ++i) {
        const float a = x[i], b = x[i + half];
        x[i] = a * cos[i] - b * sin[i];
        x[i + half] = b * cos[i] + a * sin[i];
    }
}

void gate(float* gate, const float* up, int count) {
    for (int i = 0; i < count; i += 16) {
        const F g = load(gate + i);
        store(gate + i, mul(div(g, add(set1(1.0f), exp(sub(set1(0.0f), g)))), load(up + i)));
    }
}

void quantise(const float* x, int stride, int32_t* pairs, float* scale, float* sum) {
    const F a = load(x), b = load(x + 16);
    // Bits of sizes compare as the sizes do, and what is not finite has the largest.
    const int32_t bits = max_lanes(max(as_int(abs(a)), as_int(abs(b))));
    float most;
    __builtin_memcpy(&most, &bits, sizeof most);
    const F inverse = set1(most > 0 ? 32767.0f / most : 0.0f);
    int32_t n[32];
    store(n, round_int(mul(a, inverse)));
    store(n + 16, round_int(mul(b, inverse)));
    uint32_t total = 0;  // wraps where a value is not finite
    int16_t halves[32];
    for (int i = 0; i < 32; ++i) total += uint32_t(n[i]), halves[i] = int16_t(n[i]);
    for (int i = 0; i < 16; ++i) __builtin_memcpy(pairs + i * stride, halves + 2 * i, sizeof *pairs);
    *scale = bits < 0x7F800000 ? most / 32767.0f : NAN;
    *sum = *scale * float(int32_t(total));
}

void to_half(const float* x, uint16_t* out) { store_half(out, load(x)); }

}  // namespace
