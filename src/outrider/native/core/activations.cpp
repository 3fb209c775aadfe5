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

void Activations::pack_block(const float* x, int block, int inputs, int row, int first, int end, bool floats,
                             bool blocks) {
    const int tile = end - first, groups = groups_of(tile, kernels_->group_rows);
    const int group = ((row - first + 1) * groups - 1) / tile, start = first + tile * group / groups;
    const int rows = first + tile * (group + 1) / groups - start, lane = row - start;
    const size_t at = size_t(start) * inputs;
    if (floats) {
        float* out = values_ + at + size_t(block) * kBlock * rows + lane;
        for (int k = 0; k < kBlock; ++k) out[k * rows] = x[block * kBlock + k];
    }
    if (blocks) {
        const size_t scale = at / kBlock + size_t(block) * rows + lane;
        kernels_->quantise(x + block * kBlock, rows, pairs_ + at / 2 + size_t(block) * 16 * rows + lane,
                           scales_ + scale, sums_ + scale);
    }
}

void Activations::pack_tile(const float* x, int stride, int first, int end, int from, int to,
                            std::initializer_list<const Matrix*> next) {
    const int rows = end - first;
    const bool floats = any(next, false), blocks = any(next, true), one_group = rows <= kernels_->group_rows;
    if (floats && one_group) interleave(x + from, stride, rows, to - from, values_ + size_t(first) * stride + size_t(from) * rows);
    if (blocks || !one_group)
        for (int row = first; row < end; ++row)
            for (int block = from / kBlock; block < to / kBlock; ++block)
                pack_block(x + size_t(row - first) * stride, block, stride, row, first, end, floats && !one_group, blocks);
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
