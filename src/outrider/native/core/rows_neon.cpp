// The row kernels of neon.
#include "vec_neon.hpp"
//
#include "row_kernels.hpp"

namespace outrider {
const RowKernels* neon_rows() {
    static constexpr RowKernels table = make_rows("neon");
    return &table;
}
}  // namespace outrider
