// Where AMX is played, the kernels that it builds on are those of AVX2, whose results have the same bits.
#include "kernels.hpp"

namespace outrider {
const Kernels* avx512_kernels() { return avx2_kernels(); }
const Kernels* avx512_bytes() { return avx2_bytes(); }
}  // namespace outrider
