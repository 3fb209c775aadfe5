// Builds the table of functions of one instruction set. Its vector file is included first. Everything here has
// internal linkage, and nothing of the standard library with code of its own is used: a function compiled for
// a newer processor must never be picked by the linker to serve an older one.
#pragma once
#include <cmath>
#include <cstdint>

#include "kernels.hpp"

namespace {
using outrider::Format, outrider::Tile, outrider::Panels, outrider::Results, outrider::Keys, outrider::Query, outrider::Kernels;
using outrider::kBlock, outrider::kSuper, outrider::kSlots, outrider::round_up, outrider::groups_of;
}  // namespace

// clang-format off
#include "stretch.hpp"
#include "multiply_float.hpp"
#include "multiply_near.hpp"
#include "multiply_blocks.hpp"
#include "multiply.hpp"
#include "rounding.hpp"
#include "elementwise.hpp"
#include "attend.hpp"
// clang-format on

namespace {

void multiply_any(Format format, const Panels& w, int inputs, const Tile& tile, float* out) {
    switch (format) {
        case Format::F32: return multiply<F32>(w, inputs, tile, out);
        case Format::F16: return multiply<F16>(w, inputs, tile, out);
        case Format::BF16: return multiply<BF16>(w, inputs, tile, out);
        case Format::I8: return multiply<I8>(w, inputs, tile, out);
        case Format::Q4_0: return multiply<Q4_0>(w, inputs, tile, out);
        case Format::Q4_1: return multiply<Q4_1>(w, inputs, tile, out);
        case Format::Q5_0: return multiply<Q5_0>(w, inputs, tile, out);
        case Format::Q5_1: return multiply<Q5_1>(w, inputs, tile, out);
        case Format::Q8_0: return multiply<Q8_0>(w, inputs, tile, out);
        case Format::Q4_K: return multiply<Q4_K>(w, inputs, tile, out);
        case Format::Q5_K: return multiply<Q5_K>(w, inputs, tile, out);
        case Format::Q6_K: return multiply<Q6_K>(w, inputs, tile, out);
    }
}

constexpr Kernels make_table(const char* name, const Kernels* (*with_bytes)()) {
    return {name, kGroupRows, kMaxQueries,  multiply_any, multiply_near, norm,   head_norm, rotate,  gate,
            16,   quantise,   takes_digits, nullptr,      begin,         end,    attend,    merge,   to_half,
            with_bytes};
}

}  // namespace
