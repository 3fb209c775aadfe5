// A decoder's shape and weights.
#pragma once
#include <memory>
#include <vector>

#include "matrix.hpp"

namespace outrider {

using Weights = std::shared_ptr<const Matrix>;
using Vector = std::vector<float>;  // padded to 16 with zeros; empty where the model has none

struct Shape {
    int vocab, hidden, inner, heads, kv_heads, dim;
    float eps;
    int outputs;  // of the head: the vocabulary, or as many tokens of it as a draft head names
};

struct Layer {
    Weights q, k, v, o, gate, up, down;
    Vector input_norm, mlp_norm, q_norm, k_norm;
    Vector q_bias, k_bias, v_bias, o_bias, gate_bias, up_bias, down_bias;
    int window = 0;  // positions a row sees, itself included; 0 for all
    // A joined layer has this norm: its q, k and v take the normed embedding of the row's token and, after it, the
    // row's normed state.
    Vector hidden_norm;
    bool normed_residual = false;  // a joined layer adds to the normed state

    bool joined() const { return !hidden_norm.empty(); }
};

// How features of another model become states: matrix · features + bias. Where there is a norm, the features are
// normed first, in so many parts of one width.
struct Fusion {
    Weights matrix;
    Vector bias, norm;
    int parts = 1;
};

struct Model {
    Shape shape;
    std::vector<Layer> layers;
    Weights embedding, head;
    Vector norm;
    Fusion fusion;  // without a matrix, the model takes no features
    // Cosine and sine of each position, [positions][dim / 2].
    std::vector<float> cos, sin;
    int positions = 0;

    explicit Model(const Shape& shape);
    // std::invalid_argument where a part does not have the shape the model calls for.
    void add_layer(Layer layer);
    void set_top(Weights embedding, Vector norm, Weights head);
    void set_fusion(Fusion fusion);
    void set_rotation(const float* cos, const float* sin, int positions);
    // std::invalid_argument unless everything is in place.
    void check_complete() const;
    // Whether any layer is joined: a pass then begins with states that it is given, or with features.
    bool joined() const;
};

}  // namespace outrider
