// The order of a pass: every thread runs the same sequence of stages, each takes its share of a stage's pieces,
// and all meet between stages that need one another's results.
#pragma once
#include <atomic>
#include <initializer_list>
#include <vector>

#include "attention.hpp"
#include "workspace.hpp"

namespace outrider {

struct Options {
    std::vector<int> layers;    // indices of the layers to run, in order
    std::vector<int> captured;  // after which of them the hidden states are wanted
};

enum class State { Idle, Running, Cancelled };

class Stages {
public:
    // Writes logits [wanted][vocab] and hidden states [captured][rows][hidden].
    Stages(Workspace& workspace, std::vector<Buffer>& space, const Options& options, const std::atomic<State>& state,
           float* logits, float* hidden);

    // Every thread of the team calls this.
    void run(int thread);
    // True where the pass was cancelled.
    bool stopped() const { return stop_; }

private:
    void embed(int thread);
    void attend(int thread, int index, const Layer& layer);
    void mlp(int thread, const Layer& layer);
    void norm(int thread, const std::vector<int>& rows, const std::vector<int>& tiles, const Vector& weight,
              std::initializer_list<const Matrix*> next);
    void capture(int thread, int index);

    Workspace& w_;
    Attention attention_;
    const Options& options_;
    const std::atomic<State>& state_;
    float *logits_, *hidden_;
    std::vector<int> all_;
    bool stop_ = false;
};

}  // namespace outrider
