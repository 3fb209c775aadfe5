// Panels of 4-, 5- and 6-bit weights times the rows of a tile on AMX, with the bits of multiply_blocks.hpp. An
// activation is an integer of 16 bits times a power of two; it comes as two digits, 256 · high and low, which with
// that power are numbers of bf16, as the small integers of the weights are. All products and sums of a block are
// integers below 2²⁴ times the power, so fp32 holds them exactly, in whatever order they are added; what is left
// are the weights' own scales, applied in the same order as there. Included by the instruction set's file.
//
// `code<i>` unpacks inputs 2i and 2i + 1 of every output as two numbers of 16 bits, of which the lowest bits say
// the weight; `value` looks it up as bf16.
#pragma once

namespace {

struct Table {
    uint16_t values[64];
};
// The integers −zero, 1 − zero, … as bf16, over again after `codes` of them.
constexpr Table table_of(int codes, int zero) {
    Table table{};
    for (int i = 0; i < 64; ++i) {
        const int value = i % codes - zero, size = value < 0 ? -value : value;
        int power = 0;
        while (size >> (power + 1)) ++power;
        const int bits = size ? (127 + power) << 7 | ((size << 7 >> power) & 127) : 0;
        table.values[i] = uint16_t(bits | (value < 0 ? 0x8000 : 0));
    }
    return table;
}

template <int nibbles, int codes, int zero> struct Nibbles {
    static constexpr Table kTable = table_of(codes, zero);
    template <int i> static __m512i code(const uint8_t* record) {
        return shift_right<4 * (i % 4)>(load_bytes(record + nibbles + 64 * (i / 4))).v;
    }
    static __m512i value(__m512i code) {
        return _mm512_permutexvar_epi16(code, _mm512_loadu_si512(kTable.values));
    }
};

template <class W> struct Codes;
template <> struct Codes<Q4_0> : Nibbles<32, 16, 8> {};
template <> struct Codes<Q4_1> : Nibbles<64, 16, 0> {};
template <> struct Codes<Q4_K> : Nibbles<32, 16, 0> {};
template <> struct Codes<Q5_0> : Nibbles<32, 32, 16> {
    template <int i> static __m512i code(const uint8_t* record) {
        return bit_or(nibble_pair<i>(record + 32), fifth_bit<i>(record + 288)).v;
    }
};
template <> struct Codes<Q6_K> {
    static constexpr Table kTable = table_of(64, 32);
    template <int i> static __m512i code(const uint8_t* record) { return Q6_K::code<i>(record).v; }
    static __m512i value(__m512i code) {
        return _mm512_permutex2var_epi16(_mm512_loadu_si512(kTable.values), code,
                                         _mm512_loadu_si512(kTable.values + 32));
    }
};

template <class W, int i = 0> inline void unpack(const uint8_t* record, uint16_t (*out)[32]) {
    if constexpr (i < 16) {
        _mm512_store_si512(out[i], Codes<W>::value(Codes<W>::template code<i>(record)));
        unpack<W, i + 1>(record, out);
    }
}

// A block of a panel passes through three steps: its weights are unpacked, multiplied, and their sums scaled and
// added up. A turn of the loop takes three blocks a step further each, so that the steps don't wait for one another:
// a tile can only be loaded when its bytes have left the processor's queue of stores.
template <class W, int panels> class TileLoop {
public:
    TileLoop(const Panels& w, int inputs, const Tile& tile, float* out)
        : w_(w), tile_(tile), out_(out), blocks_(inputs / kBlock), bytes_(W::bytes(inputs)) {}

    void run() {
        for (int i = 0; i < panels * tile_.rows; ++i) store(out_ + i * 16, set1(0.0f));
        for (int block = 0; block < blocks_ + kAdd; ++block) {
            step<0>(block);
            if constexpr (panels == 2) step<1>(block);
        }
    }

private:
    // How many blocks later the second step comes, and the third; how many blocks find room meanwhile.
    static constexpr int kMultiply = 4 / panels, kAdd = kMultiply + 2 / panels, kWeights = 8, kSums = 4;

    template <int p> void step(int block) {
        if (block < blocks_) unpack_block(p, block);
        if (block >= kMultiply && block < blocks_ + kMultiply) multiply_block<p>(block - kMultiply);
        if (block >= kAdd) add_block(p, block - kAdd);
    }

    const uint8_t* super(int p, int block) const {
        return w_.at[p] + W::bytes(W::kSuperHeader ? block * kBlock / kSuper * kSuper : 0);
    }
    const uint8_t* record(int p, int block) const { return w_.at[p] + W::bytes(block * kBlock) + W::kSuperHeader; }

    void unpack_block(int p, int block) {
        const uint8_t* from = record(p, block);
        const uint8_t *ahead = from + kAhead, *end = w_.at[p] + bytes_;
        if (ahead >= end) ahead = w_.next[p] + (ahead - end);
#pragma GCC unroll 9
        for (int line = 0; line < W::kRecord; line += 64) __builtin_prefetch(ahead + line);
        unpack<W>(from, weights_[(panels * block + p) % kWeights]);
    }

    template <int p> void multiply_block(int block) {
        constexpr int inputs = kBlock / W::kParts;
        const int digit = tile_.rows * kBlock, unit = panels * block + p;
        const uint16_t* digits = tile_.digits + size_t(block) * 2 * digit;
#pragma GCC unroll 2
        for (int part = 0; part < W::kParts; ++part) {
            if (p == 0 || W::kParts == 2)
                load_digits<inputs>(digits + part * inputs, digits + digit + part * inputs);
            multiply_digits<inputs>(weights_[unit % kWeights][part * inputs / 2], sums_[unit % kSums][part][0]);
        }
    }

    void add_block(int p, int block) {
        const int rows = tile_.rows, unit = panels * block + p;
        const float* totals = tile_.digit_sums + size_t(block) * rows;
        const float (*sums)[16][16] = sums_[unit % kSums];
        F scale[W::kParts];
        const F offset = W::offset(super(p, block), record(p, block));
        for (int part = 0; part < W::kParts; ++part) scale[part] = W::scale(super(p, block), record(p, block), part);
        float* out = out_ + p * rows * 16;
        for (int r = 0; r < rows; ++r) {
            F acc = load(out + r * 16);
#pragma GCC unroll 2
            for (int part = 0; part < W::kParts; ++part) acc = fma(load(sums[part][r]), scale[part], acc);
            if constexpr (W::kOffset) acc = fma(offset, set1(totals[r]), acc);
            store(out + r * 16, acc);
        }
    }

    const Panels& w_;
    const Tile& tile_;
    float* const out_;
    const int blocks_;
    const size_t bytes_;  // of a panel
    alignas(64) uint16_t weights_[kWeights][16][32];
    alignas(64) float sums_[kSums][W::kParts][16][16];
};

template <class W> void multiply_by_tiles(const Panels& w, int inputs, const Tile& tile, float* out) {
    if (w.count == 2) TileLoop<W, 2>(w, inputs, tile, out).run();
    else TileLoop<W, 1>(w, inputs, tile, out).run();
}

}  // namespace
