// How panels meet a tile. Where both panels and all rows fit the registers, they run through at once. Otherwise
// each panel and each group of rows in turn takes a stretch of inputs: memory is read once, the groups after the
// first find the stretch in the nearest cache, and two panels keep two streams of memory going, which one alone
// cannot keep busy on x86 (the hardware's own prefetching starts anew at every page). Included by the
// instruction set's file.
#pragma once

namespace {

template <class W, int panels, int rows> inline void add(const Stretch& s, const Group& g) {
    if constexpr (W::kBlocks) add_blocks<W, panels, rows>(s, g);
    else add_floats<W, panels, rows>(s, g);
}

template <class W, int rows> void add_group(const Stretch& s, const Group& g, int panels, int count) {
    if constexpr (rows <= kGroupRows) {
        if (count != rows) return add_group<W, rows + 1>(s, g, panels, count);
        if constexpr (rows <= W::kPairRows) {
            if (panels == 2) return add<W, 2, rows>(s, g);
        }
        add<W, 1, rows>(s, g);
    }
}

template <class W> void multiply(const Panels& w, int inputs, const Tile& tile, float* out) {
    const int groups = groups_of(tile.rows, kGroupRows), widest = (tile.rows + groups - 1) / groups;
    const int panels = widest <= W::kPairRows ? w.count : 1, stretch = groups > 1 ? W::kShared : W::kStretch;
    const int span = panels == w.count && groups == 1 ? inputs : stretch, lead = stretch > W::kLead ? stretch : W::kLead;
    for (int from = 0; from < inputs; from += span)
        for (int p = 0; p < w.count; p += panels) {
            Stretch s{};
            s.inputs = inputs - from < span ? inputs - from : span;
            s.ahead = span == inputs ? kAhead : int(W::bytes(lead)), s.turns = groups;
            for (int i = 0; i < panels; ++i) {
                s.at[i] = w.at[p + i] + W::kHeader + W::bytes(from), s.next[i] = w.next[p + i];
                s.end[i] = w.at[p + i] + W::kHeader + W::bytes(inputs);
            }
            for (s.turn = 0; s.turn < groups; ++s.turn) {
                const int first = tile.rows * s.turn / groups, rows = tile.rows * (s.turn + 1) / groups - first;
                const size_t at = size_t(first) * inputs + size_t(from) * rows;
                add_group<W, 1>(s,
                                {tile.values + at, tile.words + at / kBlock * W::kWords, tile.scales + at / kBlock, tile.sums + at / kBlock,
                                 out + (p * tile.rows + first) * 16, size_t(tile.rows) * 16, from == 0},
                                panels, rows);
            }
        }
    if constexpr (W::kHeader > 0) {  // the scales of the outputs
        for (int p = 0; p < w.count; ++p)
            for (int r = 0; r < tile.rows; ++r) {
                float* sums = out + (p * tile.rows + r) * 16;
                store(sums, mul(load(sums), load((const float*)w.at[p])));
            }
    }
}

}  // namespace
