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

void quantise(const float* x, int stride, int32_t* words, float* scale, float* sum) {
    int32_t n[32];
    *scale = round_bytes(x, n);
    const auto byte = [&](int i) { return uint32_t(uint8_t(n[i])); };
    for (int i = 0; i < kQuads; ++i) {
        const int at = 8 * (i / 2) + 2 * (i % 2);
        words[i * stride] = int32_t(byte(at) | byte(at + 4) << 8 | byte(at + 1) << 16 | byte(at + 5) << 24);
    }
    uint32_t first = 0, second = 0;  // wrap where a value is not finite
    for (int i = 0; i < 16; ++i) first += uint32_t(n[i]), second += uint32_t(n[16 + i]);
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
