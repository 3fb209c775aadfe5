// Finds out at run time what the processor can do.
#include <cstdlib>
#include <cstring>

#include "kernels.hpp"
#if defined(OUTRIDER_TILES) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace outrider {
namespace {

// The kernels with AMX, or null: where the processor has none for bf16, or the system, which must be asked, does not
// let this process use its registers.
const Kernels* amx_if_allowed() {
#if defined(OUTRIDER_PLAYED_TILES)
    return amx_kernels();
#elif defined(OUTRIDER_TILES) && defined(__linux__)
    static const bool allowed = [] {
        constexpr unsigned kBf16 = 1u << 22, kTiles = 1u << 24;
        unsigned a, b, c, d;
        if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & (kBf16 | kTiles)) != (kBf16 | kTiles)) return false;
        constexpr long kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
        return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
    }();
    if (allowed) return amx_kernels();
#endif
    return nullptr;
}

const Kernels* best() {
#if defined(OUTRIDER_PLAYED_TILES)
    return amx_kernels();
#elif defined(__x86_64__)
    __builtin_cpu_init();
    if (avx512_kernels() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vnni"))
        return amx_if_allowed() ? amx_if_allowed() : avx512_kernels();
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
    const bool amx = found == amx_if_allowed();
    if (std::strcmp(name, "avx512") == 0 && amx) return avx512_kernels();
    if (std::strcmp(name, "avx2") == 0 && (amx || found == avx512_kernels())) return avx2_kernels();
#endif
    return nullptr;
}

}  // namespace outrider
