// Stands in for the kernels of AVX-512 in a build that leaves them out.
#include "kernels.hpp"
#include "rows.hpp"

namespace outrider {
const Kernels* avx512_kernels() { return nullptr; }
const Kernels* avx512_bytes() { return nullptr; }
const RowKernels* avx512_rows() { return nullptr; }
}  // namespace outrider
