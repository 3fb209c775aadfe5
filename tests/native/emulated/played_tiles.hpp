// The tile registers of AMX as arrays, for the sanitizers, which don't see what assembler reads and writes. The
// same functions as tiles.hpp.
#pragma once
#include <cstdint>

namespace {

struct Register {
    int lines, bytes;  // of a line
    alignas(64) uint8_t at[16][64];
};
thread_local Register registers[8];

void load_tile(Register& tile, const void* from) {
    if (!tile.lines) __builtin_trap();  // never shaped
    __builtin_memset(tile.at, 0, sizeof tile.at);
    for (int line = 0; line < tile.lines; ++line)
        for (int i = 0; i < tile.bytes; ++i) tile.at[line][i] = ((const uint8_t*)from)[line * 64 + i];
}

float bf16_at(const Register& tile, int line, int index) {
    const uint32_t bits = uint32_t(tile.at[line][2 * index] | tile.at[line][2 * index + 1] << 8) << 16;
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

template <int inputs> constexpr int first_register() { return inputs == 32 ? 1 : 4; }  // high, low, weights

template <int inputs> void load_digits(const void* high, const void* low) {
    load_tile(registers[first_register<inputs>()], high), load_tile(registers[first_register<inputs>() + 1], low);
}

template <int inputs> void multiply_digits(const void* b, float* out) {
    const Register *digits = registers + first_register<inputs>(), &weights = digits[2];
    load_tile(registers[first_register<inputs>() + 2], b);
    for (int row = 0; row < registers[0].lines; ++row)
        for (int output = 0; output < 16; ++output) {
            float sum = 0;
            for (int digit = 0; digit < 2; ++digit)
                for (int i = 0; i < inputs; ++i)
                    sum += bf16_at(digits[digit], row, i) * bf16_at(weights, i / 2, 2 * output + i % 2);
            out[row * 16 + output] = sum;
        }
}

void shape_tiles(int rows) {
    if (rows < 1 || rows > 16) __builtin_trap();
    for (int tile = 0; tile < 7; ++tile) {
        const bool weights = tile == 3 || tile == 6, half = tile > 3;
        registers[tile].lines = !weights ? rows : half ? 8 : 16;
        registers[tile].bytes = half && !weights ? 32 : 64;
    }
}

void free_tiles() {
    for (Register& tile : registers) tile.lines = tile.bytes = 0;
}

}  // namespace
