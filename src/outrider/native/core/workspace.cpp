#include "workspace.hpp"

#include <algorithm>

namespace outrider {

Workspace::Workspace(const Model& model, const Kernels& kernels, const Plan& plan, const std::vector<Cache*>& caches,
                     std::vector<Buffer>& space, Team& team, int threads)
    : model(model), shape(model.shape), kernels(kernels), plan(plan), caches(caches), threads(threads),
      q_width(round_up(shape.heads * shape.dim, kLanes)), k_width(round_up(shape.kv_heads * shape.dim, kLanes)),
      x_stride(round_up(shape.hidden, kBlock)), qkv_stride(q_width + 2 * k_width + kLanes),
      attended_stride(round_up(shape.heads * shape.dim, kBlock)), inner_stride(round_up(shape.inner, kBlock)),
      joined_stride(model.joined() ? round_up(2 * shape.hidden, kBlock) : 0),
      features_stride(model.fusion.matrix ? model.fusion.matrix->padded_inputs() : 0),
      team_(team), stage_(threads), pieces_(threads) {
    const size_t rows = plan.rows;
    const size_t widest = std::max({x_stride, attended_stride, inner_stride, joined_stride, features_stride});
    scratch_stride_ = 2 * widest * kLanes;  // two panels in fp32; a tile of rows is less
    const size_t floats[] = {rows * x_stride, rows * qkv_stride, rows * attended_stride, rows * inner_stride,
                             threads * scratch_stride_, joined_stride ? rows * x_stride : 0};
    space.resize(std::size(floats) + Activations::kBuffers);
    for (size_t i = 0; i < std::size(floats); ++i) grow(space[i], floats[i] * sizeof(float));
    x = space[0].as<float>(), qkv = space[1].as<float>(), attended = space[2].as<float>();
    inner = space[3].as<float>(), scratch_ = space[4].as<float>();
    embedded = space[5].as<float>();
    const size_t most = std::max(rows, plan.wanted.size());  // a row may be wanted twice
    acts = Activations(&space[std::size(floats)], most, widest, kernels);
}

}  // namespace outrider
