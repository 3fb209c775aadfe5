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

struct NoHeader {
    static constexpr int kHeader = 0, kSuperHeader = 0, kParts = 1;
    static constexpr bool kScaled = true, kOffset = false;
    static F offset(const uint8_t*, const uint8_t*) { return set1(0.0f); }
};

struct I8 : NoHeader {
    static constexpr int kHeader = 64, kRecord = 512;
    static constexpr bool kScaled = false;  // one scale for the whole output, in the panel's header
    static F scale(const uint8_t*, const uint8_t*, int) { return set1(1.0f); }
    template <int i> static I pair(const uint8_t* record) { return load_i8_pairs(record + 32 * i); }
};

struct Q8_0 : NoHeader {
    static constexpr int kRecord = 544;
    static F scale(const uint8_t*, const uint8_t* record, int) { return half_at(record); }
    template <int i> static I pair(const uint8_t* record) { return load_i8_pairs(record + 32 + 32 * i); }
};

struct Q4_0 : NoHeader {
    static constexpr int kRecord = 288;
    static F scale(const uint8_t*, const uint8_t* record, int) { return half_at(record); }
    template <int i> static I pair(const uint8_t* record) {
        return sub16(nibble_pair<i>(record + 32), set1(int32_t(0x00080008)));
    }
};

struct Q4_1 : NoHeader {
    static constexpr int kRecord = 320;
    static constexpr bool kOffset = true;
    static F scale(const uint8_t*, const uint8_t* record, int) { return half_at(record); }
    static F offset(const uint8_t*, const uint8_t* record) { return half_at(record + 32); }
    template <int i> static I pair(const uint8_t* record) { return nibble_pair<i>(record + 64); }
};

struct Q5_0 : NoHeader {
    static constexpr int kRecord = 352;
    static F scale(const uint8_t*, const uint8_t* record, int) { return half_at(record); }
    template <int i> static I pair(const uint8_t* record) {
        return sub16(bit_or(nibble_pair<i>(record + 32), fifth_bit<i>(record + 288)), set1(int32_t(0x00100010)));
    }
};

struct Q5_1 : NoHeader {
    static constexpr int kRecord = 384;
    static constexpr bool kOffset = true;
    static F scale(const uint8_t*, const uint8_t* record, int) { return half_at(record); }
    static F offset(const uint8_t*, const uint8_t* record) { return half_at(record + 32); }
    template <int i> static I pair(const uint8_t* record) {
        return bit_or(nibble_pair<i>(record + 64), fifth_bit<i>(record + 320));
    }
};

// Scale and minimum of a sub-block are 6-bit multiples of the super-block's halves.
struct Q4_K : NoHeader {
    static constexpr int kSuperHeader = 64, kRecord = 288;
    static constexpr bool kOffset = true;
    static F scale(const uint8_t* super, const uint8_t* record, int) { return mul(half_at(super), from_u8(record)); }
    static F offset(const uint8_t* super, const uint8_t* record) {
        return sub(set1(0.0f), mul(half_at(super + 32), from_u8(record + 16)));
    }
    template <int i> static I pair(const uint8_t* record) { return nibble_pair<i>(record + 32); }
};

struct Q5_K : Q4_K {
    static constexpr int kRecord = 352;
    template <int i> static I pair(const uint8_t* record) {
        return bit_or(nibble_pair<i>(record + 32), fifth_bit<i>(record + 288));
    }
};

// Two scales a record, one for each 16 inputs.
struct Q6_K : NoHeader {
    static constexpr int kSuperHeader = 32, kRecord = 416, kParts = 2;
    static F scale(const uint8_t* super, const uint8_t* record, int part) {
        return mul(half_at(super), from_i8(record + 16 * part));
    }
    template <int i> static I pair(const uint8_t* record) {
        constexpr int field = 2 * (i % 8);
        const I word = load_bytes(record + 288 + 64 * (i / 8));
        I high;
        if constexpr (field <= 4) high = bit_and(shift_left<4 - field>(word), set1(int32_t(0x00300030)));
        else high = bit_and(shift_right<field - 4>(word), set1(int32_t(0x00300030)));
        return sub16(bit_or(nibble_pair<i>(record + 32), high), set1(int32_t(0x00200020)));
    }
};

// Adds pairs i … end − 1 to the sums. Few rows would wait for their own last sum: they get two each, which
// changes nothing, integers being exact.
template <class W, int rows, int chains, int i, int end>
inline void add_pairs(const uint8_t* record, const int32_t* x, I (&sums)[chains][rows]) {
    if constexpr (i < end) {
        const I w = W::template pair<i>(record);
#pragma GCC unroll 16
        for (int r = 0; r < rows; ++r)
            sums[i % chains][r] = dot_pair(sums[i % chains][r], w, set1(x[i * rows + r]));
        add_pairs<W, rows, chains, i + 1, end>(record, x, sums);
    }
}

template <class W, int rows, int part>
inline void add_part(const uint8_t* super, const uint8_t* record, const int32_t* x, const float* scales, F (&acc)[rows]) {
    if constexpr (part < W::kParts) {
        constexpr int kPairs = 16 / W::kParts, kChains = rows <= 2 ? 2 : 1;
        I sums[kChains][rows];
#pragma GCC unroll 2
        for (int c = 0; c < kChains; ++c)
#pragma GCC unroll 16
            for (int r = 0; r < rows; ++r) sums[c][r] = zero_int();
        add_pairs<W, rows, kChains, part * kPairs, (part + 1) * kPairs>(record, x, sums);
        const F scale = W::scale(super, record, part);
#pragma GCC unroll 16
        for (int r = 0; r < rows; ++r) {
            F sum = to_float(kChains == 2 ? add(sums[0][r], sums[kChains - 1][r]) : sums[0][r]);
            if constexpr (W::kScaled) sum = mul(sum, scale);
            acc[r] = fma(sum, set1(scales[r]), acc[r]);
        }
        add_part<W, rows, part + 1>(super, record, x, scales, acc);
    }
}

template <class W, int rows>
void multiply_panel(const uint8_t* panel, const uint8_t* next, int inputs, const Tile& tile, float* out) {
    F acc[rows];
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) acc[r] = set1(0.0f);
    const uint8_t *record = panel + W::kHeader, *super = nullptr;
    const int blocks = inputs / kBlock;
    const uint8_t* end = record + size_t(blocks) * W::kRecord;
    if constexpr (W::kSuperHeader > 0) end += blocks / (kSuper / kBlock) * W::kSuperHeader;
    for (int block = 0; block < blocks; ++block) {
        if constexpr (W::kSuperHeader > 0) {
            if (block % (kSuper / kBlock) == 0) super = record, record += W::kSuperHeader;
        }
        const uint8_t* ahead = record + kAhead < end ? record + kAhead : next + (record + kAhead - end);
#pragma GCC unroll 9
        for (int line = 0; line < W::kRecord; line += 64) __builtin_prefetch(ahead + line);
        add_part<W, rows, 0>(super, record, tile.pairs + block * 16 * rows, tile.scales + block * rows, acc);
        if constexpr (W::kOffset) {
            const F offset = W::offset(super, record);
#pragma GCC unroll 16
            for (int r = 0; r < rows; ++r) acc[r] = fma(offset, set1(tile.sums[block * rows + r]), acc[r]);
        }
        record += W::kRecord;
    }
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
        if constexpr (W::kHeader > 0) acc[r] = mul(acc[r], load((const float*)panel));
        store(out + r * 16, acc[r]);
    }
}

template <class W, int rows> void multiply_blocks(const Panels& w, int inputs, const Tile& tile, float* out) {
    for (int p = 0; p < w.count; ++p) {
        const uint8_t* next = p + 1 < w.count ? w.at[p + 1] : w.next[0];
        multiply_panel<W, rows>(w.at[p], next, inputs, tile, out + p * rows * 16);
    }
}

}  // namespace
