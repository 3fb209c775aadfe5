// Sums of products with activations of 8 bits, which take half as many multiplications as those of 16. An instruction
// multiplies codes without a sign: where the code of a weight of 0 is not 0, the activations' own sum, so many times,
// is taken off. Included by the instruction set's file.
//
// A block of a row is `kByteWords` words: eight quads of int8, then the negative sums of inputs 0 … 15, of inputs
// 16 … 31 and of all.
#pragma once

namespace {

constexpr int kQuads = 8, kByteWords = kQuads + 3;

// A format whose activations are of 8 bits.
template <class W> struct Bytes : W {
    static constexpr bool kBytes = true;
    static constexpr int kWords = kByteWords;
};

template <class W, int i> I codes(const uint8_t* record) {
    const I quad = W::template quad<i>(record);
    if constexpr (W::kSigned && !kSignedBytes) return flip(quad, 0x80808080);
    else return quad;
}

// Adds quads i … end − 1 to the sums, of which each may be several chains.
template <class W, int panels, int rows, int chains, int i, int end>
inline void add_quads(const uint8_t* const* records, const int32_t* x, I (&sums)[chains][panels][rows]) {
    if constexpr (i < end) {
        I w[panels];
#pragma GCC unroll 2
        for (int p = 0; p < panels; ++p) w[p] = codes<W, i>(records[p]);
#pragma GCC unroll 16
        for (int r = 0; r < rows; ++r) {
            const I value = set1(x[i * rows + r]);
#pragma GCC unroll 2
            for (int p = 0; p < panels; ++p) {
                I& sum = sums[i % chains][p][r];
                if constexpr (W::kSigned && kSignedBytes) sum = dot_signed(sum, w[p], value);
                else sum = dot_quad(sum, w[p], value);
            }
        }
        add_quads<W, panels, rows, chains, i + 1, end>(records, x, sums);
    }
}

// The same where an instruction leaves sums of int16: as many of them are added up as fit.
template <class W, int panels, int rows, int i, int end>
inline void add_narrow(const uint8_t* const* records, const int32_t* x, I (&sums)[1][panels][rows]) {
    if constexpr (i < end) {
        constexpr int stop = end - i < W::kNarrow ? end : i + W::kNarrow;
        I few[1][panels][rows];
#pragma GCC unroll 2
        for (int p = 0; p < panels; ++p)
#pragma GCC unroll 16
            for (int r = 0; r < rows; ++r) few[0][p][r] = zero_int();
        add_quads<W, panels, rows, 1, i, stop>(records, x, few);
#pragma GCC unroll 2
        for (int p = 0; p < panels; ++p)
#pragma GCC unroll 16
            for (int r = 0; r < rows; ++r) sums[0][p][r] = add(sums[0][p][r], widen(few[0][p][r]));
        add_narrow<W, panels, rows, stop, end>(records, x, sums);
    }
}

// Adds one part of a record, 32 inputs or 16, to sums that are zero.
template <class W, int panels, int rows, int chains, int part>
inline void add_bytes(const uint8_t* const* records, const int32_t* x, I (&sums)[chains][panels][rows]) {
    constexpr int quads = kQuads / W::kParts, zero = W::kSigned && !kSignedBytes ? 7 : W::kZero;
    if constexpr (zero > 0) {
        const int32_t* total = x + (W::kParts == 1 ? kQuads + 2 : kQuads + part) * rows;
#pragma GCC unroll 16
        for (int r = 0; r < rows; ++r)
#pragma GCC unroll 2
            for (int p = 0; p < panels; ++p) sums[0][p][r] = shift_left<zero>(set1(total[r]));
    }
    constexpr bool narrow = kNarrowSums && !(W::kSigned && kSignedBytes);
    if constexpr (narrow) add_narrow<W, panels, rows, part * quads, (part + 1) * quads>(records, x, sums);
    else add_quads<W, panels, rows, chains, part * quads, (part + 1) * quads>(records, x, sums);
}

}  // namespace
