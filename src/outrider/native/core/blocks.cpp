// Moves the blocks of a GGUF tensor into panels, bit for bit, and reads them back.
//
// The layouts of the file are those of ggml's block_q4_0 … block_q6_K; those of a panel are described in
// multiply_blocks.hpp.
#include "blocks.hpp"

#include <stdexcept>
#include <string>
#include <vector>

#include "half.hpp"
#include "parallel.hpp"

namespace outrider {
namespace {

struct Layout {
    int inputs;     // of a block of the file
    int bytes;      // of a block of the file
    int header;     // of a super-block in a panel
    int record;     // of 32 inputs in a panel
    int nibbles;    // where they start in a record, 0 for none
    int bits;       // where the fifth bits start in a record, 0 for none
};

Layout layout_of(Format format) {
    switch (format) {
        case Format::Q4_0: return {32, 18, 0, 288, 32, 0};
        case Format::Q4_1: return {32, 20, 0, 320, 64, 0};
        case Format::Q5_0: return {32, 22, 0, 352, 32, 288};
        case Format::Q5_1: return {32, 24, 0, 384, 64, 320};
        case Format::Q8_0: return {32, 34, 0, 544, 0, 0};
        case Format::Q4_K: return {256, 144, 64, 288, 32, 0};
        case Format::Q5_K: return {256, 176, 64, 352, 32, 288};
        case Format::Q6_K: return {256, 210, 32, 416, 32, 0};
        default: throw std::invalid_argument("not a block format");
    }
}

uint16_t u16(const uint8_t* p) { return uint16_t(p[0] | p[1] << 8); }

// The integers of 32 inputs, and their scale parts: `a` and `b` are the bytes of the record's two scale fields.
struct Block {
    uint8_t values[32];
    uint16_t a = 0, b = 0;
};

// Six-bit scale and minimum of sub-block j of a K super-block.
void k_scales(const uint8_t* packed, int j, Block& block) {
    if (j < 4) {
        block.a = packed[j] & 63;
        block.b = packed[j + 4] & 63;
    } else {
        block.a = (packed[j + 4] & 15) | (packed[j - 4] >> 6) << 4;
        block.b = (packed[j + 4] >> 4) | (packed[j] >> 6) << 4;
    }
}

// Sub-block `part` (of 32 inputs) of a block of the file.
Block decode(Format format, const uint8_t* raw, int part) {
    Block block;
    auto split = [&](const uint8_t* nibbles) {
        for (int i = 0; i < 16; ++i) block.values[i] = nibbles[i] & 15, block.values[i + 16] = nibbles[i] >> 4;
    };
    auto fifth = [&](const uint8_t* bits) {
        for (int i = 0; i < 32; ++i) block.values[i] |= (bits[i / 8] >> i % 8 & 1) << 4;
    };
    switch (format) {
        case Format::Q4_0: block.a = u16(raw), split(raw + 2); break;
        case Format::Q4_1: block.a = u16(raw), block.b = u16(raw + 2), split(raw + 4); break;
        case Format::Q5_0: block.a = u16(raw), split(raw + 6), fifth(raw + 2); break;
        case Format::Q5_1: block.a = u16(raw), block.b = u16(raw + 2), split(raw + 8), fifth(raw + 4); break;
        case Format::Q8_0:
            block.a = u16(raw);
            for (int i = 0; i < 32; ++i) block.values[i] = raw[2 + i];
            break;
        case Format::Q4_K:
            k_scales(raw + 4, part, block);
            for (int i = 0; i < 32; ++i) block.values[i] = raw[16 + part / 2 * 32 + i] >> part % 2 * 4 & 15;
            break;
        case Format::Q5_K:
            k_scales(raw + 4, part, block);
            for (int i = 0; i < 32; ++i)
                block.values[i] = (raw[48 + part / 2 * 32 + i] >> part % 2 * 4 & 15) | (raw[16 + i] >> part & 1) << 4;
            break;
        default: {  // Q6_K
            const int half = part / 4, quarter = part % 4;
            const uint8_t *low = raw + 64 * half + 32 * (quarter % 2), *high = raw + 128 + 32 * half;
            block.a = raw[192 + 2 * part], block.b = raw[192 + 2 * part + 1];
            for (int i = 0; i < 32; ++i)
                block.values[i] = (low[i] >> quarter / 2 * 4 & 15) | (high[i] >> 2 * quarter & 3) << 4;
        }
    }
    return block;
}

void put_half(uint8_t* field, int lane, uint16_t value) { std::memcpy(field + 2 * lane, &value, 2); }
void put_word(uint8_t* field, int lane, uint32_t value) { std::memcpy(field + 4 * lane, &value, 4); }
uint16_t get_half(const uint8_t* field, int lane) {
    uint16_t value;
    std::memcpy(&value, field + 2 * lane, 2);
    return value;
}
uint32_t get_word(const uint8_t* field, int lane) {
    uint32_t value;
    std::memcpy(&value, field + 4 * lane, 4);
    return value;
}

// Where input i of 32 lies among the nibbles, fifth bits or pairs of bits: word and shift.
int nibble_shift(int i) { return 4 * (i % 8 / 2) + 16 * (i % 2); }
int bit_shift(int i) { return i / 2 + 16 * (i % 2); }
int two_bit_shift(int i) { return 2 * (i % 16 / 2) + 16 * (i % 2); }

void put(Format format, const Layout& layout, const Block& block, int lane, uint8_t* record) {
    const bool k = layout.inputs == kSuper, offset = format == Format::Q4_1 || format == Format::Q5_1;
    if (k) record[lane] = uint8_t(block.a), record[16 + lane] = uint8_t(block.b);
    else put_half(record, lane, block.a);
    if (offset) put_half(record + 32, lane, block.b);
    if (format == Format::Q8_0) {
        for (int i = 0; i < 32; ++i) record[32 + 32 * (i / 2) + 2 * lane + i % 2] = block.values[i];
        return;
    }
    for (int g = 0; g < 4; ++g) {
        uint32_t nibbles = 0;
        for (int i = 0; i < 8; ++i) nibbles |= uint32_t(block.values[8 * g + i] & 15) << nibble_shift(i);
        put_word(record + layout.nibbles + 64 * g, lane, nibbles);
    }
    if (layout.bits) {
        uint32_t bits = 0;
        for (int i = 0; i < 32; ++i) bits |= uint32_t(block.values[i] >> 4 & 1) << bit_shift(i);
        put_word(record + layout.bits, lane, bits);
    }
    for (int g = 0; format == Format::Q6_K && g < 2; ++g) {
        uint32_t pairs = 0;
        for (int i = 0; i < 16; ++i) pairs |= uint32_t(block.values[16 * g + i] >> 4 & 3) << two_bit_shift(i);
        put_word(record + 288 + 64 * g, lane, pairs);
    }
}

// The integers that `put` put into a record, and their scale parts.
Block take(Format format, const Layout& layout, const uint8_t* record, int lane) {
    Block block;
    if (layout.header) block.a = record[lane], block.b = record[16 + lane];
    else block.a = get_half(record, lane);
    if (format == Format::Q4_1 || format == Format::Q5_1) block.b = get_half(record + 32, lane);
    if (format == Format::Q8_0) {
        for (int i = 0; i < 32; ++i) block.values[i] = record[32 + 32 * (i / 2) + 2 * lane + i % 2];
        return block;
    }
    for (int g = 0; g < 4; ++g) {
        const uint32_t nibbles = get_word(record + layout.nibbles + 64 * g, lane);
        for (int i = 0; i < 8; ++i) block.values[8 * g + i] = nibbles >> nibble_shift(i) & 15;
    }
    if (layout.bits) {
        const uint32_t bits = get_word(record + layout.bits, lane);
        for (int i = 0; i < 32; ++i) block.values[i] |= (bits >> bit_shift(i) & 1) << 4;
    }
    for (int g = 0; format == Format::Q6_K && g < 2; ++g) {
        const uint32_t pairs = get_word(record + 288 + 64 * g, lane);
        for (int i = 0; i < 16; ++i) block.values[16 * g + i] |= (pairs >> two_bit_shift(i) & 3) << 4;
    }
    return block;
}

// The values of a sub-block, computed as the gguf package does: products exact, one rounding at most. `d` and
// `m` are those of a K super-block.
void values_of(Format format, const Block& block, uint16_t d, uint16_t m, float* out) {
    const float scale = half_to_float(d);
    float scales[2] = {scale, scale}, offset = 0;
    int zero = 0;
    switch (format) {
        case Format::Q8_0:
            for (int i = 0; i < 32; ++i) out[i] = half_to_float(block.a) * float(int8_t(block.values[i]));
            return;
        case Format::Q6_K:
            scales[0] *= float(int8_t(block.a)), scales[1] *= float(int8_t(block.b)), zero = 32;
            break;
        case Format::Q4_K:
        case Format::Q5_K:
            scales[0] *= float(block.a), scales[1] = scales[0], offset = half_to_float(m) * float(block.b);
            break;
        default:
            scales[0] = scales[1] = half_to_float(block.a);
            if (format == Format::Q4_0) zero = 8;
            else if (format == Format::Q5_0) zero = 16;
            else offset = -half_to_float(block.b);
    }
    for (int i = 0; i < 32; ++i) out[i] = scales[i / 16] * float(int(block.values[i]) - zero) - offset;
}

// The halves that stand at the head of a K super-block: d and dmin lie first in Q4_K and Q5_K, d last in Q6_K.
uint16_t head_d(Format format, const uint8_t* raw) { return u16(format == Format::Q6_K ? raw + 208 : raw); }
uint16_t head_m(const uint8_t* raw) { return u16(raw + 2); }

}  // namespace

size_t raw_row_bytes(Format format, size_t bytes, int outputs, int inputs, const int32_t* order) {
    const Layout layout = layout_of(format);
    if (outputs < 1 || inputs < 1 || inputs % layout.inputs)
        throw std::invalid_argument(std::string(name_of(format)) + " weights need a multiple of " +
                                    std::to_string(layout.inputs) + " inputs, not " + std::to_string(inputs));
    const size_t row_bytes = size_t(inputs / layout.inputs) * layout.bytes;
    if (bytes != row_bytes * outputs)
        throw std::invalid_argument(std::string(name_of(format)) + " weights of " + std::to_string(outputs) + " x " +
                                    std::to_string(inputs) + " take " + std::to_string(row_bytes * outputs) +
                                    " bytes, not " + std::to_string(bytes));
    for (int n = 0; order && n < outputs; ++n)
        if (order[n] < 0 || order[n] >= outputs) throw std::invalid_argument("order names a row that is not there");
    return row_bytes;
}

size_t block_panel_bytes(Format format, int inputs) {
    const Layout layout = layout_of(format);
    if (inputs % layout.inputs) throw std::invalid_argument("the inputs are not whole blocks");
    return size_t(inputs / layout.inputs) * (layout.header + size_t(layout.inputs / kBlock) * layout.record);
}

Matrix pack_blocks(const uint8_t* raw, size_t bytes, int outputs, int inputs, Format format, const int32_t* order,
                   int threads) {
    const size_t row_bytes = raw_row_bytes(format, bytes, outputs, inputs, order);
    const Layout layout = layout_of(format);
    Matrix m{format, outputs, inputs};
    const int parts = layout.inputs / kBlock;
    const size_t step = layout.header + size_t(parts) * layout.record;
    m.panel_bytes = block_panel_bytes(format, inputs);
    m.data = Buffer(m.panel_bytes * m.panels());
    parallel_for(m.panels(), threads, [&](int p) {
        for (int lane = 0; lane < kLanes && p * kLanes + lane < outputs; ++lane) {
            const int output = p * kLanes + lane;
            const uint8_t* from = raw + row_bytes * (order ? order[output] : output);
            uint8_t* to = m.data.as<uint8_t>() + p * m.panel_bytes;
            for (int b = 0; b < inputs / layout.inputs; ++b, from += layout.bytes, to += step) {
                if (layout.header) {
                    put_half(to, lane, head_d(format, from));
                    if (layout.header > 32) put_half(to + 32, lane, head_m(from));
                }
                for (int part = 0; part < parts; ++part)
                    put(format, layout, decode(format, from, part), lane, to + layout.header + part * layout.record);
            }
        }
    });
    return m;
}

void read_blocks(const Matrix& matrix, const uint8_t* panel, int lane, float* out) {
    const Format format = matrix.format;
    const Layout layout = layout_of(format);
    const int parts = layout.inputs / kBlock;
    for (int k = 0; k < matrix.inputs; k += layout.inputs) {
        const uint16_t d = layout.header ? get_half(panel, lane) : 0;
        const uint16_t m = layout.header > 32 ? get_half(panel + 32, lane) : 0;
        panel += layout.header;
        for (int part = 0; part < parts; ++part, panel += layout.record, out += kBlock)
            values_of(format, take(format, layout, panel, lane), d, m, out);
    }
}

void read_raw_blocks(Format format, const uint8_t* raw, int inputs, float* out) {
    const Layout layout = layout_of(format);
    for (int k = 0; k < inputs; k += layout.inputs, raw += layout.bytes) {
        const uint16_t d = layout.header ? head_d(format, raw) : 0, m = layout.header > 32 ? head_m(raw) : 0;
        for (int part = 0; part < layout.inputs / kBlock; ++part, out += kBlock)
            values_of(format, decode(format, raw, part), d, m, out);
    }
}

}  // namespace outrider
