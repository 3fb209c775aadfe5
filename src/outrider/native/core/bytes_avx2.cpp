// The kernels of avx2 with activations of int8.
#include "vec_avx2.hpp"
//
#include "bytes_table.hpp"

namespace outrider {
const Kernels* avx2_bytes() {
    static const Kernels table = make_bytes<avx2_kernels>();
    return &table;
}
}  // namespace outrider
