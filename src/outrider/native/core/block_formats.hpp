// The formats of quantised weights: where a record holds the integers of 32 inputs of 16 outputs, and what their
// scales are. Included by the instruction set's file.
//
// `pair<i>` unpacks inputs 2i and 2i + 1 of every output as two int16. In a nibble word (8 inputs of an output) pair j
// is bits 4j and 4j + 16; `blocks.cpp` writes this. The even nibbles of such a word, and its odd ones, are four
// inputs in four bytes: `quad<i>` unpacks inputs 8 · (i / 2) + 2 · (i % 2) and, after it, those 4, 1 and 5 further.
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

template <int i> I nibble_quad(const uint8_t* nibbles) {
    return bit_and(shift_right<4 * (i % 2)>(load_bytes(nibbles + 64 * (i / 2))), set1(int32_t(0x0F0F0F0F)));
}

template <int n> I shift(I a) {
    if constexpr (n > 0) return shift_left<n>(a);
    else if constexpr (n < 0) return shift_right<-n>(a);
    else return a;
}

// Bits that belong above the nibbles of quad i, from a word that holds them in order of the pairs: those of the first
// input at bit `at`, of the second, which comes two pairs later, so much further on; the others 16 bits above them.
template <int at, int width> I high_bits(const uint8_t* bits) {
    constexpr uint32_t mask = ((1u << width) - 1) << 4, even = mask << 16 | mask, odd = even << 8;
    const I word = load_bytes(bits);
    return bit_or(bit_and(shift<4 - at>(word), set1(int32_t(even))),
                  bit_and(shift<12 - at - 2 * width>(word), set1(int32_t(odd))));
}

template <int i> I fifth_bits(const uint8_t* bits) { return high_bits<4 * (i / 2) + i % 2, 1>(bits); }

// The bytes of 8-bit weights lie in pairs.
template <int i> I byte_quad(const uint8_t* bytes) {
    const uint8_t* first = bytes + 32 * (4 * (i / 2) + i % 2);
    return zip_bytes(first, first + 64);
}

inline F half_at(const uint8_t* p) { return load_half((const uint16_t*)p); }

template <int record, int header = 0, int super = 0> struct Blocks {
    static constexpr int kHeader = header, kSuperHeader = super, kRecord = record, kParts = 1, kWords = 16;
    static constexpr int kPairRows = kPairBlocks;
    static constexpr int kStretch = super ? kSuper : 128, kLead = kStretch;
    // Longer, because each group has to begin a stretch anew; bytes of 8-bit weights leave no room for that.
    static constexpr int kShared = record < 512 ? 512 : kStretch;
    static constexpr bool kBlocks = true, kScaled = true, kOffset = false, kBytes = false;
    // What the code of a weight of 0 is, in a quad, to the power of two; none where weights have no sign or are signed
    // bytes. And how many quads of codes times int8 fit an int16.
    static constexpr int kZero = 0, kNarrow = 8;
    static constexpr bool kSigned = false;
    static constexpr size_t bytes(int inputs) {
        return size_t(inputs) / kBlock * record + size_t(inputs) / kSuper * super;
    }
    static F offset(const uint8_t*, const uint8_t*) { return set1(0.0f); }
};

struct I8 : Blocks<512, 64> {
    static constexpr bool kSigned = true;
    static constexpr bool kScaled = false;  // one scale for the whole output, in the panel's header
    static F scale(const uint8_t*, const uint8_t*, int) { return set1(1.0f); }
    template <int i> static I pair(const uint8_t* record) { return load_i8_pairs(record + 32 * i); }
    template <int i> static I quad(const uint8_t* record) { return byte_quad<i>(record); }
};

struct Q8_0 : Blocks<544> {
    static constexpr bool kSigned = true;
    static F scale(const uint8_t*, const uint8_t* record, int) { return half_at(record); }
    template <int i> static I pair(const uint8_t* record) { return load_i8_pairs(record + 32 + 32 * i); }
    template <int i> static I quad(const uint8_t* record) { return byte_quad<i>(record + 32); }
};

struct Q4_0 : Blocks<288> {
    static constexpr int kZero = 3;
    static F scale(const uint8_t*, const uint8_t* record, int) { return half_at(record); }
    template <int i> static I pair(const uint8_t* record) {
        return sub16(nibble_pair<i>(record + 32), set1(int32_t(0x00080008)));
    }
    template <int i> static I quad(const uint8_t* record) { return nibble_quad<i>(record + 32); }
};

struct Q4_1 : Blocks<320> {
    static constexpr bool kOffset = true;
    static F scale(const uint8_t*, const uint8_t* record, int) { return half_at(record); }
    static F offset(const uint8_t*, const uint8_t* record) { return half_at(record + 32); }
    template <int i> static I pair(const uint8_t* record) { return nibble_pair<i>(record + 64); }
    template <int i> static I quad(const uint8_t* record) { return nibble_quad<i>(record + 64); }
};

struct Q5_0 : Blocks<352> {
    static constexpr int kZero = 4, kNarrow = 4;
    static F scale(const uint8_t*, const uint8_t* record, int) { return half_at(record); }
    template <int i> static I pair(const uint8_t* record) {
        return sub16(bit_or(nibble_pair<i>(record + 32), fifth_bit<i>(record + 288)), set1(int32_t(0x00100010)));
    }
    template <int i> static I quad(const uint8_t* record) {
        return bit_or(nibble_quad<i>(record + 32), fifth_bits<i>(record + 288));
    }
};

struct Q5_1 : Blocks<384> {
    static constexpr int kNarrow = 4;
    static constexpr bool kOffset = true;
    static F scale(const uint8_t*, const uint8_t* record, int) { return half_at(record); }
    static F offset(const uint8_t*, const uint8_t* record) { return half_at(record + 32); }
    template <int i> static I pair(const uint8_t* record) {
        return bit_or(nibble_pair<i>(record + 64), fifth_bit<i>(record + 320));
    }
    template <int i> static I quad(const uint8_t* record) {
        return bit_or(nibble_quad<i>(record + 64), fifth_bits<i>(record + 320));
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
    template <int i> static I quad(const uint8_t* record) { return nibble_quad<i>(record + 32); }
};

struct Q5_K : WithMinimum<352> {
    static constexpr int kNarrow = 4;
    template <int i> static I pair(const uint8_t* record) {
        return bit_or(nibble_pair<i>(record + 32), fifth_bit<i>(record + 288));
    }
    template <int i> static I quad(const uint8_t* record) {
        return bit_or(nibble_quad<i>(record + 32), fifth_bits<i>(record + 288));
    }
};

// Two scales a record, one for each 16 inputs.
struct Q6_K : Blocks<416, 0, 32> {
    static constexpr int kParts = 2, kZero = 5, kNarrow = 2;
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
    template <int i> static I quad(const uint8_t* record) {
        const I high = high_bits<8 * (i / 2 % 2) + 2 * (i % 2), 2>(record + 288 + 64 * (i / 4));
        return bit_or(nibble_quad<i>(record + 32), high);
    }
};

}  // namespace
