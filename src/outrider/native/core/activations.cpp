#include "activations.hpp"

#include <algorithm>

#include "interleave.hpp"

namespace outrider {
namespace {

bool any(std::initializer_list<const Matrix*> matrices, bool quantised) {
    return std::any_of(matrices.begin(), matrices.end(),
                       [=](const Matrix* matrix) { return (matrix->format >= Format::I8) == quantised; });
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
    const size_t bytes[] = {rows * width * 4, rows * width * 2, rows * width / kBlock * 4, rows * width / kBlock * 4};
    for (int i = 0; i < kBuffers; ++i)
        if (buffers[i].bytes() < bytes[i]) buffers[i] = Buffer(bytes[i]);
    values_ = buffers[0].as<float>(), pairs_ = buffers[1].as<int32_t>();
    scales_ = buffers[2].as<float>(), sums_ = buffers[3].as<float>();
}

Tile Activations::tile(int first, int end, int inputs) const {
    const size_t at = size_t(first) * inputs;
    return {end - first, values_ + at, pairs_ + at / 2, scales_ + at / kBlock, sums_ + at / kBlock};
}

void Activations::pack_group(const float* x, int stride, int first, int end, int from, int to, bool floats, bool blocks) {
    const int rows = end - first;
    const size_t at = size_t(first) * stride + size_t(from) * rows;
    if (floats) interleave(x + from, stride, rows, to - from, values_ + at);
    for (int row = 0; blocks && row < rows; ++row)
        for (int k = from; k < to; k += kBlock) {
            const size_t block = at + size_t(k - from) * rows, scale = block / kBlock + row;
            kernels_->quantise(x + size_t(row) * stride + k, rows, pairs_ + block / 2 + row, scales_ + scale, sums_ + scale);
        }
}

void Activations::pack_tile(const float* x, int stride, int first, int end, int from, int to,
                            std::initializer_list<const Matrix*> next) {
    const bool floats = any(next, false), blocks = any(next, true);
    const int rows = end - first, groups = groups_of(rows, kernels_->group_rows);
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
