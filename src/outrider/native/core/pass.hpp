// One pass of a decoder over a ragged batch.
#pragma once
#include <atomic>
#include <mutex>
#include <stdexcept>

#include "stages.hpp"

namespace outrider {

struct Cancelled : std::runtime_error {
    Cancelled() : std::runtime_error("the pass was cancelled") {}
};

class Decoder {
public:
    Decoder(Model model, const Kernels& kernels);

    const Model& model() const { return model_; }
    // Calls change(model) while no pass runs.
    template <class Change> void change(Change change) {
        std::lock_guard<std::mutex> lock(mutex_);
        change(model_);
    }
    const Kernels& kernels() const { return kernels_; }

    // Reads and writes `floats`. The rows become pending in the caches. std::invalid_argument for what does not fit,
    // and the caches are as they were; where a pass that has begun fails or is cancelled, nothing is pending in them.
    void run(const Batch& batch, const std::vector<Cache*>& caches, const Options& options, int threads,
             const Floats& floats);
    // Writes logits [rows][outputs] of hidden states [rows][hidden] after the final norm: the head alone.
    // std::invalid_argument where there is none yet.
    void head(const float* hidden, int rows, int threads, float* logits);
    // How many threads the last pass ran on: fewer than it was given where they only waited for each other.
    int threads() const { return threads_; }
    // Stops a pass that is running, at its next layer; without one, does nothing.
    void cancel() {
        State running = State::Running;
        state_.compare_exchange_strong(running, State::Cancelled);
    }

private:
    // Has a team of so many threads, or of fewer where that is advised.
    void gather_team(int threads);

    Model model_;
    const Kernels& kernels_;
    std::mutex mutex_;
    std::shared_ptr<Team> team_;
    std::atomic<int> threads_{0};
    std::vector<Buffer> space_;
    AttentionSpace attention_space_;
    std::atomic<State> state_{State::Idle};
};

}  // namespace outrider
