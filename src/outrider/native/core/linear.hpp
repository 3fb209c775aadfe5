// The linear layers of a pass: every thread takes its share of the panels, for all rows.
#pragma once
#include "workspace.hpp"

namespace outrider {

// One matrix of a linear stage: its outputs go to `column` … of a row.
struct Side {
    const Matrix* matrix;
    const Vector* bias;
    int column = 0;

    int pieces() const { return (matrix->panels() + 1) / 2; }  // two panels each
};

enum class Into { Store, Add };

// Packed rows, cut into tiles: those of the pass's activations, or floats packed elsewhere.
struct Packed {
    const std::vector<int>& tiles;
    const float* values = nullptr;

    Tile tile(const Activations& acts, int index, int inputs) const {
        Tile tile = acts.tile(tiles[index], tiles[index + 1], inputs);
        if (values) tile.values = values + size_t(tiles[index]) * inputs;
        return tile;
    }
};

// A thread's share of matrices that take the same rows: out [rows][stride] is stored or added to, up to `columns`
// of a row.
void linear(Workspace& w, int thread, const std::vector<Side>& sides, const Packed& rows, Into into, float* out,
            int stride, int columns);

// A thread's share of inner = silu(gate) · up: rows one after another where the next matrix is quantised, else
// packed for it.
void gated(Workspace& w, int thread, const Layer& layer, const std::vector<int>& tiles);

}  // namespace outrider
