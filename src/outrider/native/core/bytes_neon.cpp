// The kernels of neon with activations of int8.
#include "vec_neon.hpp"
//
#include "bytes_table.hpp"

namespace outrider {
const Kernels* neon_bytes() {
    static const Kernels table = make_bytes<neon_kernels>();
    return &table;
}
}  // namespace outrider
