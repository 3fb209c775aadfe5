// Rows to columns, a few rows at a time.
#pragma once
#include <cstddef>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

namespace outrider {

// x [rows][stride], of which `count` columns (a multiple of 4), to out [count][rows].
inline void interleave(const float* x, size_t stride, int rows, int count, float* out) {
    int row = 0;
#ifdef __SSE__
    for (; row + 4 <= rows; row += 4) {
        const float* from = x + row * stride;
        float* to = out + row;
        for (int k = 0; k < count; k += 4, to += 4 * rows) {
            __m128 a = _mm_loadu_ps(from + k), b = _mm_loadu_ps(from + stride + k);
            __m128 c = _mm_loadu_ps(from + 2 * stride + k), d = _mm_loadu_ps(from + 3 * stride + k);
            _MM_TRANSPOSE4_PS(a, b, c, d);
            _mm_storeu_ps(to, a), _mm_storeu_ps(to + rows, b);
            _mm_storeu_ps(to + 2 * rows, c), _mm_storeu_ps(to + 3 * rows, d);
        }
    }
#endif
    for (; row < rows; ++row)
        for (int k = 0; k < count; ++k) out[size_t(k) * rows + row] = x[row * stride + k];
}

}  // namespace outrider
