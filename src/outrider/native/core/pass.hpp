// One pass of a decoder over a ragged batch.
#pragma once
#include <atomic>
#include <mutex>
#include <stdexcept>

#include "batch.hpp"
#include "model.hpp"
#include "team.hpp"

namespace outrider {

struct Cancelled : std::runtime_error {
    Cancelled() : std::runtime_error("the pass was cancelled") {}
};

struct Options {
    std::vector<int> layers;    // indices of the layers to run, in order
    std::vector<int> captured;  // after which of them the hidden states are wanted
};

class Decoder {
public:
    Decoder(Model model, const Kernels& kernels);

    const Model& model() const { return model_; }
    Model& model() { return model_; }
    const Kernels& kernels() const { return kernels_; }

    // Writes logits [wanted][vocab] and hidden states [captured][rows][hidden]. The rows become pending in the
    // caches; after an error or a cancelled pass nothing is pending.
    void run(const Batch& batch, const std::vector<Cache*>& caches, const Options& options, int threads,
             float* logits, float* hidden);
    // Stops a pass that is running, at its next layer.
    void cancel() { cancelled_ = true; }

private:
    Model model_;
    const Kernels& kernels_;
    std::mutex mutex_;
    std::unique_ptr<Team> team_;
    std::vector<Buffer> space_;
    std::atomic<bool> cancelled_{false};
};

}  // namespace outrider
