// A panel of 16-bit weights to fp32, once for all the tiles of many rows. Exact, so the products are the same.
// Included by the instruction set's file.
#pragma once

namespace {

template <class W> void widen_as(const uint8_t* panel, int inputs, float* out) {
    constexpr int kStep = 16 * int(sizeof(uint16_t));
    for (int k = 0; k < inputs; ++k) {
        __builtin_prefetch(panel + k * kStep + 4096);
        store(out + k * 16, W::read(panel + k * kStep));
    }
}

void widen(Format format, const uint8_t* panel, int inputs, float* out) {
    if (format == Format::F16) widen_as<F16>(panel, inputs, out);
    else widen_as<BF16>(panel, inputs, out);
}

}  // namespace
