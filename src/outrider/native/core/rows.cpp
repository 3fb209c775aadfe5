// Chooses the row kernels.
#include "rows.hpp"

#include <cstring>

#include "kernels.hpp"

namespace outrider {

const RowKernels* choose_rows(const char* name) {
    const Kernels* kernels = choose_kernels(name);
    if (!kernels) return nullptr;
#if defined(__x86_64__)
    if (std::strcmp(kernels->name, "avx2") == 0) return avx2_rows();
    if (std::strcmp(kernels->name, "portable") != 0) return avx512_rows();
#elif defined(__aarch64__)
    if (std::strcmp(kernels->name, "neon") == 0) return neon_rows();
#endif
    return portable_rows();
}

}  // namespace outrider
