// Packs plain float weights, and reads packed weights back.
#include <cmath>
#include <stdexcept>

#include "blocks.hpp"
#include "half.hpp"
#include "matrix.hpp"
#include "parallel.hpp"

namespace outrider {
namespace {

constexpr const char* kNames[] = {"fp32", "fp16", "bf16", "int8", "q4_0", "q4_1",
                                  "q5_0", "q5_1", "q8_0", "q4_k", "q5_k", "q6_k"};

size_t panel_bytes(Format format, int inputs) {
    const size_t weights = size_t(round_up(inputs, kBlock)) * kLanes;
    if (format > Format::I8) return block_panel_bytes(format, inputs);
    return format == Format::I8 ? 64 + weights : weights * (format == Format::F32 ? 4 : 2);
}

// The largest absolute value; what is not a number doesn't count. As integers, which compilers vectorise.
float largest_of(const float* row, int count) {
    int32_t most = 0;
    for (int k = 0; k < count; ++k) {
        const int32_t size = int32_t(bits_of(row[k]) & 0x7FFFFFFF);
        most = std::max(most, size > 0x7F800000 ? 0 : size);
    }
    return float_of(uint32_t(most));
}

// To the nearest integer, halves to even; for |x| < 2²².
float round_even(float x) { return (x + 12582912.0f) - 12582912.0f; }

void pack_plain(const float* row, int lane, Matrix& m, uint8_t* panel) {
    for (int k = 0; k < m.inputs; ++k) {
        const size_t at = size_t(k) * kLanes + lane;
        if (m.format == Format::F32) reinterpret_cast<float*>(panel)[at] = row[k];
        else if (m.format == Format::BF16) reinterpret_cast<uint16_t*>(panel)[at] = float_to_bf16(row[k]);
    }
}

// Converts in hardware, 16 values at a time, then spreads them over the panel.
void pack_half(const float* row, int lane, const Kernels& kernels, const Matrix& m, uint8_t* panel) {
    for (int k = 0; k < m.inputs; k += kLanes) {
        float values[kLanes] = {};
        uint16_t halves[kLanes];
        const int count = std::min(kLanes, m.inputs - k);
        std::copy(row + k, row + k + count, values);
        kernels.to_half(values, halves);
        for (int i = 0; i < count; ++i) reinterpret_cast<uint16_t*>(panel)[size_t(k + i) * kLanes + lane] = halves[i];
    }
}

void pack_int8(const float* row, int lane, const Matrix& m, uint8_t* panel) {
    float most = 0;
    for (int k = 0; k < m.inputs; ++k)  // a value that is not a number spoils its output, as it should
        most = row[k] == row[k] ? std::max(most, std::fabs(row[k])) : row[k];
    const float scale = std::max(most, 1e-12f) / 127;
    reinterpret_cast<float*>(panel)[lane] = scale;
    uint8_t* bytes = panel + 64;
    for (int k = 0; k < m.inputs; ++k) {
        const float n = round_even(row[k] / scale);
        bytes[size_t(k / 2) * 32 + 2 * lane + k % 2] = n == n ? uint8_t(int8_t(n)) : 0;
    }
}

template <class Row> Matrix pack_rows(int outputs, int inputs, Format format, int threads, Row row_of) {
    if (outputs < 1 || inputs < 1) throw std::invalid_argument("a weight matrix cannot be empty");
    if (format > Format::I8) throw std::invalid_argument("float weights are packed as fp32, fp16, bf16 or int8");
    Matrix m{format, outputs, inputs};
    m.panel_bytes = panel_bytes(format, inputs);
    m.data = Buffer(m.panel_bytes * m.panels());
    std::vector<float> largest(m.panels());
    const Kernels& kernels = *choose_kernels(nullptr);
    parallel_for(m.panels(), threads, [&](int p) {
        uint8_t* panel = m.data.as<uint8_t>() + p * m.panel_bytes;
        std::vector<float> space(inputs);
        for (int lane = 0; lane < kLanes && p * kLanes + lane < outputs; ++lane) {
            const float* row = row_of(p * kLanes + lane, space.data());
            largest[p] = std::max(largest[p], largest_of(row, inputs));
            if (format == Format::F16) pack_half(row, lane, kernels, m, panel);
            else if (format == Format::I8) pack_int8(row, lane, m, panel);
            else pack_plain(row, lane, m, panel);
        }
    });
    m.largest = *std::max_element(largest.begin(), largest.end());
    return m;
}

}  // namespace

Format format_of(const std::string& name) {
    for (int i = 0; i < int(std::size(kNames)); ++i)
        if (name == kNames[i]) return Format(i);
    throw std::invalid_argument("unknown weight format '" + name + "'");
}

const char* name_of(Format format) { return kNames[int(format)]; }

Matrix pack_floats(const float* weights, int outputs, int inputs, Format format, int threads) {
    return pack_rows(outputs, inputs, format, threads,
                     [=](int output, float*) { return weights + size_t(output) * inputs; });
}

Matrix convert_blocks(const uint8_t* raw, size_t bytes, int outputs, int inputs, Format format, Format to,
                      const int32_t* order, int threads) {
    const size_t row_bytes = raw_row_bytes(format, bytes, outputs, inputs, order);
    return pack_rows(outputs, inputs, to, threads, [=](int output, float* space) {
        read_raw_blocks(format, raw + row_bytes * (order ? order[output] : output), inputs, space);
        return static_cast<const float*>(space);
    });
}

Matrix matrix_over(const uint8_t* panels, size_t bytes, std::shared_ptr<const void> owner, Format format, int outputs,
                   int inputs, float largest) {
    if (outputs < 1 || inputs < 1) throw std::invalid_argument("a weight matrix cannot be empty");
    Matrix m{format, outputs, inputs};
    m.panel_bytes = panel_bytes(format, inputs), m.largest = largest;
    if (bytes != m.panel_bytes * m.panels()) throw std::invalid_argument("packed weights of another size");
    if (reinterpret_cast<uintptr_t>(panels) % 64) throw std::invalid_argument("packed weights off their boundary");
    m.data = Buffer(panels, bytes, std::move(owner));
    return m;
}

void Matrix::read(int output, float* out) const {
    const int lane = output % kLanes;
    const uint8_t* p = panel(output / kLanes);
    if (format > Format::I8) return read_blocks(*this, p, lane, out);
    for (int k = 0; k < inputs; ++k) {
        const size_t at = size_t(k) * kLanes + lane;
        switch (format) {
            case Format::F32: out[k] = reinterpret_cast<const float*>(p)[at]; break;
            case Format::F16: out[k] = half_to_float(reinterpret_cast<const uint16_t*>(p)[at]); break;
            case Format::BF16: out[k] = float_of(uint32_t(reinterpret_cast<const uint16_t*>(p)[at]) << 16); break;
            default:
                out[k] = float(int8_t(p[64 + size_t(k / 2) * 32 + 2 * lane + k % 2])) *
                         reinterpret_cast<const float*>(p)[lane];
        }
    }
}

}  // namespace outrider
