// Weights of one linear layer, packed into panels of 16 outputs.
#pragma once
#include <memory>
#include <string>

#include "buffer.hpp"
#include "kernels.hpp"

namespace outrider {

struct Matrix {
    Format format;
    int outputs, inputs;  // as the model names them; panels are padded to 16 and 32 with zeros
    size_t panel_bytes = 0;
    float largest = 0;    // largest absolute value that went in
    Buffer data{};

    int panels() const { return round_up(outputs, kLanes) / kLanes; }
    int padded_inputs() const { return round_up(inputs, kBlock); }
    // One past the end is an address to ask memory for in vain, never to read.
    const uint8_t* panel(int index) const { return data.as<uint8_t>() + size_t(index) * panel_bytes; }
    bool quantised() const { return format >= Format::I8; }
    // The weights of one output as floats, [inputs].
    void read(int output, float* out) const;
};

// Names as in Python: "fp32", "fp16", "bf16", "int8", "q4_0" …; std::invalid_argument for others.
Format format_of(const std::string& name);
const char* name_of(Format format);

// weights [outputs][inputs] to fp32, fp16, bf16 or int8 (one scale an output).
Matrix pack_floats(const float* weights, int outputs, int inputs, Format format, int threads);
// raw: the tensor's bytes as they lie in a GGUF file, `bytes` of them; std::invalid_argument where the size
// doesn't fit. `order [outputs]`, where given, names for each output the row of the file that holds it.
Matrix pack_blocks(const uint8_t* raw, size_t bytes, int outputs, int inputs, Format format, const int32_t* order,
                   int threads);
// The same weights in the format `to`: fp32, fp16, bf16 or int8.
Matrix convert_blocks(const uint8_t* raw, size_t bytes, int outputs, int inputs, Format format, Format to,
                      const int32_t* order, int threads);
// Weights that were packed before and lie in memory of `owner`, which is kept; nothing is copied.
// std::invalid_argument where their size or their boundary, 64 bytes, doesn't fit.
Matrix matrix_over(const uint8_t* panels, size_t bytes, std::shared_ptr<const void> owner, Format format, int outputs,
                   int inputs, float largest);

}  // namespace outrider
