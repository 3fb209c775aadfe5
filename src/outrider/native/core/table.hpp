// Builds the table of functions of one instruction set. Its vector file is included first. Everything here has
// internal linkage, and nothing of the standard library with code of its own is used: a function compiled for
// a newer processor must never be picked by the linker to serve an older one.
#pragma once
#include <cmath>
#include <cstdint>

#include "kernels.hpp"

namespace {
using outrider::Format, outrider::Tile, outrider::Panels, outrider::Keys, outrider::Query, outrider::Kernels;
using outrider::kBlock, outrider::kSuper, outrider::kSlots, outrider::round_up;
}  // namespace

// clang-format off
#include "multiply_float.hpp"
#include "multiply_blocks.hpp"
#include "elementwise.hpp"
#include "attend.hpp"
#include "widen.hpp"
// clang-format on

namespace {

template <int rows>
void multiply_rows(Format format, const Panels& w, int inputs, const Tile& tile, float* out) {
    if constexpr (rows <= kMaxRows) {
        if (tile.rows != rows) return multiply_rows<rows + 1>(format, w, inputs, tile, out);
        switch (format) {
            case Format::F32: return multiply_floats<F32, rows>(w, inputs, tile, out);
            case Format::F16: return multiply_floats<F16, rows>(w, inputs, tile, out);
            case Format::BF16: return multiply_floats<BF16, rows>(w, inputs, tile, out);
            case Format::I8: return multiply_blocks<I8, rows>(w, inputs, tile, out);
            case Format::Q4_0: return multiply_blocks<Q4_0, rows>(w, inputs, tile, out);
            case Format::Q4_1: return multiply_blocks<Q4_1, rows>(w, inputs, tile, out);
            case Format::Q5_0: return multiply_blocks<Q5_0, rows>(w, inputs, tile, out);
            case Format::Q5_1: return multiply_blocks<Q5_1, rows>(w, inputs, tile, out);
            case Format::Q8_0: return multiply_blocks<Q8_0, rows>(w, inputs, tile, out);
            case Format::Q4_K: return multiply_blocks<Q4_K, rows>(w, inputs, tile, out);
            case Format::Q5_K: return multiply_blocks<Q5_K, rows>(w, inputs, tile, out);
            case Format::Q6_K: return multiply_blocks<Q6_K, rows>(w, inputs, tile, out);
        }
    }
}

constexpr Kernels make_table(const char* name) {
    return {name, kMaxRows, kMaxQueries, multiply_rows<1>, norm, head_norm, rotate, gate, quantise, attend, merge, widen, to_half};
}

}  // namespace
