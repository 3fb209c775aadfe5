// The kernels of avx2.
#include "vec_avx2.hpp"
//
#include "table.hpp"

namespace outrider {
const Kernels* avx2_kernels() {
    static constexpr Kernels table = make_table("avx2", avx2_bytes);
    return &table;
}
}  // namespace outrider
