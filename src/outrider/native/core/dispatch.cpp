// Finds out at run time what the processor can do.
#include <cstdlib>
#include <cstring>

#include "kernels.hpp"

namespace outrider {
namespace {

const Kernels* best() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vnni"))
        return avx512_kernels();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"))
        return avx2_kernels();
#elif defined(__aarch64__)
    return neon_kernels();
#endif
    return portable_kernels();
}

}  // namespace

const Kernels* choose_kernels(const char* name) {
    if (!name) return best();
    if (std::strcmp(name, "portable") == 0) return portable_kernels();
    const Kernels* found = best();
    if (std::strcmp(name, found->name) == 0) return found;
#if defined(__x86_64__)
    if (std::strcmp(name, "avx2") == 0 && found == avx512_kernels()) return avx2_kernels();
#endif
    return nullptr;
}

}  // namespace outrider
