#include "attention.hpp"

#include <algorithm>
#include <cmath>

namespace outrider {
namespace {

constexpr int kSegment = 128;   // places; a multiple of a page's slots
constexpr int kChunkRows = 32;  // rows that take a segment one after another

}  // namespace

Attention::Attention(Workspace& workspace, const std::vector<int>& rows, std::vector<Buffer>& space)
    : w_(workspace), rows_(rows), groups_(w_.shape.heads / w_.shape.kv_heads),
      part_stride_(kPartHead + round_up(w_.shape.dim, kLanes)) {
    const Plan& plan = w_.plan;
    const int count = int(rows.size());
    for (int first = 0, end = 0; first < count; first = end) {
        const int sequence = plan.sequences[rows[first]];
        while (end < count && end - first < kChunkRows && plan.sequences[rows[end]] == sequence) ++end;
        chunks_.push_back(chunk_of(first, end));
        segments_ = std::max(segments_, round_up(chunks_.back().places, kSegment) / kSegment);
    }
    if (segments_ > 1 && int(chunks_.size()) * w_.shape.kv_heads < 4 * w_.threads)
        for (int c = 0; c < int(chunks_.size()); ++c)
            for (int s = 0; s * kSegment < chunks_[c].places; ++s) items_.push_back({c, s});
    // Scores of a segment; where branches part, the slots between its places are scored as well.
    const bool branches = std::any_of(chunks_.begin(), chunks_.end(), [](const Chunk& c) { return !c.apart.empty(); });
    scores_ = kQueries * size_t(kSegment + 2 * kLanes + (branches ? round_up(plan.pending + plan.rows, kLanes) : 0));
    scratch_stride_ = round_up(int(scores_) + (kChunkRows * groups_ + kQueries) * part_stride_, kLanes);
    space.resize(2);
    grow(space[0], w_.threads * scratch_stride_ * sizeof(float));
    scratch_ = space[0].as<float>();
    if (items_.empty()) return;
    grow(space[1], size_t(count) * w_.shape.heads * segments_ * part_stride_ * sizeof(float));
    parts_ = space[1].as<float>();
}

Attention::Chunk Attention::chunk_of(int first, int end) const {
    Chunk chunk{w_.plan.sequences[rows_[first]], first, end, 0, groups_of(first, end, false), {}};
    bool branches = false;
    for (int i = first; i < end; ++i) {
        chunk.places = std::max(chunk.places, w_.plan.positions[rows_[i]] + 1);
        branches |= !w_.plan.paths[rows_[i]].empty();
    }
    if (branches) chunk.apart = groups_of(first, end, true);
    return chunk;
}

// A row that has a path of its own is in no other's group where `branches` says so.
std::vector<Attention::Group> Attention::groups_of(int first, int end, bool branches) const {
    std::vector<Group> groups;
    bool open = false;
    for (int i = first; i < end; ++i) {
        const bool alone = branches && !w_.plan.paths[rows_[i]].empty();
        if (alone) open = false;
        for (int head = 0; head < groups_; ++head) {
            if (!open) groups.emplace_back();
            Group& group = groups.back();
            group.indices[group.count] = i, group.heads[group.count] = head;
            open = ++group.count < w_.kernels.max_queries;
        }
        if (alone) open = false;
    }
    return groups;
}

void Attention::place(int thread, int index, const Layer& l) {
    const Shape& s = w_.shape;
    const int half = s.dim / 2;
    const float scale = 1.44269504f / std::sqrt(float(s.dim));  // scores become logarithms to base 2
    const Range mine = w_.share_of(w_.plan.rows * s.kv_heads, thread);
    for (int piece = mine.begin; piece < mine.end; ++piece) {
        // Neighbouring rows of a head share lines of memory in the cache, so they go to one thread.
        const int row = piece % w_.plan.rows, head = piece / w_.plan.rows, sequence = w_.plan.sequences[row];
        const float* cos = w_.model.cos.data() + size_t(w_.plan.positions[row]) * half;
        const float* sin = w_.model.sin.data() + size_t(w_.plan.positions[row]) * half;
        float* base = w_.qkv + size_t(row) * w_.qkv_stride;
        auto turn = [&](float* x, const Vector& weight) {
            if (!weight.empty()) w_.kernels.head_norm(x, weight.data(), s.dim, s.eps, x);
            w_.kernels.rotate(x, cos, sin, s.dim);
        };
        for (int g = 0; g < groups_; ++g) {
            float* query = base + (head * groups_ + g) * s.dim;
            turn(query, l.q_norm);
            for (int d = 0; d < s.dim; ++d) query[d] *= scale;
        }
        float *key = base + w_.q_width + head * s.dim, *value = key + w_.k_width;
        turn(key, l.k_norm);
        Cache& cache = *w_.caches[sequence];
        cache.store(index, head, cache.length() + w_.plan.numbers[row], key, value);
    }
}

void Attention::attend(int thread, int index, const Layer& l) {
    const int heads = w_.shape.kv_heads;
    if (items_.empty()) {
        const int count = int(chunks_.size());
        w_.share(thread, count * heads, [&](int piece) {
            const int number = piece % count, head = piece / count;
            const Chunk& chunk = chunks_[number];
            for (int s = 0; s * kSegment < chunk.places; ++s) over(thread, index, l, number, head, s);
            for (int i = chunk.first; i < chunk.end; ++i)
                for (int query = head * groups_; query < (head + 1) * groups_; ++query)
                    finish(state_of(thread, chunk, i, query, 0), i, query);
        });
        return;
    }
    const int count = int(items_.size());
    w_.share(thread, count * heads, [&](int piece) {
        over(thread, index, l, items_[piece % count].chunk, piece / count, items_[piece % count].segment);
    });
    w_.meet();
    const Range mine = w_.share_of(int(rows_.size()) * w_.shape.heads, thread);
    for (int query = mine.begin; query < mine.end; ++query) {
        const int at = query / w_.shape.heads, row = rows_[at];
        const int first = first_of(row, l) / kSegment, last = w_.plan.positions[row] / kSegment;
        float* parts = parts_ + size_t(query) * segments_ * part_stride_;
        for (int s = first + 1; s <= last; ++s)
            w_.kernels.merge(parts + first * part_stride_, parts + s * part_stride_, part_stride_);
        finish(parts + first * part_stride_, at, query % w_.shape.heads);
    }
}

int Attention::first_of(int row, const Layer& l) const {
    return l.window ? std::max(0, w_.plan.positions[row] + 1 - l.window) : 0;
}

// Where a query's result over a segment goes: a place of its own where threads share out segments, else what
// the thread has of the query so far.
float* Attention::state_of(int thread, const Chunk& chunk, int index, int head, int segment) {
    if (parts_) return parts_ + ((size_t(index) * w_.shape.heads + head) * segments_ + segment) * part_stride_;
    const int state = (index - chunk.first) * groups_ + head % groups_;
    return scratch_ + thread * scratch_stride_ + scores_ + size_t(kQueries + state) * part_stride_;
}

// The chunk's queries of one head for keys over one segment.
void Attention::over(int thread, int index, const Layer& l, int number, int head, int segment) {
    const Chunk& chunk = chunks_[number];
    const int dim = w_.shape.dim, from = segment * kSegment, to = from + kSegment;
    const Keys keys = w_.caches[chunk.sequence]->keys(index, head);
    float *scores = scratch_ + thread * scratch_stride_, *spare = scores + scores_;
    for (const Group& group : chunk.apart.empty() || to <= keys.base ? chunk.together : chunk.apart) {
        Query queries[kQueries];
        float* states[kQueries];
        int count = 0;
        for (int i = 0; i < group.count; ++i) {
            const int row = rows_[group.indices[i]], query = head * groups_ + group.heads[i];
            const int first = first_of(row, l), end = w_.plan.positions[row] + 1;
            if (end <= from || first >= to) continue;
            const int32_t* path = w_.plan.paths[row].empty() ? nullptr : w_.plan.paths[row].data();
            const float* values = w_.qkv + size_t(row) * w_.qkv_stride + query * dim;
            states[count] = state_of(thread, chunk, group.indices[i], query, segment);
            const bool fresh = parts_ || first / kSegment == segment;
            queries[count] = {values, fresh ? states[count] : spare + count * part_stride_, first, end, path};
            ++count;
        }
        if (count == 0) continue;
        w_.kernels.attend(keys, queries, count, from, to, dim, scores);
        for (int i = 0; i < count; ++i)
            if (queries[i].part != states[i]) w_.kernels.merge(states[i], queries[i].part, part_stride_);
    }
}

void Attention::finish(const float* part, int index, int head) {
    float sums[kLanes];
    std::copy_n(part + kPartSums, kLanes, sums);
    for (int half = kLanes / 2; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) sums[i] += sums[i + half];
    const float inverse = 1.0f / sums[0];
    float* out = w_.attended + size_t(index) * w_.attended_stride + head * w_.shape.dim;
    for (int i = 0; i < w_.shape.dim; ++i) out[i] = part[kPartHead + i] * inverse;
}

}  // namespace outrider
