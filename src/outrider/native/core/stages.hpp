// The order of a pass: every thread runs the same sequence of stages, each takes its share of a stage's pieces,
// and all meet between stages that need one another's results.
#pragma once
#include <atomic>
#include <initializer_list>
#include <optional>
#include <vector>

#include "attention.hpp"
#include "workspace.hpp"

namespace outrider {

struct Options {
    std::vector<int> layers;    // indices of the layers to run, in order
    std::vector<int> captured;  // after which of them the hidden states are wanted
    bool normed = false;        // whether the states of the rows that are wanted are those after the final norm
};

// The numbers that a pass is given and gives beside those of its batch; null for what is not.
struct Floats {
    const float* inputs;    // [rows][hidden]: states to begin with, instead of the tokens' embeddings
    const float* features;  // [rows][width]: of another model, fused to such states
    size_t width;
    float* logits;          // [wanted][outputs]
    float* hidden;          // [captured][rows][hidden]
    float* states;          // [wanted][hidden], after the last layer
};

enum class State { Idle, Running, Cancelled };

class Stages {
public:
    // `space` lends the memory of attention.
    Stages(Workspace& workspace, AttentionSpace& space, const Options& options, const std::atomic<State>& state,
           const Floats& floats);

    // Every thread of the team calls this.
    void run(int thread);
    // True where the pass was cancelled.
    bool stopped() const { return stop_; }

private:
    // Some rows and the tiles in which they are packed.
    struct Rows {
        std::vector<int> rows, tiles;
    };

    void embed(int thread);
    void fuse(int thread);
    void keys(int thread, int index, const Layer& layer);
    void attend(int thread, int index, const Layer& layer, Attention& attention, const std::vector<int>& tiles);
    void mlp(int thread, const Layer& layer, const std::vector<int>& tiles);
    void head(int thread);
    void states(int thread);
    void gather(int thread);
    void join(int thread, const Layer& layer);
    void norm_residual(int thread, const Layer& layer);
    void norm(int thread, const std::vector<int>& rows, const std::vector<int>& tiles, const Vector& weight,
              std::initializer_list<const Matrix*> next);
    template <class Fill>
    void pack(int thread, const std::vector<int>& tiles, int stride, std::initializer_list<const Matrix*> next, Fill fill);
    void capture(int thread, int index);

    Workspace& w_;
    const Options& options_;
    const std::atomic<State>& state_;
    const Floats& floats_;
    Rows all_;
    // After the last layer's keys and values only these go on: the rows that are wanted, or all of them where
    // fewer would not do. x holds them one after another from then on.
    bool fewer_ = false;
    Rows last_, wanted_;  // of the batch; and of x, as they were asked for
    Attention attention_;
    std::optional<Attention> last_attention_;
    bool stop_ = false;
};

}  // namespace outrider
