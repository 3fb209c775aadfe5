// Panels of quantised weights times a tile of rows. Weights stay the small integers of the file; activations are
// integers with one scale for 32 inputs of a row, so the sum over a block is exact and only the scales are applied in
// float. Here the integers are int16; multiply_bytes.hpp has the sums of int8. Included by the instruction set's file.
#pragma once
#include "block_formats.hpp"
#include "multiply_bytes.hpp"

namespace {

// Adds pairs i … end − 1 to the sums. Few sums would wait for one another: each is then the sum of several
// chains, which changes nothing, integers being exact.
template <class W, int panels, int rows, int chains, int i, int end>
inline void add_pairs(const uint8_t* const* records, const int32_t* x, I (&sums)[chains][panels][rows]) {
    if constexpr (i < end) {
        I w[panels];
#pragma GCC unroll 2
        for (int p = 0; p < panels; ++p) w[p] = W::template pair<i>(records[p]);
#pragma GCC unroll 16
        for (int r = 0; r < rows; ++r) {
            const I value = set1(x[i * rows + r]);
#pragma GCC unroll 2
            for (int p = 0; p < panels; ++p) sums[i % chains][p][r] = dot_pair(sums[i % chains][p][r], w[p], value);
        }
        add_pairs<W, panels, rows, chains, i + 1, end>(records, x, sums);
    }
}

// Adds one part of a record, 32 inputs or 16, to the sums that `at(p, r)` names.
template <class W, int panels, int rows, int part, class At>
inline void add_part(const uint8_t* const* supers, const uint8_t* const* records, const int32_t* x, const float* scales,
                     At at) {
    if constexpr (part < W::kParts) {
        [[maybe_unused]] constexpr int kPairs = 16 / W::kParts;
        constexpr int kFew = kChains / (panels * rows);
        constexpr int chains = kFew >= 4 ? 4 : kFew >= 2 ? 2 : 1;
        I sums[chains][panels][rows];
#pragma GCC unroll 4
        for (int c = 0; c < chains; ++c)
#pragma GCC unroll 2
            for (int p = 0; p < panels; ++p)
#pragma GCC unroll 16
                for (int r = 0; r < rows; ++r) sums[c][p][r] = zero_int();
        if constexpr (W::kBytes) add_bytes<W, panels, rows, chains, part>(records, x, sums);
        else add_pairs<W, panels, rows, chains, part * kPairs, (part + 1) * kPairs>(records, x, sums);
#pragma GCC unroll 2
        for (int p = 0; p < panels; ++p) {
            const F scale = W::scale(supers[p], records[p], part);
#pragma GCC unroll 16
            for (int r = 0; r < rows; ++r) {
                I whole = sums[0][p][r];
#pragma GCC unroll 4
                for (int c = 1; c < chains; ++c) whole = add(whole, sums[c][p][r]);
                const F sum = to_float(whole), unit = set1(scales[r]);
                if constexpr (W::kScaled) at(p, r, [&](F acc) { return fma(mul(sum, unit), scale, acc); });
                else at(p, r, [&](F acc) { return fma(sum, unit, acc); });
            }
        }
        add_part<W, panels, rows, part + 1>(supers, records, x, scales, at);
    }
}

template <class W, int panels, int rows> void add_blocks(const Stretch& s, const Group& g) {
    // The sums stay in registers where the integers leave room for them, in the nearest cache otherwise.
    constexpr bool kept = 2 * panels * rows <= kKept;
    F acc[kept ? panels : 1][kept ? rows : 1];
#pragma GCC unroll 2
    for (int p = 0; p < panels; ++p)
#pragma GCC unroll 16
        for (int r = 0; r < rows; ++r) {
            float* sum = g.out + p * g.panel + r * 16;
            if constexpr (kept) acc[p][r] = g.fresh ? set1(0.0f) : load(sum);
            else if (g.fresh) store(sum, set1(0.0f));
        }
    const auto at = [&](int p, int r, auto change) {
        if constexpr (kept) {
            acc[p][r] = change(acc[p][r]);
        } else {
            float* sum = g.out + p * g.panel + r * 16;
            store(sum, change(load(sum)));
        }
    };
    const uint8_t *records[panels], *supers[panels];
    for (int p = 0; p < panels; ++p) supers[p] = records[p] = s.at[p];
    int wait = s.turn;
    for (int block = 0; block < s.inputs / kBlock; ++block) {
        if constexpr (W::kSuperHeader > 0) {
            if (block % (kSuper / kBlock) == 0)
                for (int p = 0; p < panels; ++p) supers[p] = records[p], records[p] += W::kSuperHeader;
        }
        if (wait-- == 0) {
#pragma GCC unroll 2
            for (int p = 0; p < panels; ++p) prefetch<W::kRecord>(s, p, records[p]);
            wait = s.turns - 1;
        }
        const float *scales = g.scales + block * rows, *totals = g.sums + block * rows;
        add_part<W, panels, rows, 0>(supers, records, g.words + block * W::kWords * rows, scales, at);
        if constexpr (W::kOffset) {
#pragma GCC unroll 2
            for (int p = 0; p < panels; ++p) {
                const F offset = W::offset(supers[p], records[p]);
#pragma GCC unroll 16
                for (int r = 0; r < rows; ++r)
                    at(p, r, [&](F sum) { return fma(offset, set1(totals[r]), sum); });
            }
        }
#pragma GCC unroll 2
        for (int p = 0; p < panels; ++p) records[p] += W::kRecord;
    }
    if constexpr (kept) {
#pragma GCC unroll 2
        for (int p = 0; p < panels; ++p)
#pragma GCC unroll 16
            for (int r = 0; r < rows; ++r) store(g.out + p * g.panel + r * 16, acc[p][r]);
    }
}

}  // namespace
