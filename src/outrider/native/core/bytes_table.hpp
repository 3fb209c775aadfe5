// Builds the table of an instruction set's kernels with activations of int8, where it differs from that with int16.
// Its vector file is included first; see table.hpp.
#pragma once
#include <cmath>
#include <cstdint>

#include "kernels.hpp"

namespace {
using outrider::Format, outrider::Tile, outrider::Panels, outrider::Results, outrider::Kernels;
using outrider::kBlock, outrider::kSuper, outrider::groups_of;
}  // namespace

// clang-format off
#include "stretch.hpp"
#include "multiply_float.hpp"
#include "multiply_blocks.hpp"
#include "multiply.hpp"
#include "rounding.hpp"
// clang-format on

namespace {

// Bytes 0 1 2 3 with a zero after each.
inline uint64_t spread(uint32_t bytes) {
    const uint64_t pairs = (bytes | uint64_t(bytes) << 16) & 0x0000FFFF0000FFFF;
    return (pairs | pairs << 8) & 0x00FF00FF00FF00FF;
}

void quantise(const float* x, int stride, int32_t* words, float* scale, float* sum) {
    int32_t n[32];
    *scale = round_bytes(x, n);
    uint8_t bytes[32];
    for (int i = 0; i < 32; ++i) bytes[i] = uint8_t(n[i]);
    for (int i = 0; i < kQuads; i += 2) {
        uint32_t first, second;
        __builtin_memcpy(&first, bytes + 4 * i, sizeof first), __builtin_memcpy(&second, bytes + 4 * i + 4, sizeof second);
        const uint64_t both = spread(first) | spread(second) << 8;
        words[i * stride] = int32_t(uint32_t(both)), words[(i + 1) * stride] = int32_t(uint32_t(both >> 32));
    }
    uint32_t first = 0, second = 0;  // wrap where a value is not finite
    for (int i = 0; i < 16; ++i) first += uint32_t(n[i]);
    for (int i = 16; i < 32; ++i) second += uint32_t(n[i]);
    words[kQuads * stride] = int32_t(0u - first), words[(kQuads + 1) * stride] = int32_t(0u - second);
    words[(kQuads + 2) * stride] = int32_t(0u - first - second);
    *sum = *scale * float(int32_t(first + second));
}

template <const Kernels* (*plain)()>
void multiply_any(Format format, const Panels& w, int inputs, const Tile& tile, float* out) {
    switch (format) {
        case Format::I8: return multiply<Bytes<I8>>(w, inputs, tile, out);
        case Format::Q4_0: return multiply<Bytes<Q4_0>>(w, inputs, tile, out);
        case Format::Q4_1: return multiply<Bytes<Q4_1>>(w, inputs, tile, out);
        case Format::Q5_0: return multiply<Bytes<Q5_0>>(w, inputs, tile, out);
        case Format::Q5_1: return multiply<Bytes<Q5_1>>(w, inputs, tile, out);
        case Format::Q8_0: return multiply<Bytes<Q8_0>>(w, inputs, tile, out);
        case Format::Q4_K: return multiply<Bytes<Q4_K>>(w, inputs, tile, out);
        case Format::Q5_K: return multiply<Bytes<Q5_K>>(w, inputs, tile, out);
        case Format::Q6_K: return multiply<Bytes<Q6_K>>(w, inputs, tile, out);
        default: return plain()->multiply(format, w, inputs, tile, out);  // floats
    }
}

template <const Kernels* (*plain)()> Kernels make_bytes() {
    Kernels kernels = *plain();
    kernels.multiply = multiply_any<plain>;
    kernels.block_words = kByteWords, kernels.quantise = quantise;
    return kernels;
}

}  // namespace
