// The kernels of portable with activations of int8.
#include "vec_portable.hpp"
//
#include "bytes_table.hpp"

namespace outrider {
const Kernels* portable_bytes() {
    static const Kernels table = make_bytes<portable_kernels>();
    return &table;
}
}  // namespace outrider
