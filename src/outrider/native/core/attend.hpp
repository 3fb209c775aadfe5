// Attention of a few queries that share keys. Every sum runs in the order of path places, so a row's result
// doesn't depend on where its ancestors lie or on who shares the call. Included by the instruction set's file.
#pragma once

namespace {

inline const float* key_block(const Keys& keys, int slot, int dim) {
    return keys.pages[slot / kSlots] + keys.keys + size_t(slot % kSlots) * dim;
}
inline const float* value_row(const Keys& keys, int slot, int width) {
    return keys.pages[slot / kSlots] + keys.values + size_t(slot % kSlots) * width;
}

// Products of `count` queries with 16 · blocks keys; the blocks lie in one page.
template <int count, int blocks>
void score(const float* keys, const Query* queries, int dim, float* scores, int stride) {
    F acc[count][blocks];
    for (int q = 0; q < count; ++q)
        for (int b = 0; b < blocks; ++b) acc[q][b] = set1(0.0f);
    for (int d = 0; d < dim; ++d) {
        F k[blocks];
#pragma GCC unroll 4
        for (int b = 0; b < blocks; ++b) k[b] = load(keys + (b * dim + d) * 16);
#pragma GCC unroll 8
        for (int q = 0; q < count; ++q)
#pragma GCC unroll 4
            for (int b = 0; b < blocks; ++b) acc[q][b] = fma(k[b], set1(queries[q].values[d]), acc[q][b]);
    }
#pragma GCC unroll 8
    for (int q = 0; q < count; ++q)
#pragma GCC unroll 4
        for (int b = 0; b < blocks; ++b) store(scores + q * stride + 16 * b, acc[q][b]);
}

// Scores become weights in place; places outside the query's own range become exact zeros. Returns 1 / sum.
float soften(float* scores, int start, int stop, const Query& query, float scale) {
    for (int j = start; j < query.first; ++j) scores[j - start] = -INFINITY;
    for (int j = query.end; j < stop; ++j) scores[j - start] = -INFINITY;
    const F factor = set1(scale);
    F most = set1(-INFINITY);
    for (int j = 0; j < stop - start; j += 16) {
        const F s = mul(load(scores + j), factor);
        store(scores + j, s);
        most = max(most, s);
    }
    const F top = set1(max_lanes(most));
    F sum = set1(0.0f);
    for (int j = 0; j < stop - start; j += 16) {
        const F s = load(scores + j);
        const F p = exp(sub(s, top));
        store(scores + j, p);
        sum = add(sum, p);
    }
    return 1.0f / sum_lanes(sum);
}

// Adds weights [place − start] times values of 16 · parts dimensions over places from … to − 1.
template <int count, int parts>
void mix(const Keys& keys, int width, int column, const float* weights, int stride, int start, int from, int to,
         const int32_t* path, F (&acc)[count][parts]) {
    for (int place = from; place < to; ++place) {
        const int slot = path && place >= keys.base ? keys.base + path[place - keys.base] : place;
        const float* row = value_row(keys, slot, width) + column;
        F v[parts];
#pragma GCC unroll 4
        for (int p = 0; p < parts; ++p) v[p] = load(row + 16 * p);
#pragma GCC unroll 8
        for (int q = 0; q < count; ++q) {
            const F w = set1(weights[q * stride + place - start]);
#pragma GCC unroll 4
            for (int p = 0; p < parts; ++p) acc[q][p] = fma(v[p], w, acc[q][p]);
        }
    }
}

template <int count, int parts>
void mix_columns(const Keys& keys, const Query* queries, int dim, int column, const float* weights, int stride,
                 int start, int from, int to, const float* inverse) {
    F acc[count][parts];
    for (int q = 0; q < count; ++q)
        for (int p = 0; p < parts; ++p) acc[q][p] = set1(0.0f);
    mix<count, parts>(keys, round_up(dim, 16), column, weights, stride, start, from, to, queries[0].path, acc);
    for (int q = 0; q < count; ++q)
        for (int p = 0; p < parts; ++p) {
            float out[16];
            store(out, mul(acc[q][p], set1(inverse[q])));
            const int at = column + 16 * p, valid = dim - at < 16 ? dim - at : 16;
            for (int i = 0; i < valid; ++i) queries[q].out[at + i] = out[i];
        }
}

// How many vectors `count` queries take at a time, so that all sums stay in registers: 4, 2 or 1.
constexpr int sharers(int count) { return 4 * count <= kSums ? 4 : 2 * count <= kSums ? 2 : 1; }

template <int count>
void attend_some(const Keys& keys, const Query* queries, int dim, float scale, float* scratch) {
    int first = queries[0].first, end = queries[0].end, last = 0;
    for (int q = 0; q < count; ++q) {
        first = queries[q].first < first ? queries[q].first : first;
        end = queries[q].end > end ? queries[q].end : end;
        const Query& query = queries[q];
        const int slot = query.path && query.end > keys.base ? keys.base + query.path[query.end - 1 - keys.base]
                                                             : query.end - 1;
        last = slot > last ? slot : last;
    }
    const int start = first / 16 * 16, stop = round_up(end, 16), slots = round_up(last + 1, 16);
    const int stride = slots - start;
    constexpr int kMany = sharers(count);
    int slot = start;
    for (; slot + 16 * kMany <= slots; ) {
        if (slot % kSlots + 16 * kMany <= kSlots) {
            score<count, kMany>(key_block(keys, slot, dim), queries, dim, scratch + slot - start, stride);
            slot += 16 * kMany;
        } else {
            score<count, 1>(key_block(keys, slot, dim), queries, dim, scratch + slot - start, stride);
            slot += 16;
        }
    }
    for (; slot < slots; slot += 16)
        score<count, 1>(key_block(keys, slot, dim), queries, dim, scratch + slot - start, stride);
    float inverse[count];
    for (int q = 0; q < count; ++q) {
        float* scores = scratch + q * stride;
        if (const int32_t* path = queries[q].path)  // ancestors ascend, so a score is read before it is replaced
            for (int place = keys.base > first ? keys.base : first; place < queries[q].end; ++place)
                scores[place - start] = scores[keys.base + path[place - keys.base] - start];
        inverse[q] = soften(scores, start, stop, queries[q], scale);
    }
    int column = 0;
    for (; column + 16 * kMany <= dim; column += 16 * kMany)
        mix_columns<count, kMany>(keys, queries, dim, column, scratch, stride, start, first, end, inverse);
    for (; column < dim; column += 16)
        mix_columns<count, 1>(keys, queries, dim, column, scratch, stride, start, first, end, inverse);
}

template <int count = kMaxQueries>
void attend_count(const Keys& keys, const Query* queries, int given, int dim, float scale, float* scratch) {
    if (given == count) return attend_some<count>(keys, queries, dim, scale, scratch);
    if constexpr (count > 1) attend_count<count - 1>(keys, queries, given, dim, scale, scratch);
}

// The queries share a path, or have none.
void attend(const Keys& keys, const Query* queries, int count, int dim, float scale, float* scratch) {
    attend_count<>(keys, queries, count, dim, scale, scratch);
}

}  // namespace
