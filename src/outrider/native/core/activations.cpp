#include "activations.hpp"

#include <algorithm>

#include "interleave.hpp"

namespace outrider {
namespace {

template <class Test> bool any(std::initializer_list<const Matrix*> matrices, Test test) {
    return std::any_of(matrices.begin(), matrices.end(), [&](const Matrix* matrix) { return test(matrix->format); });
}

}  // namespace

std::vector<int> cut_tiles(int rows, int group_rows) {
    const int most = rows <= 2 * kMostRows ? kMostRows : group_rows;
    const int count = (rows + most - 1) / most;
    std::vector<int> starts;
    for (int t = 0; t <= count; ++t) starts.push_back(count ? int(int64_t(rows) * t / count) : 0);
    return starts;
}

void pack_columns(const float* x, int rows, int count, int group_rows, float* tile, int inputs, int column) {
    const int groups = groups_of(rows, group_rows);
    for (int g = 0; g < groups; ++g) {
        const int begin = rows * g / groups, size = rows * (g + 1) / groups - begin;
        interleave(x + begin * count, count, size, count, tile + size_t(begin) * inputs + size_t(column) * size);
    }
}

Activations::Activations(Buffer* buffers, size_t rows, size_t width, const Kernels& kernels) : kernels_(&kernels) {
    const size_t scales = rows * width / kBlock * 4;
    // Digits are read in whole tiles of 16 rows.
    const size_t digits = kernels.split ? rows * width * 4 + kMostRows * kBlock * 2 : 0;
    const size_t bytes[] = {rows * width * 4, scales * kernels.block_words, scales, scales, digits, digits ? scales : 0};
    for (int i = 0; i < kBuffers; ++i)
        if (buffers[i].bytes() < bytes[i]) buffers[i] = Buffer(bytes[i]);
    values_ = buffers[0].as<float>(), words_ = buffers[1].as<int32_t>();
    scales_ = buffers[2].as<float>(), sums_ = buffers[3].as<float>();
    digits_ = buffers[4].as<uint16_t>(), digit_sums_ = buffers[5].as<float>();
}

Tile Activations::tile(int first, int end, int inputs) const {
    const size_t at = size_t(first) * inputs;
    const size_t block = at / kBlock;
    return {end - first,   values_ + at,     words_ + block * kernels_->block_words, scales_ + block,
            sums_ + block, digits_ + 2 * at, digit_sums_ + block};
}

void Activations::pack_group(const float* x, int stride, int first, int end, int from, int to, bool floats, bool blocks) {
    const int rows = end - first;
    const size_t at = size_t(first) * stride + size_t(from) * rows;
    if (floats) interleave(x + from, stride, rows, to - from, values_ + at);
    for (int row = 0; blocks && row < rows; ++row)
        for (int k = from; k < to; k += kBlock) {
            const size_t block = at / kBlock + size_t(k - from) / kBlock * rows, scale = block + row;
            kernels_->quantise(x + size_t(row) * stride + k, rows, words_ + block * kernels_->block_words + row,
                               scales_ + scale, sums_ + scale);
        }
}

void Activations::pack_digits(const float* x, int stride, int first, int end, int from, int to) {
    const int rows = end - first;
    for (int k = from; k < to; k += kBlock) {
        const size_t at = size_t(first) * stride + size_t(k) * rows;
        uint16_t* high = digits_ + 2 * at;
        for (int row = 0; row < rows; ++row, high += kBlock)
            kernels_->split(x + size_t(row) * stride + k, high, high + rows * kBlock, digit_sums_ + at / kBlock + row);
    }
}

void Activations::pack_tile(const float* x, int stride, int first, int end, int from, int to,
                            std::initializer_list<const Matrix*> next) {
    const int rows = end - first, groups = groups_of(rows, kernels_->group_rows);
    const auto in_digits = [&](Format format) { return kernels_->takes_digits(format, rows); };
    const bool floats = any(next, [](Format format) { return format < Format::I8; });
    const bool blocks = any(next, [&](Format format) { return format >= Format::I8 && !in_digits(format); });
    if (any(next, in_digits)) pack_digits(x, stride, first, end, from, to);
    for (int g = 0; g < groups; ++g) {
        const int begin = rows * g / groups, stop = rows * (g + 1) / groups;
        pack_group(x + size_t(begin) * stride, stride, first + begin, first + stop, from, to, floats, blocks);
    }
}

void Activations::pack(int thread, int threads, const std::vector<int>& tiles, const float* x, int stride,
                       std::initializer_list<const Matrix*> next) {
    const int per_tile = stride / kBlock;
    const int64_t pieces = int64_t(tiles.size() - 1) * per_tile;
    for (int64_t piece = pieces * thread / threads, end = pieces * (thread + 1) / threads; piece < end;) {
        const int t = int(piece / per_tile), from = int(piece % per_tile);
        const int to = int(std::min<int64_t>(per_tile, from + end - piece));
        pack_tile(x + size_t(tiles[t]) * stride, stride, tiles[t], tiles[t + 1], from * kBlock, to * kBlock, next);
        piece += to - from;
    }
}

}  // namespace outrider
