// Panels of quantised weights times a tile of rows. Weights stay the small integers of the file; activations
// are int16 with one scale for 32 inputs of a row, so the sum over a block is exact and only the scales are
// applied in float. Included by the instruction set's file.
//
// A record holds a block of 32 inputs of 16 outputs. `pair<i>` unpacks inputs 2i and 2i + 1 of every output as
// two int16. In a nibble word (8 inputs of an output) pair j is bits 4j and 4j + 16; `pack.cpp` writes this.
#pragma once

namespace {

template <int i> I nibble_pair(const uint8_t* nibbles) {
    return bit_and(shift_right<4 * (i % 4)>(load_bytes(nibbles + 64 * (i / 4))), set1(int32_t(0x000F000F)));
}

template <int i> I fifth_bit(const uint8_t* bits) {
    const I word = load_bytes(bits);
    if constexpr (i <= 4) return bit_and(shift_left<4 - i>(word), set1(int32_t(0x00100010)));
    else return bit_and(shift_right<i - 4>(word), set1(int32_t(0x00100010)));
}

inline F half_at(const uint8_t* p) { return load_half((const uint16_t*)p); }

template <int record, int header = 0, int super = 0> struct Blocks {
    static constexpr int kHeader = header, kSuperHeader = super, kRecord = record, kParts = 1;
    static constexpr int kPairRows = kPairBlocks;
    static constexpr int kStretch = super ? kSuper : 128, kLead = kStretch;
    // Longer, because each group has to begin a stretch anew; bytes of 8-bit weights leave no room for that.
    static constexpr int kShared = record < 512 ? 512 : kStretch;
    static constexpr bool kBlocks = true, kScaled = true, kOffset = false;
    static constexpr size_t bytes(int inputs) {
        return size_t(inputs) / kBlock * record + size_t(inputs) / kSuper * super;
    }
    static F offset(const uint8_t*, const uint8_t*) { return set1(0.0f); }
};

struct I8 : Blocks<512, 64> {
    static constexpr bool kScaled = false;  // one scale for the whole output, in the panel's header
    static F scale(const uint8_t*, const uint8_t*, int) { return set1(1.0f); }
    template <int i> static I pair(const uint8_t* record) { return load_i8_pairs(record + 32 * i); }
};

struct Q8_0 : Blocks<544> {
    static F scale(const uint8_t*, const uint8_t* record, int) { return half_at(record); }
    template <int i> static I pair(const uint8_t* record) { return load_i8_pairs(record + 32 + 32 * i); }
};

struct Q4_0 : Blocks<288> {
    static F scale(const uint8_t*, const uint8_t* record, int) { return half_at(record); }
    template <int i> static I pair(const uint8_t* record) {
        return sub16(nibble_pair<i>(record + 32), set1(int32_t(0x00080008)));
    }
};

struct Q4_1 : Blocks<320> {
    static constexpr bool kOffset = true;
    static F scale(const uint8_t*, const uint8_t* record, int) { return half_at(record); }
    static F offset(const uint8_t*, const uint8_t* record) { return half_at(record + 32); }
    template <int i> static I pair(const uint8_t* record) { return nibble_pair<i>(record + 64); }
};

struct Q5_0 : Blocks<352> {
    static F scale(const uint8_t*, const uint8_t* record, int) { return half_at(record); }
    template <int i> static I pair(const uint8_t* record) {
        return sub16(bit_or(nibble_pair<i>(record + 32), fifth_bit<i>(record + 288)), set1(int32_t(0x00100010)));
    }
};

struct Q5_1 : Blocks<384> {
    static constexpr bool kOffset = true;
    static F scale(const uint8_t*, const uint8_t* record, int) { return half_at(record); }
    static F offset(const uint8_t*, const uint8_t* record) { return half_at(record + 32); }
    template <int i> static I pair(const uint8_t* record) {
        return bit_or(nibble_pair<i>(record + 64), fifth_bit<i>(record + 320));
    }
};

// Scale and minimum of a sub-block are 6-bit multiples of the super-block's halves.
template <int record> struct WithMinimum : Blocks<record, 0, 64> {
    static constexpr bool kOffset = true;
    static F scale(const uint8_t* super, const uint8_t* record_, int) { return mul(half_at(super), from_u8(record_)); }
    static F offset(const uint8_t* super, const uint8_t* record_) {
        return sub(set1(0.0f), mul(half_at(super + 32), from_u8(record_ + 16)));
    }
};

struct Q4_K : WithMinimum<288> {
    template <int i> static I pair(const uint8_t* record) { return nibble_pair<i>(record + 32); }
};

struct Q5_K : WithMinimum<352> {
    template <int i> static I pair(const uint8_t* record) {
        return bit_or(nibble_pair<i>(record + 32), fifth_bit<i>(record + 288));
    }
};

// Two scales a record, one for each 16 inputs.
struct Q6_K : Blocks<416, 0, 32> {
    static constexpr int kParts = 2;
    static F scale(const uint8_t* super, const uint8_t* record, int part) {
        return mul(half_at(super), from_i8(record + 16 * part));
    }
    template <int i> static I code(const uint8_t* record) {
        constexpr int field = 2 * (i % 8);
        const I word = load_bytes(record + 288 + 64 * (i / 8));
        I high;
        if constexpr (field <= 4) high = bit_and(shift_left<4 - field>(word), set1(int32_t(0x00300030)));
        else high = bit_and(shift_right<field - 4>(word), set1(int32_t(0x00300030)));
        return bit_or(nibble_pair<i>(record + 32), high);
    }
    template <int i> static I pair(const uint8_t* record) {
        return sub16(code<i>(record), set1(int32_t(0x00200020)));
    }
};

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
        constexpr int kPairs = 16 / W::kParts, kFew = kChains / (panels * rows);
        constexpr int chains = kFew >= 4 ? 4 : kFew >= 2 ? 2 : 1;
        I sums[chains][panels][rows];
#pragma GCC unroll 4
        for (int c = 0; c < chains; ++c)
#pragma GCC unroll 2
            for (int p = 0; p < panels; ++p)
#pragma GCC unroll 16
                for (int r = 0; r < rows; ++r) sums[c][p][r] = zero_int();
        add_pairs<W, panels, rows, chains, part * kPairs, (part + 1) * kPairs>(records, x, sums);
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
        add_part<W, panels, rows, 0>(supers, records, g.pairs + block * 16 * rows, scales, at);
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
