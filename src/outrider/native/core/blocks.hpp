// The block formats of GGUF: what a block holds, and how it lies in a panel.
#pragma once
#include "matrix.hpp"

namespace outrider {

// One output's share of a panel of a block format, as floats [inputs].
void read_blocks(const Matrix& matrix, const uint8_t* panel, int lane, float* out);

}  // namespace outrider
