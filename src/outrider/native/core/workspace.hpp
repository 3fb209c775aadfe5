// What the stages of a pass share: the model, the batch, the team of threads, and room for what one stage hands
// to the next.
#pragma once
#include <vector>

#include "activations.hpp"
#include "batch.hpp"
#include "model.hpp"
#include "steal.hpp"
#include "team.hpp"

namespace outrider {

struct Range {
    int begin, end;
};
inline Range range_of(int pieces, int thread, int threads) {
    return {int(int64_t(pieces) * thread / threads), int(int64_t(pieces) * (thread + 1) / threads)};
}

class Workspace {
public:
    // `space` lends the memory, which grows and stays.
    Workspace(const Model& model, const Kernels& kernels, const Plan& plan, const std::vector<Cache*>& caches,
              std::vector<Buffer>& space, Team& team, int threads);

    const Model& model;
    const Shape& shape;
    const Kernels& kernels;
    const Plan& plan;
    const std::vector<Cache*>& caches;
    const int threads;
    const int q_width, k_width, x_stride, qkv_stride, attended_stride, inner_stride;
    // Of joined rows, and of features; 0 where the model has none.
    const int joined_stride, features_stride;
    float *x, *qkv, *attended, *inner;  // [rows][their stride]
    float* embedded;                    // [rows][x_stride], where a layer is joined: of the rows' tokens
    Activations acts;

    // A thread's own room within a stage: 32 floats for every input of the widest matrix.
    float* scratch(int thread) { return scratch_ + size_t(thread) * scratch_stride_; }

    void meet() { team_.meet(); }
    // Calls body(piece) for this thread's share of `pieces`; a stage of its own, see `Pieces`.
    template <class Body> void share(int thread, int pieces, Body body) {
        pieces_.run(thread, stage_[thread].number, pieces, body);
    }
    Range share_of(int pieces, int thread) const { return range_of(pieces, thread, threads); }

private:
    struct alignas(64) Stage {
        int number = 0;
    };
    Team& team_;
    float* scratch_;
    size_t scratch_stride_;
    std::vector<Stage> stage_;
    Pieces pieces_;
};

// Makes a buffer at least so large; what it held is lost when it grows.
inline void grow(Buffer& buffer, size_t bytes) {
    if (buffer.bytes() < bytes) buffer = Buffer(bytes);
}

}  // namespace outrider
