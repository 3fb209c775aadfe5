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

// A thread's share of matrices that take the same packed rows, cut into `tiles`: out [rows][stride] is stored
// or added to, up to `columns` of a row.
void linear(Workspace& w, int thread, const std::vector<Side>& sides, const std::vector<int>& tiles, Into into,
            float* out, int stride, int columns);

// A thread's share of inner = silu(gate) · up.
void gated(Workspace& w, int thread, const Layer& layer);

}  // namespace outrider
