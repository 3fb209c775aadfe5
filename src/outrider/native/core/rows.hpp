// Work on one row of a vocabulary for the sampler: weights, sums and the race for a token. The results are the bits of
// sampling/rows.py, which says what is computed; nothing here may depend on the instruction set.
#pragma once
#include <cstddef>
#include <cstdint>

namespace outrider {

// A token that may be among the first of a race, and its time.
struct Arrival {
    double time;
    int64_t token;
};

struct RowKernels {
    const char* name;
    // The largest of x [n]; NaN is passed over.
    float (*peak)(const float* x, size_t n);
    // Puts the places of values above `bound` into `found`; returns how many, none where x holds NaN. At most room + 1,
    // which says that there was too little room.
    size_t (*above)(const float* x, size_t n, float bound, int64_t* found, size_t room);
    // The sum of 2^t, t = (x - peak) · pace, eight at a time rounded to the grid of `magic`; NaN where x holds one.
    double (*total)(const float* x, size_t n, float peak, float pace, double magic);
    // The sum of 2^t · t, alike.
    double (*depth)(const float* x, size_t n, float peak, float pace, double magic);
    // out [n] = 2^t / total.
    void (*softmax)(const float* x, size_t n, float peak, float pace, float total, float* out);
    // The sum of (p · scale - q)+, each rounded to the grid of `magic`; of p · scale where q is null.
    double (*excess)(const float* p, const float* q, size_t n, float scale, double magic);
    // Puts tokens into `found`, among them the first `count` arrivals of the race with this key over p [n]; returns how
    // many, at most room + 1, which says that there was too little room.
    size_t (*race)(const float* p, size_t n, uint64_t key, size_t count, Arrival* found, size_t room);
};

const RowKernels* portable_rows();
const RowKernels* avx2_rows();
const RowKernels* avx512_rows();
const RowKernels* neon_rows();

// Of the best instruction set of this processor (null), or of the named one; null for a name that cannot run here.
const RowKernels* choose_rows(const char* name);

}  // namespace outrider
