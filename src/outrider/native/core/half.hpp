// 16-bit floats without hardware help.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

namespace {

inline float float_of(uint32_t bits) {
    float a;
    std::memcpy(&a, &bits, 4);
    return a;
}
inline uint32_t bits_of(float a) {
    uint32_t bits;
    std::memcpy(&bits, &a, 4);
    return bits;
}
inline float half_to_float(uint16_t h) {
    const uint32_t sign = uint32_t(h & 0x8000) << 16, exponent = (h >> 10) & 31, fraction = h & 1023;
    if (exponent == 31) return float_of(sign | 0x7F800000 | fraction << 13);
    if (exponent) return float_of(sign | (exponent + 112) << 23 | fraction << 13);
    const float small = float(fraction) * 0x1p-24f;
    return sign ? -small : small;
}
inline uint16_t float_to_half(float a) {
    const uint32_t bits = bits_of(a), sign = bits >> 16 & 0x8000;
    const float size = std::fabs(a);
    if (!(size < 65520.0f)) return uint16_t(sign | (size != size ? 0x7E00 : 0x7C00));
    if (size < 0x1p-14f) return uint16_t(sign | uint32_t(std::nearbyint(size * 0x1p24f)));
    const uint32_t rounded = (bits & 0x7FFFFFFF) + 0xFFF + (bits >> 13 & 1);
    return uint16_t(sign | ((rounded >> 13) - (112 << 10)));
}
inline uint16_t float_to_bf16(float a) {
    const uint32_t bits = bits_of(a);
    if (a != a) return uint16_t(bits >> 16 | 0x40);
    return uint16_t((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

}  // namespace
