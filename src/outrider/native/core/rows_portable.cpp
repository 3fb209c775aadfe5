// The row kernels of portable.
#include "vec_portable.hpp"
//
#include "row_kernels.hpp"

namespace outrider {
const RowKernels* portable_rows() {
    static constexpr RowKernels table = make_rows("portable");
    return &table;
}
}  // namespace outrider
