// The pass itself: every thread runs the same sequence of stages, each takes its share of a stage's pieces, and
// all meet between stages that need one another's results.
#include "pass.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "activations.hpp"
#include "steal.hpp"

namespace outrider {
namespace {

// One matrix of a linear stage: its outputs go to `column` … of a row.
struct Side {
    const Matrix* matrix;
    const Vector* bias;
    int column = 0;

    int pieces() const { return (matrix->panels() + 1) / 2; }  // two panels each
};

enum class Into { Store, Add };

struct Range {
    int begin, end;
};
Range range_of(int pieces, int thread, int threads) {
    return {int(int64_t(pieces) * thread / threads), int(int64_t(pieces) * (thread + 1) / threads)};
}

constexpr int kCacheFloats = 1 << 17;  // activations that stay near while a panel passes: 512 KB

class Pass {
public:
    Pass(const Model& model, const Kernels& kernels, const Plan& plan, const std::vector<Cache*>& caches,
         const Options& options, std::vector<Buffer>& space, Team& team, const std::atomic<State>& state,
         float* logits, float* hidden)
        : model_(model), s_(model.shape), kernels_(kernels), plan_(plan), caches_(caches), options_(options),
          team_(team), state_(state), logits_(logits), hidden_(hidden),
          q_width_(round_up(s_.heads * s_.dim, kLanes)), k_width_(round_up(s_.kv_heads * s_.dim, kLanes)),
          x_stride_(round_up(s_.hidden, kBlock)), qkv_stride_(q_width_ + 2 * k_width_ + kLanes),
          attended_stride_(round_up(s_.heads * s_.dim, kBlock)), inner_stride_(round_up(s_.inner, kBlock)), stage_(team.size()), pieces_(team.size()) {
        int slots = 0;
        for (const Cache* cache : caches) slots = std::max(slots, cache->length() + cache->pending());
        scratch_stride_ = std::max(kQueries * round_up(slots, kSlots), x_stride_);
        const size_t rows = plan.rows, widest = std::max({x_stride_, attended_stride_, inner_stride_});
        const size_t floats[] = {rows * x_stride_,     rows * qkv_stride_, rows * attended_stride_,
                                 rows * inner_stride_, size_t(team.size()) * scratch_stride_};
        space.resize(std::size(floats) + Activations::kBuffers);
        for (size_t i = 0; i < std::size(floats); ++i) grow(space[i], floats[i] * sizeof(float));
        x_ = space[0].as<float>(), qkv_ = space[1].as<float>(), attended_ = space[2].as<float>();
        inner_ = space[3].as<float>(), scratch_ = space[4].as<float>();
        const size_t most = std::max(rows, plan.wanted.size());  // a row may be wanted twice
        acts_ = Activations(&space[std::size(floats)], most, widest, kernels);
        for (int row = 0; row < plan.rows; ++row) all_.push_back(row);
    }

    void run(int thread) {
        embed(thread);
        for (size_t i = 0; i < options_.layers.size(); ++i) {
            if (thread == 0) stop_ = state_.load() == State::Cancelled;
            team_.meet();
            if (stop_) return;
            const int index = options_.layers[i];
            const Layer& l = model_.layers[index];
            attend_stages(thread, index, l);
            norm(thread, all_, plan_.tiles, l.mlp_norm, {l.gate.get(), l.up.get()});
            team_.meet();
            gated(thread, l);
            team_.meet();
            acts_.pack(thread, team_.size(), plan_.tiles, inner_, inner_stride_, {l.down.get()});
            team_.meet();
            linear(thread, {{l.down.get(), &l.down_bias}}, plan_.tiles, Into::Add, x_, x_stride_, s_.hidden);
            capture(thread, index);
        }
        team_.meet();
        if (plan_.wanted.empty()) return;
        const std::vector<int> tiles = cut_tiles(int(plan_.wanted.size()));
        norm(thread, plan_.wanted, tiles, model_.norm, {model_.head.get()});
        team_.meet();
        linear(thread, {{model_.head.get(), nullptr}}, tiles, Into::Store, logits_, s_.vocab, s_.vocab);
    }

    bool stopped() const { return stop_; }

private:
    static void grow(Buffer& buffer, size_t bytes) {
        if (buffer.bytes() < bytes) buffer = Buffer(bytes);
    }

    void embed(int thread) {
        const Range mine = range_of(plan_.rows, thread, team_.size());
        for (int row = mine.begin; row < mine.end; ++row) {
            float* x = x_ + size_t(row) * x_stride_;
            model_.embedding->read(plan_.tokens[row], x);
            std::fill(x + s_.hidden, x + x_stride_, 0.0f);
        }
    }

    void attend_stages(int thread, int index, const Layer& l) {
        norm(thread, all_, plan_.tiles, l.input_norm, {l.q.get(), l.k.get(), l.v.get()});
        team_.meet();
        linear(thread,
               {{l.q.get(), &l.q_bias, 0}, {l.k.get(), &l.k_bias, q_width_}, {l.v.get(), &l.v_bias, q_width_ + k_width_}},
               plan_.tiles, Into::Store, qkv_, qkv_stride_, qkv_stride_);
        team_.meet();
        place(thread, index, l);
        team_.meet();
        attend(thread, index, l);
        team_.meet();
        acts_.pack(thread, team_.size(), plan_.tiles, attended_, attended_stride_, {l.o.get()});
        team_.meet();
        linear(thread, {{l.o.get(), &l.o_bias}}, plan_.tiles, Into::Add, x_, x_stride_, s_.hidden);
        team_.meet();
    }

    // Norms rows of x and packs them for the matrices that come next.
    void norm(int thread, const std::vector<int>& rows, const std::vector<int>& tiles, const Vector& weight,
              std::initializer_list<const Matrix*> next) {
        float* y = scratch_ + size_t(thread) * scratch_stride_;
        std::fill(y + weight.size(), y + x_stride_, 0.0f);
        const Range mine = range_of(int(rows.size()), thread, team_.size());
        int tile = 0;
        for (int i = mine.begin; i < mine.end; ++i) {
            while (tiles[tile + 1] <= i) ++tile;
            norm_padded(x_ + size_t(rows[i]) * x_stride_, weight, y);
            acts_.pack_row(y, x_stride_, i, tiles[tile], tiles[tile + 1], next);
        }
    }

    void norm_padded(const float* x, const Vector& weight, float* y) {
        // The padding of x is zero and adds nothing to the squares; the mean is over the true width.
        kernels_.norm(x, weight.data(), s_.hidden, s_.eps, y);
    }

    // Rotates queries and keys, and stores keys and values in the cache.
    void place(int thread, int index, const Layer& l) {
        const int groups = s_.heads / s_.kv_heads, half = s_.dim / 2;
        const Range mine = range_of(plan_.rows * s_.kv_heads, thread, team_.size());
        for (int piece = mine.begin; piece < mine.end; ++piece) {
            const int row = piece / s_.kv_heads, head = piece % s_.kv_heads;
            const float* cos = model_.cos.data() + size_t(plan_.positions[row]) * half;
            const float* sin = model_.sin.data() + size_t(plan_.positions[row]) * half;
            float* base = qkv_ + size_t(row) * qkv_stride_;
            auto turn = [&](float* x, const Vector& weight) {
                if (!weight.empty()) kernels_.head_norm(x, weight.data(), s_.dim, s_.eps, x);
                kernels_.rotate(x, cos, sin, s_.dim);
            };
            for (int g = 0; g < groups; ++g) turn(base + (head * groups + g) * s_.dim, l.q_norm);
            float *key = base + q_width_ + head * s_.dim, *value = key + k_width_;
            turn(key, l.k_norm);
            Cache& cache = *caches_[plan_.sequences[row]];
            const int slot = cache.length() + row - plan_.first[plan_.sequences[row]];
            cache.store(index, head, slot, key, value);
        }
    }

    void attend(int thread, int index, const Layer& l) {
        const int groups = s_.heads / s_.kv_heads, count = int(plan_.groups.size());
        float* scratch = scratch_ + size_t(thread) * scratch_stride_;
        const float scale = 1.0f / std::sqrt(float(s_.dim));
        share(thread, count * s_.kv_heads, [&](int piece) {
            const int head = piece / count;
            const Group& group = plan_.groups[piece % count];
            Query queries[kQueries];
            for (int i = 0; i < group.count; ++i) {
                const int row = group.rows[i], offset = (head * groups + group.heads[i]) * s_.dim;
                const int end = plan_.positions[row] + 1, first = l.window ? std::max(0, end - l.window) : 0;
                const int32_t* path = plan_.paths[row].empty() ? nullptr : plan_.paths[row].data();
                queries[i] = {qkv_ + size_t(row) * qkv_stride_ + offset,
                              attended_ + size_t(row) * attended_stride_ + offset, first, end, path};
            }
            kernels_.attend(caches_[group.sequence]->keys(index, head), queries, group.count, s_.dim, scale, scratch);
        });
    }

    // Calls body(piece, tile, first row) for this thread's pieces of panels and for every tile. Many tiles are
    // taken in runs whose activations stay in the cache while a panel passes.
    template <class Body>
    void each(int thread, const std::vector<int>& tiles, int inputs, int pieces, Body body) {
        const int count = int(tiles.size()) - 1, longest = std::max(1, kCacheFloats / inputs);
        std::vector<int> runs{0};
        for (int t = 1; t <= count; ++t)
            if (t == count || tiles[t + 1] - tiles[runs.back()] > longest) runs.push_back(t);
        share(thread, pieces * (int(runs.size()) - 1), [&](int index) {
            const int run = index / pieces, piece = index % pieces;
            for (int t = runs[run]; t < runs[run + 1]; ++t)
                body(piece, acts_.tile(tiles[t], tiles[t + 1], inputs), tiles[t]);
        });
    }

    template <class Body> void share(int thread, int pieces, Body body) {
        pieces_.run(thread, stage_[thread].number, pieces, body);
    }

    void linear(int thread, const std::vector<Side>& sides, const std::vector<int>& tiles, Into into, float* out,
                int stride, int columns) {
        int pieces = 0;
        for (const Side& side : sides) pieces += side.pieces();
        each(thread, tiles, sides[0].matrix->padded_inputs(), pieces, [&](int piece, const Tile& tile, int row) {
            const Side* side = sides.data();
            for (; piece >= side->pieces(); ++side) piece -= side->pieces();
            const Matrix& m = *side->matrix;
            const int panel = 2 * piece, panels = std::min(2, m.panels() - panel);
            const Panels w{panels, {m.panel(panel), m.panel(panel + 1)}, {m.panel(panel + 2), m.panel(panel + 3)}};
            float results[2 * kMostRows * kLanes];
            kernels_.multiply(m.format, w, m.padded_inputs(), tile, results);
            for (int p = 0; p < panels; ++p)
                for (int r = 0; r < tile.rows; ++r) {
                    const int at = (panel + p) * kLanes, column = side->column + at;
                    put(results + (p * tile.rows + r) * kLanes, side->bias, at, out + size_t(row + r) * stride + column,
                        std::min(kLanes, columns - column), into);
                }
        });
    }

    static void put(const float* result, const Vector* bias, int at, float* out, int valid, Into into) {
        float sum[kLanes];
        for (int i = 0; i < kLanes; ++i) sum[i] = result[i];
        if (bias && !bias->empty())
            for (int i = 0; i < kLanes; ++i) sum[i] += (*bias)[at + i];
        if (into == Into::Add)
            for (int i = 0; i < valid; ++i) out[i] += sum[i];
        else
            for (int i = 0; i < valid; ++i) out[i] = sum[i];
    }

    // inner = silu(gate) · up; a panel of each at a time.
    void gated(int thread, const Layer& l) {
        const int inputs = l.gate->padded_inputs();
        each(thread, plan_.tiles, inputs, l.gate->panels(), [&](int panel, const Tile& tile, int row) {
            const uint8_t *gate = l.gate->panel(panel), *up = l.up->panel(panel);
            const uint8_t *next_gate = l.gate->panel(panel + 1), *next_up = l.up->panel(panel + 1);
            float results[2 * kMostRows * kLanes];
            if (l.gate->format == l.up->format) {
                kernels_.multiply(l.gate->format, {2, {gate, up}, {next_gate, next_up}}, inputs, tile, results);
            } else {
                float* second = results + tile.rows * kLanes;
                kernels_.multiply(l.gate->format, {1, {gate}, {next_gate}}, inputs, tile, results);
                kernels_.multiply(l.up->format, {1, {up}, {next_up}}, inputs, tile, second);
            }
            for (int r = 0; r < tile.rows; ++r) {
                float g[kLanes], u[kLanes];
                const int at = panel * kLanes;
                put(results + r * kLanes, &l.gate_bias, at, g, kLanes, Into::Store);
                put(results + (tile.rows + r) * kLanes, &l.up_bias, at, u, kLanes, Into::Store);
                kernels_.gate(g, u, inner_ + size_t(row + r) * inner_stride_ + at);
            }
        });
    }

    void capture(int thread, int index) {
        const auto& captured = options_.captured;
        const auto found = std::find(captured.begin(), captured.end(), index);
        if (found == captured.end()) return;
        team_.meet();
        float* out = hidden_ + (found - captured.begin()) * size_t(plan_.rows) * s_.hidden;
        const Range mine = range_of(plan_.rows, thread, team_.size());
        for (int row = mine.begin; row < mine.end; ++row)
            std::copy_n(x_ + size_t(row) * x_stride_, s_.hidden, out + size_t(row) * s_.hidden);
    }

    const Model& model_;
    const Shape& s_;
    const Kernels& kernels_;
    const Plan& plan_;
    const std::vector<Cache*>& caches_;
    const Options& options_;
    Team& team_;
    const std::atomic<State>& state_;
    float *logits_, *hidden_;
    const int q_width_, k_width_, x_stride_, qkv_stride_, attended_stride_, inner_stride_;
    int scratch_stride_;
    float *x_, *qkv_, *attended_, *inner_, *scratch_;
    Activations acts_;
    std::vector<int> all_;
    struct alignas(64) Stage {
        int number = 0;
    };
    std::vector<Stage> stage_;
    Pieces pieces_;
    bool stop_ = false;
};

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

void check_layers(const std::vector<int>& layers, int count, const char* what) {
    std::vector<bool> seen(count);
    for (int layer : layers) {
        if (layer < 0 || layer >= count || seen[layer])
            throw std::invalid_argument(std::string(what) + " " + std::to_string(layer) + " is there twice or not among " +
                                        std::to_string(count));
        seen[layer] = true;
    }
}

}  // namespace

Decoder::Decoder(Model model, const Kernels& kernels) : model_(std::move(model)), kernels_(kernels) {}

void Decoder::run(const Batch& batch, const std::vector<Cache*>& caches, const Options& options, int threads,
                  float* logits, float* hidden) {
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
    if (threads < 1 || threads > 1024) throw std::invalid_argument("threads must be from 1 to 1024");
    for (const Cache* cache : caches)
        if (!cache->fits(layers, s.kv_heads, s.dim)) throw std::invalid_argument("a cache is of another model");
    const Hold hold(caches);
    const Plan layout = plan(batch, caches, s.vocab, model_.positions, s.heads / s.kv_heads, kernels_);
    try {
        for (size_t i = 0; i < caches.size(); ++i) {
            std::vector<int> parents;
            for (int row = layout.first[i]; row < layout.rows && layout.sequences[row] == int(i); ++row)
                parents.push_back(layout.parents[row] < 0 ? -1 : layout.parents[row] - layout.first[i]);
            caches[i]->reserve(std::move(parents));
        }
        if (!team_ || !team_->alive() || team_->size() != threads) team_.reset(new Team(threads));
        Pass pass(model_, kernels_, layout, caches, options, space_, *team_, state_, logits, hidden);
        team_->run([&](int thread) { pass.run(thread); });
        if (pass.stopped()) throw Cancelled();
    } catch (...) {
        for (Cache* cache : caches) cache->drop();
        throw;
    }
}

}  // namespace outrider
