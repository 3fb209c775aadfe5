// The block formats of GGUF: what a block holds, and how it lies in a panel.
#pragma once
#include "matrix.hpp"

namespace outrider {

// One output's share of a panel of a block format, as floats [inputs].
void read_blocks(const Matrix& matrix, const uint8_t* panel, int lane, float* out);
// The values of `inputs` weights as they lie in a GGUF file.
void read_raw_blocks(Format format, const uint8_t* raw, int inputs, float* out);
// Bytes of one row in a GGUF file; std::invalid_argument where a matrix of `bytes` cannot be of this shape.
size_t raw_row_bytes(Format format, size_t bytes, int outputs, int inputs, const int32_t* order);
// Bytes of a panel; std::invalid_argument for inputs that are not whole blocks.
size_t block_panel_bytes(Format format, int inputs);

}  // namespace outrider
