// The tile registers of AMX. A holds 16 rows of activations, B weights of a panel, two inputs of every output to a
// line, C the sums of their products; A and B come in two sizes, of 32 inputs and of 16. In assembler, because the
// compilers' own functions don't say that they read memory. Included by the instruction set's file.
#pragma once
#include <cstdint>

namespace {

constexpr int kC = 0;
template <int inputs> struct Registers;
template <> struct Registers<32> {
    static constexpr int kHigh = 1, kLow = 2, kB = 3;
};
template <> struct Registers<16> {
    static constexpr int kHigh = 4, kLow = 5, kB = 6;
};

template <int tile> inline void load_tile(const void* from) {  // lines of 64 bytes, or the beginnings of such
    asm volatile("tileloadd (%1,%2,1), %%tmm%c0" ::"n"(tile), "r"(from), "r"(64L) : "memory");
}

template <int inputs> inline void load_digits(const void* high, const void* low) {
    load_tile<Registers<inputs>::kHigh>(high), load_tile<Registers<inputs>::kLow>(low);
}

// out [rows][16] = high · b + low · b, in bf16 with sums in fp32.
template <int inputs> inline void multiply_digits(const void* b, float* out) {
    using R = Registers<inputs>;
    load_tile<R::kB>(b);
    asm volatile(
        "tilezero %%tmm%c0\n\t"
        "tdpbf16ps %%tmm%c3, %%tmm%c1, %%tmm%c0\n\t"
        "tdpbf16ps %%tmm%c3, %%tmm%c2, %%tmm%c0\n\t"
        "tilestored %%tmm%c0, (%4,%5,1)" ::"n"(kC), "n"(R::kHigh), "n"(R::kLow), "n"(R::kB), "r"(out), "r"(64L)
        : "memory");
}

// Shapes this thread's registers for tiles of so many rows.
inline void shape_tiles(int rows) {
    struct alignas(64) {
        uint8_t palette = 1, start = 0, unused[14] = {};
        uint16_t bytes[16] = {64, 64, 64, 64, 32, 32, 64};
        uint8_t lines[16] = {16, 16, 16, 16, 16, 16, 8};
    } shapes;
    for (int tile = 0; tile < 7; ++tile)
        if (tile != Registers<32>::kB && tile != Registers<16>::kB) shapes.lines[tile] = uint8_t(rows);
    asm volatile("ldtilecfg %0" ::"m"(shapes));
}

// The system saves the registers of a thread until they are free again.
inline void free_tiles() { asm volatile("tilerelease"); }

}  // namespace
