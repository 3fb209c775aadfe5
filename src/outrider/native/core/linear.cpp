#include "linear.hpp"

#include <algorithm>
#include <cstring>

namespace outrider {
namespace {

constexpr int kCacheFloats = 3 << 17;  // activations that stay near while a panel passes: 1.5 MB
constexpr int kTilesARun = 8;          // the fewest of a run that is there only for the sake of more threads
constexpr int kWidenFrom = 3;          // tiles that make it worth to widen a panel once for all of them

// Calls body(piece, first tile, end) for this thread's pieces. Many tiles are taken in runs, alike in size, whose
// activations stay in the cache while a panel passes; many threads ask for more runs, to end together.
template <class Body>
void each(Workspace& w, int thread, const std::vector<int>& tiles, int inputs, int pieces, Body body) {
    const int count = int(tiles.size()) - 1;
    const int near = std::min(count, int((int64_t(tiles.back()) * inputs + kCacheFloats - 1) / kCacheFloats));
    const int runs = std::clamp(4 * w.threads / pieces, near, std::max(near, count / kTilesARun));
    w.share(thread, pieces * runs, [&](int index) {
        const int64_t run = index / pieces;
        body(index % pieces, int(count * run / runs), int(count * (run + 1) / runs));
    });
}

// One or two panels of a format, in the form in which they meet `tiles` tiles: as they lie, or in fp32 in the
// thread's scratch. Their values are the same, and so are the sums.
class Operand {
public:
    Format format;
    Panels panels;

    Operand(Workspace& w, int thread, Format kind, const Panels& lying, int inputs, int tiles, int first = 0)
        : format(kind), panels(lying) {
        if (tiles < kWidenFrom || (kind != Format::F16 && kind != Format::BF16)) return;
        format = Format::F32;
        next_ = lying, share_ = (size_t(inputs) * kLanes * 2 / 64 + tiles - 1) / tiles * 64;
        for (int p = 0; p < lying.count; ++p) {
            float* wide = w.scratch(thread) + size_t(first + p) * inputs * kLanes;
            w.kernels.widen(kind, lying.at[p], inputs, wide);
            panels.at[p] = panels.next[p] = reinterpret_cast<const uint8_t*>(wide);
        }
    }

    // Asks memory for a tile's share of the panels that will be widened next.
    void ask(int tile) const {
        for (int p = 0; p < (share_ ? next_.count : 0); ++p)
            for (size_t line = 0; line < share_; line += 64) __builtin_prefetch(next_.next[p] + tile * share_ + line, 0, 2);
    }

private:
    Panels next_{};
    size_t share_ = 0;  // bytes
};

// Asks for the places of a tile's results, which come from farther away than the panel.
void ask(const float* out, size_t stride, int rows, int lines) {
    for (int row = 0; row < rows; ++row)
        for (int line = 0; line < lines; ++line) __builtin_prefetch(out + row * stride + line * kLanes, 1);
}

// A panel's results with their biases; `room` is where they go where there are any.
const float* biased(const float* result, const Vector* bias, int at, float* room) {
    if (!bias || bias->empty()) return result;
    for (int i = 0; i < kLanes; ++i) room[i] = result[i] + (*bias)[at + i];
    return room;
}

void put(const float* sum, float* out, int valid, Into into) {
    if (valid == kLanes && into == Into::Add)  // of a known length, which compilers make into vectors
        for (int i = 0; i < kLanes; ++i) out[i] += sum[i];
    else if (valid == kLanes)
        std::memcpy(out, sum, kLanes * sizeof(float));
    else if (into == Into::Add)
        for (int i = 0; i < valid; ++i) out[i] += sum[i];
    else
        for (int i = 0; i < valid; ++i) out[i] = sum[i];
}

}  // namespace

void linear(Workspace& w, int thread, const std::vector<Side>& sides, const std::vector<int>& tiles, Into into,
            float* out, int stride, int columns) {
    int pieces = 0;
    for (const Side& side : sides) pieces += side.pieces();
    const int inputs = sides[0].matrix->padded_inputs();
    each(w, thread, tiles, inputs, pieces, [&](int piece, int first, int end) {
        const Side* side = sides.data();
        for (; piece >= side->pieces(); ++side) piece -= side->pieces();
        const Matrix& m = *side->matrix;
        const int panel = 2 * piece, count = std::min(2, m.panels() - panel);
        const Panels lying{count, {m.panel(panel), m.panel(panel + 1)}, {m.panel(panel + 2), m.panel(panel + 3)}};
        const Operand operand(w, thread, m.format, lying, inputs, end - first);
        for (int t = first; t < end; ++t) {
            const Tile tile = w.acts.tile(tiles[t], tiles[t + 1], inputs);
            float results[2 * kMostRows * kLanes];
            operand.ask(t - first);
            ask(out + size_t(tiles[t]) * stride + side->column + panel * kLanes, stride, tile.rows, count);
            w.kernels.multiply(operand.format, operand.panels, inputs, tile, results);
            for (int p = 0; p < count; ++p)
                for (int r = 0; r < tile.rows; ++r) {
                    const int at = (panel + p) * kLanes, column = side->column + at;
                    float room[kLanes];
                    const float* sum = biased(results + (p * tile.rows + r) * kLanes, side->bias, at, room);
                    put(sum, out + size_t(tiles[t] + r) * stride + column, std::min(kLanes, columns - column), into);
                }
        }
    });
}

// A panel of each matrix at a time.
void gated(Workspace& w, int thread, const Layer& l) {
    const std::vector<int>& tiles = w.plan.tiles;
    const int inputs = l.gate->padded_inputs();
    each(w, thread, tiles, inputs, l.gate->panels(), [&](int panel, int first, int end) {
        const uint8_t *gate = l.gate->panel(panel), *up = l.up->panel(panel);
        const uint8_t *next_gate = l.gate->panel(panel + 1), *next_up = l.up->panel(panel + 1);
        const bool alike = l.gate->format == l.up->format;
        const int count = end - first;
        const Operand one(w, thread, l.gate->format, {alike ? 2 : 1, {gate, up}, {next_gate, next_up}}, inputs, count);
        const Operand two(w, thread, l.up->format, {alike ? 0 : 1, {up}, {next_up}}, inputs, count, 1);
        for (int t = first; t < end; ++t) {
            const Tile tile = w.acts.tile(tiles[t], tiles[t + 1], inputs);
            float results[2 * kMostRows * kLanes];
            one.ask(t - first), two.ask(t - first);
            ask(w.inner + size_t(tiles[t]) * w.inner_stride + panel * kLanes, w.inner_stride, tile.rows, 1);
            w.kernels.multiply(one.format, one.panels, inputs, tile, results);
            if (!alike) w.kernels.multiply(two.format, two.panels, inputs, tile, results + tile.rows * kLanes);
            for (int r = 0; r < tile.rows; ++r) {
                float g[kLanes], u[kLanes];
                const int at = panel * kLanes;
                w.kernels.gate(biased(results + r * kLanes, &l.gate_bias, at, g),
                               biased(results + (tile.rows + r) * kLanes, &l.up_bias, at, u),
                               w.inner + size_t(tiles[t] + r) * w.inner_stride + at);
            }
        }
    });
}

}  // namespace outrider
