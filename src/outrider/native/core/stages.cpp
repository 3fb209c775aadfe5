#include "stages.hpp"

#include <algorithm>
#include <numeric>

#include "linear.hpp"

namespace outrider {

namespace {

std::vector<int> first_numbers(int count) {
    std::vector<int> numbers(count);
    std::iota(numbers.begin(), numbers.end(), 0);
    return numbers;
}

}  // namespace

Stages::Stages(Workspace& workspace, AttentionSpace& space, const Options& options, const std::atomic<State>& state,
               const Floats& floats)
    : w_(workspace), options_(options), state_(state), floats_(floats),
      all_{first_numbers(workspace.plan.rows), workspace.plan.tiles}, attention_(workspace, all_.rows, space.all) {
    const Plan& plan = w_.plan;
    const auto& captured = options.captured;
    std::vector<bool> asked(plan.rows);
    for (int row : plan.wanted) asked[row] = true;
    const bool whole = options.layers.empty() || std::count(captured.begin(), captured.end(), options.layers.back());
    fewer_ = !whole && std::find(asked.begin(), asked.end(), false) != asked.end();
    std::vector<int> place(plan.rows);  // in x, of a row that is wanted
    for (int row = 0; row < plan.rows; ++row)
        if (!fewer_ || asked[row]) place[row] = int(last_.rows.size()), last_.rows.push_back(row);
    last_.tiles = cut_tiles(int(last_.rows.size()), w_.kernels.group_rows);
    for (int row : plan.wanted) wanted_.rows.push_back(place[row]);
    wanted_.tiles = cut_tiles(int(wanted_.rows.size()), w_.kernels.group_rows);
    if (fewer_) last_attention_.emplace(workspace, last_.rows, space.last);
}

void Stages::run(int thread) {
    embed(thread);
    if (floats_.features) fuse(thread);
    for (int index : options_.layers) {
        const Layer& layer = w_.model.layers[index];
        if (thread == 0) stop_ = state_.load() == State::Cancelled;
        w_.meet();
        if (stop_) return;
        keys(thread, index, layer);
        const bool fewer = fewer_ && index == options_.layers.back();
        if (fewer) gather(thread);
        w_.meet();
        const Rows& rows = fewer ? last_ : all_;
        if (rows.rows.empty()) return;
        attend(thread, index, layer, fewer ? *last_attention_ : attention_, rows.tiles);
        mlp(thread, layer, rows.tiles);
        capture(thread, index);
    }
    w_.meet();
    if (!wanted_.rows.empty()) head(thread);
}

// What the rows begin with, but for features, and the embeddings that joined layers take.
void Stages::embed(int thread) {
    const Range mine = w_.share_of(w_.plan.rows, thread);
    const int width = w_.shape.hidden, stride = w_.x_stride;
    for (int row = mine.begin; row < mine.end; ++row) {
        float* x = w_.x + size_t(row) * stride;
        std::fill(x + width, x + stride, 0.0f);
        if (floats_.inputs) std::copy_n(floats_.inputs + size_t(row) * width, width, x);
        else if (!floats_.features) w_.model.embedding->read(w_.plan.tokens[row], x);
        if (!w_.joined_stride) continue;
        float* embedded = w_.embedded + size_t(row) * stride;
        std::fill(embedded + width, embedded + stride, 0.0f);
        w_.model.embedding->read(w_.plan.tokens[row], embedded);
    }
}

void Stages::fuse(int thread) {
    const Fusion& fusion = w_.model.fusion;
    const int width = fusion.matrix->inputs, part = width / fusion.parts;
    pack(thread, all_.tiles, w_.features_stride, {fusion.matrix.get()}, [&](int row, float* out) {
        const float* features = floats_.features + size_t(row) * width;
        std::fill(out + width, out + w_.features_stride, 0.0f);
        if (fusion.norm.empty()) std::copy_n(features, width, out);
        else
            for (int at = 0; at < width; at += part)
                w_.kernels.head_norm(features + at, fusion.norm.data() + at, part, w_.shape.eps, out + at);
    });
    w_.meet();
    linear(w_, thread, {{fusion.matrix.get(), &fusion.bias}}, {all_.tiles}, Into::Store, w_.x, w_.x_stride, w_.shape.hidden);
}

// Queries, keys and values of all rows; keys and values go to the caches.
void Stages::keys(int thread, int index, const Layer& l) {
    if (l.joined()) join(thread, l);
    else norm(thread, all_.rows, all_.tiles, l.input_norm, {l.q.get(), l.k.get(), l.v.get()});
    w_.meet();
    if (l.normed_residual) norm_residual(thread, l);
    const Side sides[] = {{l.q.get(), &l.q_bias, 0},
                          {l.k.get(), &l.k_bias, w_.q_width},
                          {l.v.get(), &l.v_bias, w_.q_width + w_.k_width}};
    linear(w_, thread, {std::begin(sides), std::end(sides)}, {all_.tiles}, Into::Store, w_.qkv, w_.qkv_stride, w_.qkv_stride);
    w_.meet();
    attention_.place(thread, index, l);
}

// Moves the rows of x that go on to its beginning; each thread moves a stretch of all of them.
void Stages::gather(int thread) {
    const Range mine = w_.share_of(w_.x_stride / kLanes, thread);
    for (int i = 0; i < int(last_.rows.size()); ++i)
        if (last_.rows[i] != i)
            std::copy(w_.x + size_t(last_.rows[i]) * w_.x_stride + mine.begin * kLanes,
                      w_.x + size_t(last_.rows[i]) * w_.x_stride + mine.end * kLanes,
                      w_.x + size_t(i) * w_.x_stride + mine.begin * kLanes);
}

void Stages::attend(int thread, int index, const Layer& l, Attention& attention, const std::vector<int>& tiles) {
    attention.attend(thread, index, l);
    w_.meet();
    w_.acts.pack(thread, w_.threads, tiles, w_.attended, w_.attended_stride, {l.o.get()});
    w_.meet();
    linear(w_, thread, {{l.o.get(), &l.o_bias}}, {tiles}, Into::Add, w_.x, w_.x_stride, w_.shape.hidden);
    w_.meet();
}

void Stages::mlp(int thread, const Layer& l, const std::vector<int>& tiles) {
    norm(thread, all_.rows, tiles, l.mlp_norm, {l.gate.get(), l.up.get()});
    w_.meet();
    gated(w_, thread, l, tiles);
    w_.meet();
    if (l.down->quantised()) {
        w_.acts.pack(thread, w_.threads, tiles, w_.inner, w_.inner_stride, {l.down.get()});
        w_.meet();
    }
    linear(w_, thread, {{l.down.get(), &l.down_bias}}, {tiles, l.down->quantised() ? nullptr : w_.inner}, Into::Add,
           w_.x, w_.x_stride, w_.shape.hidden);
}

// Logits of the rows that are wanted.
void Stages::head(int thread) {
    if (floats_.states) states(thread);
    norm(thread, wanted_.rows, wanted_.tiles, w_.model.norm, {w_.model.head.get()});
    w_.meet();
    const int outputs = w_.shape.outputs;
    linear(w_, thread, {{w_.model.head.get(), nullptr}}, {wanted_.tiles}, Into::Store, floats_.logits, outputs, outputs);
}

void Stages::states(int thread) {
    const int width = w_.shape.hidden;
    const Range mine = w_.share_of(int(wanted_.rows.size()), thread);
    for (int i = mine.begin; i < mine.end; ++i) {
        const float* x = w_.x + size_t(wanted_.rows[i]) * w_.x_stride;
        if (options_.normed) {
            w_.kernels.norm(x, w_.model.norm.data(), width, w_.shape.eps, w_.scratch(thread));
            x = w_.scratch(thread);
        }
        std::copy_n(x, width, floats_.states + size_t(i) * width);
    }
}

void Stages::norm(int thread, const std::vector<int>& rows, const std::vector<int>& tiles, const Vector& weight,
                  std::initializer_list<const Matrix*> next) {
    pack(thread, tiles, w_.x_stride, next, [&](int i, float* out) {
        // The padding of x is zero and adds nothing to the squares; the mean is over the true width.
        w_.kernels.norm(w_.x + size_t(rows[i]) * w_.x_stride, weight.data(), w_.shape.hidden, w_.shape.eps, out);
        std::fill(out + weight.size(), out + w_.x_stride, 0.0f);
    });
}

// The rows of a joined layer. The second norm also writes what pads its half, which still lies within the row.
void Stages::join(int thread, const Layer& l) {
    const int width = w_.shape.hidden;
    pack(thread, all_.tiles, w_.joined_stride, {l.q.get(), l.k.get(), l.v.get()}, [&](int row, float* out) {
        const size_t at = size_t(row) * w_.x_stride;
        w_.kernels.norm(w_.embedded + at, l.input_norm.data(), width, w_.shape.eps, out);
        w_.kernels.norm(w_.x + at, l.hidden_norm.data(), width, w_.shape.eps, out + width);
        std::fill(out + 2 * width, out + w_.joined_stride, 0.0f);
    });
}

// Once every thread has packed its part of the joined rows.
void Stages::norm_residual(int thread, const Layer& l) {
    const Range mine = w_.share_of(w_.plan.rows, thread);
    for (int row = mine.begin; row < mine.end; ++row) {
        float* x = w_.x + size_t(row) * w_.x_stride;
        w_.kernels.norm(x, l.hidden_norm.data(), w_.shape.hidden, w_.shape.eps, x);
    }
}

// Packs rows, which fill(index, out) writes with their padding, for the matrices that come next. Many tiles are
// shared out among the threads; of a few, each thread packs a stretch of the inputs of all rows and fills the rows
// anew for that, since rows lie interleaved and threads that write to the same lines of memory hold each other up.
template <class Fill>
void Stages::pack(int thread, const std::vector<int>& tiles, int stride, std::initializer_list<const Matrix*> next,
                  Fill fill) {
    float* y = w_.scratch(thread);
    const int count = int(tiles.size()) - 1;
    const bool many = count >= 4 * w_.threads;
    const Range mine = many ? w_.share_of(count, thread) : Range{0, count};
    const Range blocks = many ? Range{0, stride / kBlock} : w_.share_of(stride / kBlock, thread);
    if (blocks.begin == blocks.end) return;
    for (int t = mine.begin; t < mine.end; ++t) {
        for (int i = tiles[t]; i < tiles[t + 1]; ++i) fill(i, y + size_t(i - tiles[t]) * stride);
        w_.acts.pack_tile(y, stride, tiles[t], tiles[t + 1], blocks.begin * kBlock, blocks.end * kBlock, next);
    }
}

void Stages::capture(int thread, int index) {
    const auto& captured = options_.captured;
    const auto found = std::find(captured.begin(), captured.end(), index);
    if (found == captured.end()) return;
    w_.meet();
    const int rows = w_.plan.rows, width = w_.shape.hidden;
    float* out = floats_.hidden + (found - captured.begin()) * size_t(rows) * width;
    const Range mine = w_.share_of(rows, thread);
    for (int row = mine.begin; row < mine.end; ++row)
        std::copy_n(w_.x + size_t(row) * w_.x_stride, width, out + size_t(row) * width);
}

}  // namespace outrider
