#include "pass.hpp"

#include <algorithm>
#include <string>

#include "linear.hpp"

namespace outrider {
namespace {

// Marks caches as being written for as long as a pass runs.
class Hold {
public:
    explicit Hold(const std::vector<Cache*>& caches) {
        for (Cache* cache : caches) {
            if (!cache->claim()) {
                release();
                throw std::invalid_argument("a cache is given twice, or is in use by another pass");
            }
            held_.push_back(cache);
        }
    }
    ~Hold() { release(); }

private:
    void release() {
        for (Cache* cache : held_) cache->release();
    }
    std::vector<Cache*> held_;
};

// From its first check on a pass can be cancelled.
class Running {
public:
    explicit Running(std::atomic<State>& state) : state_(state) { state_ = State::Running; }
    ~Running() { state_ = State::Idle; }

private:
    std::atomic<State>& state_;
};

// A model whose layers join embeddings with states must be given the states, or features to make them of.
void check_floats(const Model& model, const Floats& floats) {
    if (floats.inputs && floats.features) throw std::invalid_argument("a pass takes inputs or features, not both");
    if (floats.features && !model.fusion.matrix) throw std::invalid_argument("the model has no fusion: it takes no features");
    if (floats.features && floats.width != size_t(model.fusion.matrix->inputs))
        throw std::invalid_argument("features must be [rows, " + std::to_string(model.fusion.matrix->inputs) + "], not [rows, " +
                                    std::to_string(floats.width) + "]");
    if (model.joined() && !floats.inputs && !floats.features)
        throw std::invalid_argument("a model with a joined layer needs inputs or features");
}

// Rows of the largest tile, of the batch and of the rows that are wanted.
int widest(const Plan& plan) {
    const int most = std::max(plan.rows, int(plan.wanted.size()));
    return std::min(most, kMostRows);
}

void check_layers(const std::vector<int>& layers, int count, const char* what) {
    std::vector<bool> seen(count);
    for (int layer : layers) {
        if (layer < 0 || layer >= count || seen[layer])
            throw std::invalid_argument(std::string(what) + " " + std::to_string(layer) + " is there twice or not among " +
                                        std::to_string(count));
        seen[layer] = true;
    }
}

void check_threads(int threads) {
    if (threads < 1 || threads > 1024) throw std::invalid_argument("threads must be from 1 to 1024");
}

}  // namespace

Decoder::Decoder(Model model, const Kernels& kernels) : model_(std::move(model)), kernels_(kernels) {}

void Decoder::run(const Batch& batch, const std::vector<Cache*>& caches, const Options& options, int threads,
                  const Floats& floats) {
    std::lock_guard<std::mutex> lock(mutex_);
    const Running running(state_);
    model_.check_complete();
    const Shape& s = model_.shape;
    const int layers = int(model_.layers.size());
    check_layers(options.layers, layers, "layer");
    check_layers(options.captured, layers, "captured layer");
    for (int layer : options.captured)
        if (std::find(options.layers.begin(), options.layers.end(), layer) == options.layers.end())
            throw std::invalid_argument("captured layer " + std::to_string(layer) + " is not run");
    check_floats(model_, floats);
    check_threads(threads);
    for (const Cache* cache : caches)
        if (!cache->fits(layers, s.kv_heads, s.dim)) throw std::invalid_argument("a cache is of another model");
    const Hold hold(caches);
    const Plan layout = plan(batch, caches, s.vocab, model_.positions, kernels_);
    try {
        auto parent = layout.parents.begin();
        for (int i = 0, row = 0; i < int(caches.size()); ++i) {
            const auto first = parent;
            for (; row < layout.rows && layout.sequences[row] == i; ++row) ++parent;
            caches[i]->reserve({first, parent}, batch.grows);
        }
        gather_team(threads);
        Workspace workspace(model_, kernels_, layout, caches, space_, *team_, threads_);
        Stages stages(workspace, attention_space_, options, state_, floats);
        const int rows = widest(layout);
        team_->run(threads_, [&](int thread) {
            kernels_.begin(rows);
            stages.run(thread);
            kernels_.end();
        });
        if (stages.stopped()) throw Cancelled();
    } catch (...) {
        for (Cache* cache : caches) cache->drop();
        throw;
    }
}

void Decoder::head(const float* hidden, int rows, int threads, float* logits) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!model_.head) throw std::invalid_argument("the model lacks its top");
    check_threads(threads);
    if (rows == 0) return;
    gather_team(threads);
    Plan layout;
    layout.rows = rows;
    const std::vector<Cache*> none;
    const std::vector<int> tiles = cut_tiles(rows, kernels_.group_rows);
    const int width = model_.shape.hidden, outputs = model_.shape.outputs;
    Workspace w(model_, kernels_, layout, none, space_, *team_, threads_);
    team_->run(threads_, [&](int thread) {
        kernels_.begin(widest(layout));
        const Range mine = w.share_of(rows, thread);
        for (int row = mine.begin; row < mine.end; ++row) {
            float* x = w.x + size_t(row) * w.x_stride;
            std::copy_n(hidden + size_t(row) * width, width, x);
            std::fill(x + width, x + w.x_stride, 0.0f);
        }
        w.meet();
        w.acts.pack(thread, w.threads, tiles, w.x, w.x_stride, {model_.head.get()});
        w.meet();
        linear(w, thread, {{model_.head.get(), nullptr}}, {tiles}, Into::Store, logits, outputs, outputs);
        kernels_.end();
    });
}

void Decoder::gather_team(int threads) {
    if (!team_ || !team_->alive() || team_->size() != threads) team_ = shared_team(threads);
    threads_ = team_->advised();
}

}  // namespace outrider
