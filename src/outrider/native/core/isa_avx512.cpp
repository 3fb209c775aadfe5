// The kernels of avx512.
#include "vec_avx512.hpp"
//
#include "table.hpp"

namespace outrider {
const Kernels* avx512_kernels() {
    static constexpr Kernels table = make_table("avx512", avx512_bytes);
    return &table;
}
}  // namespace outrider
