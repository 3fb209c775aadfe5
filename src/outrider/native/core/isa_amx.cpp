// The kernels of AVX-512 with AMX: weights of 4 to 6 bits meet many rows in tiles.
#include "vec_avx512.hpp"
//
#include "kernels.hpp"

namespace {
using outrider::Format, outrider::Tile, outrider::Panels, outrider::Kernels;
using outrider::kBlock, outrider::kSuper;
}  // namespace

// clang-format off
#include "stretch.hpp"
#include "multiply_blocks.hpp"
#include "rounding.hpp"
#ifdef OUTRIDER_PLAYED_TILES
#include <played_tiles.hpp>
#else
#include "tiles.hpp"
#endif
#include "multiply_tiles.hpp"
// clang-format on

namespace {

constexpr int kTileRows = 9;  // from so many rows on tiles take less time than the sums of pairs

bool takes_digits(Format format, int rows) {
    if (rows < kTileRows) return false;
    return format == Format::Q4_0 || format == Format::Q4_1 || format == Format::Q5_0 || format == Format::Q4_K ||
           format == Format::Q6_K;
}

void multiply_any(Format format, const Panels& w, int inputs, const Tile& tile, float* out) {
    if (!takes_digits(format, tile.rows)) return outrider::avx512_kernels()->multiply(format, w, inputs, tile, out);
    switch (format) {
        case Format::Q4_0: return multiply_by_tiles<Q4_0>(w, inputs, tile, out);
        case Format::Q4_1: return multiply_by_tiles<Q4_1>(w, inputs, tile, out);
        case Format::Q5_0: return multiply_by_tiles<Q5_0>(w, inputs, tile, out);
        case Format::Q4_K: return multiply_by_tiles<Q4_K>(w, inputs, tile, out);
        default: return multiply_by_tiles<Q6_K>(w, inputs, tile, out);
    }
}

// Integers times a power of two; a digit has at most 8 bits, so the upper half of a float is all of it.
void split(const float* x, uint16_t* high, uint16_t* low, float* sum) {
    alignas(64) int32_t n[32];
    const __m512 scale = _mm512_set1_ps(round_block(x, n, sum));
    const auto put = [&](uint16_t* digit, __m512i value) {
        const __m512i bits = _mm512_castps_si512(_mm512_mul_ps(_mm512_cvtepi32_ps(value), scale));
        _mm256_storeu_si256((__m256i*)digit, _mm512_cvtepi32_epi16(_mm512_srli_epi32(bits, 16)));
    };
    for (int i = 0; i < 32; i += 16) {
        const __m512i value = _mm512_load_si512(n + i);
        const __m512i rest = _mm512_srai_epi32(_mm512_slli_epi32(value, 24), 24);  // its lowest byte, with a sign
        put(high + i, _mm512_sub_epi32(value, rest));
        put(low + i, rest);
    }
}

}  // namespace

namespace outrider {
const Kernels* amx_kernels() {
    static const Kernels table = [] {
        Kernels kernels = *avx512_kernels();
        kernels.name = "amx", kernels.multiply = multiply_any;
        kernels.takes_digits = takes_digits, kernels.split = split;
        kernels.begin = shape_tiles, kernels.end = free_tiles;
        return kernels;
    }();
    return &table;
}
}  // namespace outrider
