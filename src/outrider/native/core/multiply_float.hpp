// Panels of plain float weights times a group of rows. A row's sum over the inputs runs in one order, in one
// accumulator a lane, whatever else is in the tile. Included by the instruction set's file.
#pragma once

namespace {

template <class W, int panels, int rows> void add_floats(const Stretch& s, const Group& g) {
    F acc[panels][rows];
#pragma GCC unroll 2
    for (int p = 0; p < panels; ++p)
#pragma GCC unroll 16
        for (int r = 0; r < rows; ++r) acc[p][r] = g.fresh ? set1(0.0f) : load(g.out + p * g.panel + r * 16);
    int wait = s.turn;
    const float* x = g.values;
    for (int k = 0; k < s.inputs; k += 4, x += 4 * rows) {
        const size_t at = W::bytes(k);
        if (wait-- == 0) {
#pragma GCC unroll 2
            for (int p = 0; p < panels; ++p) prefetch<W::bytes(4)>(s, p, s.at[p] + at);
            wait = s.turns - 1;
        }
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
            F v[panels];
#pragma GCC unroll 2
            for (int p = 0; p < panels; ++p) v[p] = W::read(s.at[p] + at + W::bytes(i));
#pragma GCC unroll 16
            for (int r = 0; r < rows; ++r) {
                const F value = set1(x[i * rows + r]);
#pragma GCC unroll 2
                for (int p = 0; p < panels; ++p) acc[p][r] = fma(v[p], value, acc[p][r]);
            }
        }
    }
#pragma GCC unroll 2
    for (int p = 0; p < panels; ++p)
#pragma GCC unroll 16
        for (int r = 0; r < rows; ++r) store(g.out + p * g.panel + r * 16, acc[p][r]);
}

template <int width> struct Plain {
    static constexpr int kHeader = 0, kPairRows = kPairFloats, kWords = 0;
    // Inputs of a stretch, how far ahead memory is asked, and a stretch that several groups share.
    static constexpr int kStretch = 32, kLead = 64, kShared = 32;
    static constexpr bool kBlocks = false;
    static constexpr size_t bytes(int inputs) { return size_t(inputs) * 16 * width; }
};

struct F32 : Plain<4> {
    static F read(const uint8_t* p) { return load((const float*)p); }
};
struct F16 : Plain<2> {
    static F read(const uint8_t* p) { return load_half((const uint16_t*)p); }
};
struct BF16 : Plain<2> {
    static F read(const uint8_t* p) { return load_bf16((const uint16_t*)p); }
};

}  // namespace
