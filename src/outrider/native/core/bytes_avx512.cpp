// The kernels of avx512 with activations of int8.
#include "vec_avx512.hpp"
//
#include "bytes_table.hpp"

namespace outrider {
const Kernels* avx512_bytes() {
    static const Kernels table = make_bytes<avx512_kernels>();
    return &table;
}
}  // namespace outrider
