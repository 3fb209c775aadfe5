// Attention of a few queries that share keys, over a range of places. Every sum runs in the order of path places,
// so a row's result doesn't depend on where its ancestors lie or on who shares the call. While scores are made,
// memory is asked for the values, and while values are mixed, for the keys of the next range. Included by the
// instruction set's file.
#pragma once

namespace {
using outrider::kPartHead, outrider::kPartSums;

constexpr int kAheadPlaces = 128;  // the length of a range, most likely

inline const float* key_block(const Keys& keys, int slot, int dim) {
    return keys.pages[slot / kSlots] + keys.keys + size_t(slot % kSlots) * dim;
}
inline const float* value_row(const Keys& keys, int slot, int width) {
    return keys.pages[slot / kSlots] + keys.values + size_t(slot % kSlots) * width;
}

inline int slot_of(const Keys& keys, const int32_t* path, int place) {
    return path && place >= keys.base ? keys.base + path[place - keys.base] : place;
}

// Products of `count` queries with 16 · blocks keys; the blocks lie in one page. `ahead` is where memory is asked
// for meanwhile.
template <int count, int blocks>
void score(const float* keys, const float* ahead, const Query* queries, int dim, float* scores, int stride) {
    F acc[count][blocks];
    const float* values[count];
#pragma GCC unroll 12
    for (int q = 0; q < count; ++q) {
        values[q] = queries[q].values;
#pragma GCC unroll 4
        for (int b = 0; b < blocks; ++b) acc[q][b] = set1(0.0f);
    }
    for (int d = 0; d < dim; ++d) {
        F k[blocks];
#pragma GCC unroll 4
        for (int b = 0; b < blocks; ++b) {
            k[b] = load(keys + (b * dim + d) * 16);
            __builtin_prefetch(ahead + (d * blocks + b) * 16);
        }
#pragma GCC unroll 12
        for (int q = 0; q < count; ++q) {
            const F value = set1(values[q][d]);
#pragma GCC unroll 4
            for (int b = 0; b < blocks; ++b) acc[q][b] = fma(k[b], value, acc[q][b]);
        }
    }
#pragma GCC unroll 12
    for (int q = 0; q < count; ++q)
#pragma GCC unroll 4
        for (int b = 0; b < blocks; ++b) store(scores + q * stride + 16 * b, acc[q][b]);
}

// 2^x for x ≤ 0, exactly 1 at 0 and exactly 0 below −126: the Taylor series to the 6th power on [−½, ½].
inline F power(F x) {
    const I n = round_int(max(x, set1(-127.0f)));
    const F r = sub(x, to_float(n));
    F p = fma(set1(1.5403530e-4f), r, set1(1.3333558e-3f));
    p = fma(p, r, set1(9.6181291e-3f));
    p = fma(p, r, set1(5.5504109e-2f));
    p = fma(p, r, set1(0.24022651f));
    p = fma(p, r, set1(0.69314718f));
    p = fma(p, r, set1(1.0f));
    return zero_below(x, -126.0f, mul(p, as_float(shift_left<23>(add(n, set1(int32_t(127)))))));
}

// Scores, which are logarithms to base 2, become weights in place; places outside the query's own range become
// exact zeros. Writes the largest score and the sums of the weights.
void soften(float* scores, int start, int stop, const Query& query) {
    for (int j = start; j < query.first; ++j) scores[j - start] = -INFINITY;
    for (int j = query.end > start ? query.end : start; j < stop; ++j) scores[j - start] = -INFINITY;
    F most = set1(-INFINITY);
    for (int j = 0; j < stop - start; j += 16) most = max(most, load(scores + j));
    const float largest = max_lanes(most);
    const F top = set1(largest);
    F sums = set1(0.0f);
    for (int j = 0; j < stop - start; j += 16) {
        const F p = power(sub(load(scores + j), top));
        store(scores + j, p);
        sums = add(sums, p);
    }
    query.part[0] = largest;
    store(query.part + kPartSums, sums);
}

// Adds weights times `parts` vectors of one place's values.
template <int count, int parts>
inline void mix_place(const float* row, const float* weights, int stride, F (&acc)[count][parts]) {
    F v[parts];
#pragma GCC unroll 4
    for (int p = 0; p < parts; ++p) v[p] = load(row + 16 * p);
#pragma GCC unroll 12
    for (int q = 0; q < count; ++q) {
        const F w = set1(weights[q * stride]);
#pragma GCC unroll 4
        for (int p = 0; p < parts; ++p) acc[q][p] = fma(v[p], w, acc[q][p]);
    }
}

// A range of places of queries that share a path, or have none.
struct Places {
    int first, end;     // what any of them sees
    int start;          // the scores begin with that of this place
    int straight;       // up to here a place is the slot of its number
    int seen;           // the last place that any of them sees, in any range, and 1
    const int32_t* path;
};

template <int count, int parts>
void mix_columns(const Keys& keys, const Query* queries, int dim, int column, const float* weights, int stride,
                 const Places& places) {
    F acc[count][parts];
#pragma GCC unroll 12
    for (int q = 0; q < count; ++q)
#pragma GCC unroll 4
        for (int p = 0; p < parts; ++p) acc[q][p] = set1(0.0f);
    const int width = round_up(dim, 16);
    const float* w = weights + places.first - places.start;
    int place = places.first;
    while (place < places.straight) {
        const int page_end = round_up(place + 1, kSlots), stop = page_end < places.straight ? page_end : places.straight;
        const float* row = value_row(keys, place, width) + column;
        const int later = place + kAheadPlaces;
        const float* ahead = later < places.seen ? key_block(keys, later / kSlots * kSlots, dim) +
                                                       (place % kSlots) * dim + column : row;
        const int step = later < places.seen ? dim : 0;
        for (; place < stop; ++place, ++w, row += width, ahead += step) {
#pragma GCC unroll 4
            for (int p = 0; p < parts; ++p) __builtin_prefetch(ahead + 16 * p);
            mix_place<count, parts>(row, w, stride, acc);
        }
    }
    for (; place < places.end; ++place, ++w)
        mix_place<count, parts>(value_row(keys, slot_of(keys, places.path, place), width) + column, w, stride, acc);
#pragma GCC unroll 12
    for (int q = 0; q < count; ++q)
#pragma GCC unroll 4
        for (int p = 0; p < parts; ++p) store(queries[q].part + kPartHead + column + 16 * p, acc[q][p]);
}

// How many vectors `count` queries take at a time, so that all sums stay in registers: 4, 2 or 1.
constexpr int sharers(int count) { return 4 * count <= kSums ? 4 : 2 * count <= kSums ? 2 : 1; }

template <int count>
void attend_some(const Keys& keys, const Query* queries, int from, int to, int dim, float* scratch) {
    const int32_t* path = queries[0].path;
    int first = to, end = from, seen = from;
    for (int q = 0; q < count; ++q) {
        first = queries[q].first < first ? queries[q].first : first;
        seen = queries[q].end > seen ? queries[q].end : seen;
    }
    first = first > from ? first : from, end = seen < to ? seen : to;
    const int start = first / 16 * 16, stop = round_up(end, 16);
    const int slots = round_up(slot_of(keys, path, end - 1) + 1, 16), stride = slots - start;
    constexpr int kMany = sharers(count);
    for (int slot = slot_of(keys, path, first) / 16 * 16; slot < slots;) {
        float* scores = scratch + slot - start;
        const float *block = key_block(keys, slot, dim), *values = value_row(keys, slot, round_up(dim, 16));
        if (slot + 16 * kMany <= slots && slot % kSlots + 16 * kMany <= kSlots) {
            score<count, kMany>(block, values, queries, dim, scores, stride);
            slot += 16 * kMany;
        } else {
            score<count, 1>(block, values, queries, dim, scores, stride);
            slot += 16;
        }
    }
    for (int q = 0; q < count; ++q) {
        float* scores = scratch + q * stride;
        if (path)  // ancestors ascend, so a score is read before it is replaced
            for (int place = keys.base > first ? keys.base : first; place < end; ++place)
                scores[place - start] = scores[slot_of(keys, path, place) - start];
        soften(scores, start, stop, queries[q]);
    }
    const int straight = path && keys.base < end ? (keys.base > first ? keys.base : first) : end;
    const Places places{first, end, start, straight, seen, path};
    int column = 0;
    for (; column + 16 * kMany <= dim; column += 16 * kMany)
        mix_columns<count, kMany>(keys, queries, dim, column, scratch, stride, places);
    for (; column < dim; column += 16) mix_columns<count, 1>(keys, queries, dim, column, scratch, stride, places);
}

template <int count = kMaxQueries>
void attend_count(const Keys& keys, const Query* queries, int given, int from, int to, int dim,
                  float* scratch) {
    if (given == count) return attend_some<count>(keys, queries, from, to, dim, scratch);
    if constexpr (count > 1) attend_count<count - 1>(keys, queries, given, from, to, dim, scratch);
}

void attend(const Keys& keys, const Query* queries, int count, int from, int to, int dim, float* scratch) {
    attend_count<>(keys, queries, count, from, to, dim, scratch);
}

// The results over two ranges become one: both are brought to the larger of the two largest scores.
void merge(float* sum, const float* part, int floats) {
    const float most = sum[0] > part[0] ? sum[0] : part[0];
    const F ours = power(set1(sum[0] - most)), theirs = power(set1(part[0] - most));
    for (int i = kPartSums; i < floats; i += 16)
        store(sum + i, fma(load(part + i), theirs, mul(load(sum + i), ours)));
    sum[0] = most;
}

}  // namespace
