#include "linear.hpp"

#include <algorithm>
#include <cstring>

namespace outrider {
namespace {

constexpr int kCacheFloats = 3 << 17;  // activations that stay near while a panel passes: 1.5 MB
constexpr int kTilesARun = 8;          // the fewest of a run that is there only for the sake of more threads
constexpr int kNearFrom = 3;           // tiles for which a panel is widened once and then stays in the cache

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

// One or two panels of a format, which meet `tiles` tiles in turn. Where those are many, the panels stay in the
// cache, 16-bit weights as fp32 in the thread's scratch. Their values are the same, and so are the sums.
class Operand {
public:
    Operand(Workspace& w, int thread, Format format, const Panels& lying, int inputs, int tiles, int first = 0)
        : kernels_(w.kernels), format_(format), panels_(lying), lying_(lying), inputs_(inputs),
          near_(tiles >= kNearFrom && format < Format::I8) {
        if (!near_) return;
        const size_t bytes = size_t(inputs) * kLanes * (format == Format::F32 ? 4 : 2);
        share_ = (bytes / 64 + tiles - 1) / tiles * 64;
        wide_ = w.scratch(thread) + size_t(first) * inputs * kLanes;
    }

    // Asks memory for a tile's share of the panels that come next, where nothing else does.
    void ask(int tile) const {
        for (int p = 0; p < (near_ ? lying_.count : 0); ++p)
            for (size_t line = 0; line < share_; line += 64) __builtin_prefetch(lying_.next[p] + tile * share_ + line, 0, 2);
    }

    // True where `multiply` may put results anywhere, and add them; else they are stored, rows 16 apart and
    // panels one after another.
    bool near() const { return near_; }
    void multiply(const Tile& tile, const Results& out) {
        if (!near_) return kernels_.multiply(format_, panels_, inputs_, tile, out.at);
        kernels_.multiply_near(format_, panels_, inputs_, wide_, tile, out);
        if (format_ == Format::F32) return;
        format_ = Format::F32;
        for (int p = 0; p < panels_.count; ++p)
            panels_.at[p] = reinterpret_cast<const uint8_t*>(wide_ + size_t(p) * inputs_ * kLanes);
    }

private:
    const Kernels& kernels_;
    Format format_;
    Panels panels_, lying_;
    int inputs_;
    bool near_;
    size_t share_ = 0;  // bytes
    float* wide_ = nullptr;
};

// Asks for the places of a tile's results, which come from farther away than the panel.
void ask(const float* out, size_t stride, int rows, int lines) {
    for (int row = 0; row < rows; ++row)
        for (int line = 0; line < lines; ++line) __builtin_prefetch(out + row * stride + line * kLanes, 1);
}

void add_bias(float* sum, const Vector& bias, int at) {
    for (int i = 0; i < kLanes; ++i) sum[i] += bias[at + i];
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

void linear(Workspace& w, int thread, const std::vector<Side>& sides, const Packed& rows, Into into, float* out,
            int stride, int columns) {
    int pieces = 0;
    for (const Side& side : sides) pieces += side.pieces();
    const std::vector<int>& tiles = rows.tiles;
    const int inputs = sides[0].matrix->padded_inputs();
    each(w, thread, tiles, inputs, pieces, [&](int piece, int first, int end) {
        const Side* side = sides.data();
        for (; piece >= side->pieces(); ++side) piece -= side->pieces();
        const Matrix& m = *side->matrix;
        const int panel = 2 * piece, count = std::min(2, m.panels() - panel), column = side->column + panel * kLanes;
        const Panels lying{count, {m.panel(panel), m.panel(panel + 1)}, {m.panel(panel + 2), m.panel(panel + 3)}};
        Operand operand(w, thread, m.format, lying, inputs, end - first);
        const bool biases = side->bias && !side->bias->empty();
        const bool direct = operand.near() && !biases && column + count * kLanes <= columns;
        for (int t = first; t < end; ++t) {
            const Tile tile = rows.tile(w.acts, t, inputs);
            float* to = out + size_t(tiles[t]) * stride + column;
            operand.ask(t - first);
            ask(to, stride, tile.rows, count);
            if (direct) {
                operand.multiply(tile, {to, size_t(stride), kLanes, into == Into::Add});
                continue;
            }
            float results[2 * kMostRows * kLanes];
            operand.multiply(tile, {results, kLanes, size_t(tile.rows) * kLanes, false});
            for (int p = 0; p < count; ++p)
                for (int r = 0; r < tile.rows; ++r) {
                    float* sum = results + (p * tile.rows + r) * kLanes;
                    if (biases) add_bias(sum, *side->bias, (panel + p) * kLanes);
                    put(sum, to + size_t(r) * stride + p * kLanes, std::min(kLanes, columns - column - p * kLanes), into);
                }
        }
    });
}

// A panel of each matrix at a time.
void gated(Workspace& w, int thread, const Layer& l, const std::vector<int>& tiles) {
    const int inputs = l.gate->padded_inputs(), stride = w.inner_stride;
    const bool packed = !l.down->quantised();
    each(w, thread, tiles, inputs, l.gate->panels(), [&](int panel, int first, int end) {
        const uint8_t *gate = l.gate->panel(panel), *up = l.up->panel(panel);
        const uint8_t *next_gate = l.gate->panel(panel + 1), *next_up = l.up->panel(panel + 1);
        const bool alike = l.gate->format == l.up->format;
        const int count = end - first, column = panel * kLanes;
        Operand one(w, thread, l.gate->format, {alike ? 2 : 1, {gate, up}, {next_gate, next_up}}, inputs, count);
        Operand two(w, thread, l.up->format, {alike ? 0 : 1, {up}, {next_up}}, inputs, count, 1);
        // The last panel also writes the columns that pad a row.
        const int padding = panel + 1 == l.gate->panels() ? stride - column - kLanes : 0;
        for (int t = first; t < end; ++t) {
            const Tile tile = w.acts.tile(tiles[t], tiles[t + 1], inputs);
            float results[2 * kMostRows * kLanes], *ups = results + tile.rows * kLanes;
            float* to = w.inner + size_t(tiles[t]) * stride;
            one.ask(t - first), two.ask(t - first);
            if (packed) ask(to + size_t(column) * tile.rows, kLanes, tile.rows, 1);
            else ask(to + column, stride, tile.rows, 1);
            one.multiply(tile, {results, kLanes, size_t(tile.rows) * kLanes, false});
            if (!alike) two.multiply(tile, {ups, kLanes, 0, false});
            for (int r = 0; r < tile.rows; ++r) {
                if (!l.gate_bias.empty()) add_bias(results + r * kLanes, l.gate_bias, column);
                if (!l.up_bias.empty()) add_bias(ups + r * kLanes, l.up_bias, column);
            }
            w.kernels.gate(results, ups, tile.rows * kLanes);
            if (packed) {
                pack_columns(results, tile.rows, kLanes, w.kernels.group_rows, to, stride, column);
                const float zeros[kMostRows * kLanes] = {};
                if (padding) pack_columns(zeros, tile.rows, padding, w.kernels.group_rows, to, stride, column + kLanes);
                continue;
            }
            for (int r = 0; r < tile.rows; ++r) {
                std::memcpy(to + size_t(r) * stride + column, results + r * kLanes, kLanes * sizeof(float));
                std::fill_n(to + size_t(r) * stride + column + kLanes, padding, 0.0f);
            }
        }
    });
}

}  // namespace outrider
