// The kernels of neon.
#include "vec_neon.hpp"
//
#include "table.hpp"

namespace outrider {
const Kernels* neon_kernels() {
    static constexpr Kernels table = make_table("neon", neon_bytes);
    return &table;
}
}  // namespace outrider
