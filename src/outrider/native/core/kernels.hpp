// What each instruction set offers, as a table of functions; plain data only, so that any file may include it.
#pragma once
#include <cstddef>
#include <cstdint>

namespace outrider {

// Weights lie in panels of 16 outputs, interleaved by input: one stream from memory serves all rows.
constexpr int kLanes = 16;
constexpr int kBlock = 32;       // inputs that share a scale in the block formats and in quantised activations
constexpr int kSuper = 256;      // inputs of a super-block of the K formats
constexpr int kQueries = 12;     // no instruction set takes more queries in one call of `attend`
constexpr int kSlots = 64;       // cache slots of a page
constexpr int kMostRows = 16;    // of a tile

enum class Format : int { F32, F16, BF16, I8, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K };

// Rows of activations, ready to be multiplied, in groups of which each fits an instruction set's registers. One
// after another, the groups hold their rows interleaved by input.
struct Tile {
    int rows;
    const float* values;     // [inputs][rows of the group], for float weights
    const int32_t* words;    // [inputs / 32][block_words][rows of the group]: integers, for block weights
    const float* scales;     // [inputs / 32][rows of the group]: value = scale · integer
    const float* sums;       // [inputs / 32][rows of the group]: sum of a block's values
    // For block weights that take the tile as digits: [inputs / 32][2][rows][32] bf16, scale · int16 as the sum of
    // two. Whole lines of 16 rows may be read, of which those past the tile mean nothing.
    const uint16_t* digits;
    const float* digit_sums;  // [inputs / 32][rows]
};

// One or two panels, and those that will be asked for next, so that their beginning is on its way in time.
struct Panels {
    int count;
    const uint8_t* at[2];
    const uint8_t* next[2];
};

// Where the results of a tile go: 16 of row r and panel p to at + r · row + p · panel, stored or added.
struct Results {
    float* at;
    size_t row, panel;
    bool add;
};

constexpr int kPartSums = 16, kPartHead = 32;  // where a result of attention holds its sums and its values

// One query of attention: it sees path places first … end − 1. Places before `base` are cache slots; place
// base + i is slot base + path[i], or base + i where path is null.
struct Query {
    const float* values;  // [dim]; its products with the keys are logarithms to base 2 of the weights
    // The result over some places: the largest score; from kPartSums the sums of the weights relative to it, by
    // place modulo 16; from kPartHead the values mixed by these weights, [dim rounded up to 16].
    float* part;
    int first, end;
    const int32_t* path;
};

// Where one layer's keys and values of one head lie: pages of 64 slots, each [4][dim][16] keys and
// [64][dim rounded up to 16] values.
struct Keys {
    float* const* pages;
    size_t keys, values;  // offsets into a page
    int base;
};

struct Kernels {
    const char* name;
    int group_rows;  // at most, of a group
    int max_queries;
    // out [panels][rows][16] = panels times the tile.
    void (*multiply)(Format, const Panels&, int inputs, const Tile&, float* out);
    // The same sums for float weights that many tiles of one group each take in turn. For the first of them 16-bit
    // weights become fp32 in `wide` [panels][inputs][16], which holds the panels of the others.
    void (*multiply_near)(Format, const Panels&, int inputs, float* wide, const Tile&, const Results&);
    // x [width] to y [width]: x · weight / sqrt(mean(x²) + eps); both padded to 16.
    void (*norm)(const float* x, const float* weight, int width, float eps, float* y);
    // As norm, over a head of any width.
    void (*head_norm)(const float* x, const float* weight, int width, float eps, float* y);
    // Rotate-half in place: x [dim], cos and sin [dim / 2].
    void (*rotate)(float* x, const float* cos, const float* sin, int dim);
    // gate = silu(gate) · up over `count` values, a multiple of 16.
    void (*gate)(float* gate, const float* up, int count);
    // A block of 32 values to words `stride` apart, with its scale and the sum of its values. Either pairs of int16,
    // and the scale is a power of two; or int8 as multiply_bytes.hpp says. A block with a value of 2^100 or more, or
    // that is not finite, gives NaN.
    int block_words;
    void (*quantise)(const float* x, int stride, int32_t* words, float* scale, float* sum);
    // Whether weights of this format take tiles of so many rows as digits.
    bool (*takes_digits)(Format, int rows);
    // The same block as digits, with the sum of its values; null where nothing takes them.
    void (*split)(const float* x, uint16_t* high, uint16_t* low, float* sum);
    // Around a thread's part of a pass, whose tiles have at most `rows` rows.
    void (*begin)(int rows);
    void (*end)();
    // Over places from … to − 1, of which every query sees some; the queries share a path or have none there.
    // scratch holds kQueries floats for each slot from the first of these places to the last, and 32 more.
    void (*attend)(const Keys&, const Query*, int count, int from, int to, int dim, float* scratch);
    // Adds a query's result over other places to `sum`, `floats` long with its head.
    void (*merge)(float* sum, const float* part, int floats);
    // 16 floats to 16 halves.
    void (*to_half)(const float* x, uint16_t* out);
    // The same instruction set's kernels with activations of int8 instead of int16.
    const Kernels* (*with_bytes)();
};

const Kernels* portable_bytes();
const Kernels* avx2_bytes();
const Kernels* avx512_bytes();
const Kernels* neon_bytes();
const Kernels* portable_kernels();
const Kernels* avx2_kernels();
const Kernels* avx512_kernels();
const Kernels* amx_kernels();
const Kernels* neon_kernels();

// The best of this processor (null), or the named one; null for a name that cannot run here.
const Kernels* choose_kernels(const char* name);

// A tile of `rows` rows lies in so many groups, alike in size: group g begins at row rows · g / groups.
static inline int groups_of(int rows, int most) { return (rows + most - 1) / most; }

static inline int round_up(int n, int step) { return (n + step - 1) / step * step; }

}  // namespace outrider
