// Panels of plain float weights times a tile of rows. A row's sum over the inputs runs in one order, in one
// accumulator a lane, whatever else is in the tile. Included by the instruction set's file.
#pragma once

namespace {

struct F32 {
    static constexpr int kBytes = 4;
    static F read(const uint8_t* p) { return load((const float*)p); }
};
struct F16 {
    static constexpr int kBytes = 2;
    static F read(const uint8_t* p) { return load_half((const uint16_t*)p); }
};
struct BF16 {
    static constexpr int kBytes = 2;
    static F read(const uint8_t* p) { return load_bf16((const uint16_t*)p); }
};

constexpr int kAhead = 2048;  // bytes of a stream to ask memory for in advance

template <class W, int panels, int rows>
inline void add_inputs(const Panels& w, int first, int from, int to, const uint8_t* const* ahead, const float* x,
                       F (&acc)[panels][rows]) {
    constexpr int kStep = 16 * W::kBytes;
    for (int k = from; k < to; k += 4) {
        const size_t at = size_t(k) * kStep;
#pragma GCC unroll 2
        for (int p = 0; p < panels; ++p)
#pragma GCC unroll 4
            for (int line = 0; line < 4 * kStep; line += 64) __builtin_prefetch(ahead[p] + (k - from) * kStep + line);
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
            F v[panels];
#pragma GCC unroll 2
            for (int p = 0; p < panels; ++p) v[p] = W::read(w.at[first + p] + at + i * kStep);
#pragma GCC unroll 16
            for (int r = 0; r < rows; ++r) {
                const F value = set1(x[(k + i) * rows + r]);
#pragma GCC unroll 2
                for (int p = 0; p < panels; ++p) acc[p][r] = fma(v[p], value, acc[p][r]);
            }
        }
    }
}

// `inputs` is a multiple of 32. Takes `panels` panels from the one numbered `first`.
template <class W, int panels, int rows>
void multiply_float(const Panels& w, int first, int inputs, const Tile& tile, float* out) {
    constexpr int kStep = 16 * W::kBytes;
    F acc[panels][rows];
#pragma GCC unroll 2
    for (int p = 0; p < panels; ++p)
#pragma GCC unroll 16
        for (int r = 0; r < rows; ++r) acc[p][r] = set1(0.0f);
    const int turn = inputs > kAhead / kStep ? inputs - kAhead / kStep : 0;
    const uint8_t* ahead[panels];
    for (int p = 0; p < panels; ++p) ahead[p] = w.at[first + p] + kAhead;
    add_inputs<W, panels, rows>(w, first, 0, turn, ahead, tile.values, acc);
    for (int p = 0; p < panels; ++p) ahead[p] = w.next[first + p];
    add_inputs<W, panels, rows>(w, first, turn, inputs, ahead, tile.values, acc);
#pragma GCC unroll 2
    for (int p = 0; p < panels; ++p)
#pragma GCC unroll 16
        for (int r = 0; r < rows; ++r) store(out + (p * rows + r) * 16, acc[p][r]);
}

// Two panels share the broadcasts of the activations as long as their sums fit into registers.
template <class W, int rows> void multiply_floats(const Panels& w, int inputs, const Tile& tile, float* out) {
    if constexpr (rows <= kPairRows) {
        if (w.count == 2) return multiply_float<W, 2, rows>(w, 0, inputs, tile, out);
    }
    for (int p = 0; p < w.count; ++p) multiply_float<W, 1, rows>(w, p, inputs, tile, out + p * rows * 16);
}

}  // namespace
