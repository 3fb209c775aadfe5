// The rounding of activations: 32 values share a scale. To int16 it is the least power of two with which they are integers of two
// signed bytes, at most 32639 = 127 · 257. With a power of two, sums of such integers times weights may be scaled
// before or after they are added, and as bf16 or as integers: the results are the same, bit for bit. Included by the
// instruction set's file.
#pragma once

namespace {

// Returns the scale; n [32] are the integers, and `sum` is that of the values they stand for.
inline float round_block(const float* x, int32_t* n, float* sum) {
    const F a = load(x), b = load(x + 16);
    // Bits of sizes compare as the sizes do, and what is not finite has the largest.
    const uint32_t most = uint32_t(max_lanes(max(as_int(abs(a)), as_int(abs(b)))));
    // The power of two below the largest, or the next one where its fraction is above that of 32639; not below
    // 2^-100, where products would lose bits.
    constexpr uint32_t kLargest = 0x46FEFE00, kSmallest = 27u << 23, kTooLarge = 227u << 23;  // 32639, 2^-100, 2^100
    const uint32_t power = (most + (0x007FFFFF - (kLargest & 0x007FFFFF))) & 0x7F800000;
    uint32_t bits = power > kSmallest + (14u << 23) ? power - (14u << 23) : kSmallest, inverse_bits = (254u << 23) - bits;
    if (most >= kTooLarge) bits = inverse_bits = 0x7FC00000;
    float scale, inverse;
    __builtin_memcpy(&scale, &bits, sizeof scale);
    __builtin_memcpy(&inverse, &inverse_bits, sizeof inverse);
    store(n, round_int(mul(a, set1(inverse))));
    store(n + 16, round_int(mul(b, set1(inverse))));
    uint32_t total = 0;  // wraps where a value is not finite
    for (int i = 0; i < 32; ++i) total += uint32_t(n[i]);
    *sum = scale * float(int32_t(total));
    return scale;
}

// The same to int8: the scale is the largest value divided by 127. n [32]; nothing is so small that a scale, or what
// it is divided by, would be denormal.
inline float round_bytes(const float* x, int32_t* n) {
    const F a = load(x), b = load(x + 16);
    const uint32_t most = uint32_t(max_lanes(max(as_int(abs(a)), as_int(abs(b)))));
    constexpr uint32_t kSmallest = 27u << 23, kTooLarge = 227u << 23;  // 2^-100, 2^100
    uint32_t bits = most > kSmallest ? most : kSmallest;
    if (most >= kTooLarge) bits = 0x7FC00000;
    float size;
    __builtin_memcpy(&size, &bits, sizeof size);
    const float scale = size / 127.0f, inverse = 127.0f / size;
    store(n, round_int(mul(a, set1(inverse))));
    store(n + 16, round_int(mul(b, set1(inverse))));
    return scale;
}

}  // namespace
