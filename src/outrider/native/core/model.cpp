#include "model.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace outrider {
namespace {

void check(const Weights& weights, const char* name, int outputs, int inputs) {
    if (!weights) throw std::invalid_argument(std::string(name) + " is missing");
    if (weights->outputs != outputs || weights->inputs != inputs)
        throw std::invalid_argument(std::string(name) + " is " + std::to_string(weights->outputs) + " x " +
                                    std::to_string(weights->inputs) + ", the model calls for " +
                                    std::to_string(outputs) + " x " + std::to_string(inputs));
}

void check(Vector& vector, const char* name, int size, bool needed) {
    if (vector.empty() && !needed) return;
    if (int(vector.size()) != size)
        throw std::invalid_argument(std::string(name) + " has " + std::to_string(vector.size()) +
                                    " values, the model calls for " + std::to_string(size));
    vector.resize(round_up(size, kLanes));
}

}  // namespace

Model::Model(const Shape& s) : shape(s) {
    if (s.vocab < 1 || s.hidden < 1 || s.inner < 1 || s.heads < 1 || s.kv_heads < 1 || s.dim < 2 ||
        s.outputs < 1)
        throw std::invalid_argument("every size of a model must be positive");
    constexpr int64_t kMost = 1 << 26;  // of each, and of the widths they make: sums of a few of them fit an int
    for (int64_t size : {int64_t(s.vocab), int64_t(s.outputs), int64_t(s.hidden), int64_t(s.inner), int64_t(s.heads) * s.dim})
        if (size > kMost) throw std::invalid_argument("a size of the model is over 67108864");
    if (s.heads % s.kv_heads) throw std::invalid_argument("heads must be a multiple of kv_heads");
    if (s.dim % 2) throw std::invalid_argument("a head's size must be even");
}

void Model::add_layer(Layer layer) {
    const int queries = shape.heads * shape.dim, keys = shape.kv_heads * shape.dim;
    const int inputs = layer.joined() ? 2 * shape.hidden : shape.hidden;
    check(layer.q, "q", queries, inputs);
    check(layer.k, "k", keys, inputs);
    check(layer.v, "v", keys, inputs);
    check(layer.o, "o", shape.hidden, queries);
    check(layer.gate, "gate", shape.inner, shape.hidden);
    check(layer.up, "up", shape.inner, shape.hidden);
    check(layer.down, "down", shape.hidden, shape.inner);
    check(layer.input_norm, "input_norm", shape.hidden, true);
    check(layer.hidden_norm, "hidden_norm", shape.hidden, false);
    check(layer.mlp_norm, "mlp_norm", shape.hidden, true);
    check(layer.q_norm, "q_norm", shape.dim, false);
    check(layer.k_norm, "k_norm", shape.dim, false);
    check(layer.q_bias, "q_bias", queries, false);
    check(layer.k_bias, "k_bias", keys, false);
    check(layer.v_bias, "v_bias", keys, false);
    check(layer.o_bias, "o_bias", shape.hidden, false);
    check(layer.gate_bias, "gate_bias", shape.inner, false);
    check(layer.up_bias, "up_bias", shape.inner, false);
    check(layer.down_bias, "down_bias", shape.hidden, false);
    if (layer.normed_residual && !layer.joined())
        throw std::invalid_argument("a normed residual is for a layer with a hidden_norm");
    if (layer.window < 0) throw std::invalid_argument("a window cannot be negative");
    layers.push_back(std::move(layer));
}

void Model::set_top(Weights embedding_, Vector norm_, Weights head_) {
    check(embedding_, "embedding", shape.vocab, shape.hidden);
    check(head_, "head", shape.outputs, shape.hidden);
    check(norm_, "norm", shape.hidden, true);
    embedding = std::move(embedding_), norm = std::move(norm_), head = std::move(head_);
}

void Model::set_fusion(Fusion f) {
    check(f.matrix, "fusion", shape.hidden, f.matrix ? f.matrix->inputs : 0);
    check(f.bias, "fusion bias", shape.hidden, false);
    check(f.norm, "fusion norm", f.matrix->inputs, false);
    if (f.parts < 1 || f.matrix->inputs % f.parts)
        throw std::invalid_argument("features of " + std::to_string(f.matrix->inputs) + " values cannot be normed in " +
                                    std::to_string(f.parts) + " parts of one width");
    fusion = std::move(f);
}

bool Model::joined() const {
    return std::any_of(layers.begin(), layers.end(), [](const Layer& layer) { return layer.joined(); });
}

void Model::set_rotation(const float* cosines, const float* sines, int count) {
    const size_t size = size_t(count) * (shape.dim / 2);
    cos.assign(cosines, cosines + size);
    sin.assign(sines, sines + size);
    positions = count;
}

void Model::check_complete() const {
    if (layers.empty() || !head || positions == 0)
        throw std::invalid_argument("the model lacks layers, its top or its rotation");
}

}  // namespace outrider
