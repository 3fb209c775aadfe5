// The row kernels of avx512.
#include "vec_avx512.hpp"
//
#include "row_kernels.hpp"

namespace outrider {
const RowKernels* avx512_rows() {
    static constexpr RowKernels table = make_rows("avx512");
    return &table;
}
}  // namespace outrider
