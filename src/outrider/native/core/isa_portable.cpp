// The kernels of portable.
#include "vec_portable.hpp"
//
#include "table.hpp"

namespace outrider {
const Kernels* portable_kernels() {
    static constexpr Kernels table = make_table("portable", portable_bytes);
    return &table;
}
}  // namespace outrider
