// What a kernel is given: a stretch of inputs of one or two panels, and one group of rows. A row's sums pass
// through `out` between stretches, unchanged. Included by the instruction set's file.
#pragma once

namespace {

constexpr int kAhead = 2048;  // bytes of a panel to ask memory for in advance

// A stretch of inputs of one or two panels.
struct Stretch {
    const uint8_t* at[2];    // its weights
    const uint8_t* end[2];   // the ends of the panels
    const uint8_t* next[2];  // the panels that will be asked for after these
    int inputs;
    int turn, turns;  // the groups take turns in asking memory for what lies
    int ahead;        // bytes further on
};

// One group of rows.
struct Group {
    const float* values;
    const int32_t* words;
    const float *scales, *sums;
    float* out;     // [rows][16] for each panel,
    size_t panel;   // so many floats apart
    bool fresh;     // the sums begin here
};

// Asks for the bytes that lie s.ahead after `at`, in this panel or the next.
template <int bytes> inline void prefetch(const Stretch& s, int p, const uint8_t* at) {
    const uint8_t* ahead = at + s.ahead;
    if (ahead >= s.end[p]) ahead = s.next[p] + (ahead - s.end[p]);
#pragma GCC unroll 9
    for (int line = 0; line < bytes; line += 64) __builtin_prefetch(ahead + line);
}

}  // namespace
