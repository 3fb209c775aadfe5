// Panels that lie in the cache as fp32, for many rows, times one group of them. Nothing is asked of memory and
// nothing waits, so the sums run as fast as the multipliers allow; they run in the order of `add_floats`, so their
// bits are the same. The first group finds 16-bit weights as they are stored and leaves them widened for the
// others: exact, and beside its products nearly free. Included by the instruction set's file.
#pragma once

namespace {

// `wide`: where the panels go in fp32, one after another, unless they are.
template <class W, int panels, int rows>
void near_rows(const uint8_t* const* w, int inputs, float* wide, const float* x, const Results& out) {
    F acc[panels][rows];
#pragma GCC unroll 2
    for (int p = 0; p < panels; ++p)
#pragma GCC unroll 16
        for (int r = 0; r < rows; ++r) acc[p][r] = set1(0.0f);
    // Two inputs a turn: with more, compilers run out of registers.
    for (int k = 0; k < inputs; k += 2, x += 2 * rows)
#pragma GCC unroll 2
        for (int i = 0; i < 2; ++i) {
            F v[panels];
#pragma GCC unroll 2
            for (int p = 0; p < panels; ++p) {
                v[p] = W::read(w[p] + W::bytes(k + i));
                if constexpr (W::bytes(1) < F32::bytes(1)) store(wide + (size_t(p) * inputs + k + i) * 16, v[p]);
            }
#pragma GCC unroll 16
            for (int r = 0; r < rows; ++r) {
                const F value = set1(x[i * rows + r]);
#pragma GCC unroll 2
                for (int p = 0; p < panels; ++p) acc[p][r] = fma(v[p], value, acc[p][r]);
            }
        }
#pragma GCC unroll 2
    for (int p = 0; p < panels; ++p)
#pragma GCC unroll 16
        for (int r = 0; r < rows; ++r) {
            float* at = out.at + r * out.row + p * out.panel;
            store(at, out.add ? add(load(at), acc[p][r]) : acc[p][r]);
        }
}

template <class W, int rows>
void near_count(const Panels& w, int inputs, float* wide, const Tile& tile, const Results& out) {
    if constexpr (rows <= kGroupRows) {
        if (tile.rows != rows) return near_count<W, rows + 1>(w, inputs, wide, tile, out);
        if constexpr (rows <= kPairFloats) {
            if (w.count == 2) return near_rows<W, 2, rows>(w.at, inputs, wide, tile.values, out);
        }
        for (int p = 0; p < w.count; ++p)
            near_rows<W, 1, rows>(w.at + p, inputs, wide + size_t(p) * inputs * 16, tile.values,
                                  {out.at + p * out.panel, out.row, out.panel, out.add});
    }
}

void multiply_near(Format format, const Panels& w, int inputs, float* wide, const Tile& tile, const Results& out) {
    if (format == Format::F16) return near_count<F16, 1>(w, inputs, wide, tile, out);
    if (format == Format::BF16) return near_count<BF16, 1>(w, inputs, wide, tile, out);
    near_count<F32, 1>(w, inputs, wide, tile, out);
}

}  // namespace
