// The row kernels of avx2.
#include "vec_avx2.hpp"
//
#include "row_kernels.hpp"

namespace outrider {
const RowKernels* avx2_rows() {
    static constexpr RowKernels table = make_rows("avx2");
    return &table;
}
}  // namespace outrider
