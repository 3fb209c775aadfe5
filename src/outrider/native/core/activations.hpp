// Activations between a stage that makes rows and the matrices that take them: tiles of rows, interleaved by
// input, as floats, as blocks of integers or as digits of such, whichever the weights ask for.
#pragma once
#include <initializer_list>
#include <vector>

#include "buffer.hpp"
#include "matrix.hpp"

namespace outrider {

// Splits [0, rows) into as few tiles as can be, alike in size; the starts, and the end. Few rows, such as guesses,
// lie in tiles of up to 16, which read the weights once; many, such as prompts, in tiles of one group, whose
// panels stay in the cache anyway.
std::vector<int> cut_tiles(int rows, int group_rows);

// Packs x [rows][count], all rows of a tile, as columns `column` … of the floats of a tile of `inputs` inputs;
// count is a multiple of 4.
void pack_columns(const float* x, int rows, int count, int group_rows, float* tile, int inputs, int column);

class Activations {
public:
    static constexpr int kBuffers = 6;

    Activations() = default;
    // `buffers` are grown to hold `rows` rows of `width` inputs (a multiple of 32).
    Activations(Buffer* buffers, size_t rows, size_t width, const Kernels& kernels);

    // The tile of rows first … end − 1, once every one of them is packed.
    Tile tile(int first, int end, int inputs) const;
    // Packs this thread's share of all rows of x, `stride` apart.
    void pack(int thread, int threads, const std::vector<int>& tiles, const float* x, int stride,
              std::initializer_list<const Matrix*> next);

    // Packs blocks from / 32 … to / 32 − 1 of a whole tile; x is its first row.
    void pack_tile(const float* x, int stride, int first, int end, int from, int to,
                   std::initializer_list<const Matrix*> next);

private:
    // The same for rows that are one group.
    void pack_group(const float* x, int stride, int first, int end, int from, int to, bool floats, bool blocks);

    // The same for a tile that some weights take as digits.
    void pack_digits(const float* x, int stride, int first, int end, int from, int to);

    float* values_ = nullptr;
    int32_t* words_ = nullptr;
    float *scales_ = nullptr, *sums_ = nullptr, *digit_sums_ = nullptr;
    uint16_t* digits_ = nullptr;
    const Kernels* kernels_ = nullptr;
};

}  // namespace outrider
