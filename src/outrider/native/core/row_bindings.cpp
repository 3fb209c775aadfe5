// The row kernels as functions of the Python module.
#include "row_bindings.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "rows.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace outrider {
namespace {

using Row = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using MutableRow = nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Isa = std::optional<std::string>;

const RowKernels& kernels_of(const Isa& isa) {
    static const RowKernels* const best = choose_rows(nullptr);
    const RowKernels* kernels = isa ? choose_rows(isa->c_str()) : best;
    if (!kernels) throw std::invalid_argument("this processor or build has no instruction set '" + *isa + "'");
    return *kernels;
}

std::pair<float, double> weigh(Row row, float pace, double magic, const Isa& isa) {
    const RowKernels& kernels = kernels_of(isa);
    nb::gil_scoped_release release;
    const float peak = kernels.peak(row.data(), row.shape(0));
    return {peak, kernels.total(row.data(), row.shape(0), peak, pace, magic)};
}

std::pair<std::vector<int64_t>, std::vector<float>> near(Row row, float reach, const Isa& isa) {
    const RowKernels& kernels = kernels_of(isa);
    const float* const x = row.data();
    const size_t size = row.shape(0);
    std::vector<int64_t> places(std::min<size_t>(size, 4096));
    std::vector<float> below;
    nb::gil_scoped_release release;
    const float peak = kernels.peak(x, size);
    size_t held = kernels.above(x, size, peak - reach, places.data(), places.size());
    if (held > places.size()) {
        places.resize(size);
        held = kernels.above(x, size, peak - reach, places.data(), size);
    }
    places.resize(held);
    for (const int64_t place : places) below.push_back(peak - x[place]);
    return {places, below};
}

double depth(Row row, float peak, float pace, double magic, const Isa& isa) {
    const RowKernels& kernels = kernels_of(isa);
    nb::gil_scoped_release release;
    return kernels.depth(row.data(), row.shape(0), peak, pace, magic);
}

void softmax(Row row, float peak, float pace, float total, MutableRow out, const Isa& isa) {
    if (out.shape(0) != row.shape(0)) throw std::invalid_argument("out must be as long as the row");
    const RowKernels& kernels = kernels_of(isa);
    nb::gil_scoped_release release;
    kernels.softmax(row.data(), row.shape(0), peak, pace, total, out.data());
}

float share(Row row, size_t token, float peak, float pace, float total, const Isa& isa) {
    if (token >= row.shape(0)) throw std::invalid_argument("a token that is not in the row");
    float out;
    kernels_of(isa).softmax(row.data() + token, 1, peak, pace, total, &out);
    return out;
}

double excess(Row p, std::optional<Row> q, float scale, std::vector<int64_t> without, double magic, const Isa& isa) {
    const int64_t size = int64_t(p.shape(0));
    if (q && int64_t(q->shape(0)) != size) throw std::invalid_argument("p and q must be of one length");
    std::sort(without.begin(), without.end());
    if (!without.empty() && (without.front() < 0 || without.back() >= size))
        throw std::invalid_argument("a token that is left out is not in the row");
    without.push_back(size);
    const RowKernels& kernels = kernels_of(isa);
    const float *ours = p.data(), *theirs = q ? q->data() : nullptr;
    nb::gil_scoped_release release;
    double sum = 0;
    int64_t start = 0;
    for (const int64_t token : without) {
        if (token > start)
            sum += kernels.excess(ours + start, theirs ? theirs + start : nullptr, size_t(token - start), scale, magic);
        start = token + 1;
    }
    return sum;
}

std::vector<int64_t> race(Row p, uint64_t key, size_t count, const Isa& isa) {
    if (count == 0) throw std::invalid_argument("a race for no token");
    const RowKernels& kernels = kernels_of(isa);
    std::vector<int64_t> tokens;
    nb::gil_scoped_release release;
    std::vector<Arrival> found(std::min(p.shape(0), 2 * count + 512));
    size_t held = kernels.race(p.data(), p.shape(0), key, count, found.data(), found.size());
    if (held > found.size()) {
        found.resize(p.shape(0));
        held = kernels.race(p.data(), p.shape(0), key, count, found.data(), found.size());
    }
    for (size_t i = 0; i < held; ++i) tokens.push_back(found[i].token);
    std::sort(tokens.begin(), tokens.end());
    return tokens;
}

}  // namespace

void bind_rows(nb::module_& m) {
    m.def("row_weigh", &weigh, "row"_a.noconvert(), "pace"_a, "magic"_a, "isa"_a = nb::none());
    m.def("row_near", &near, "row"_a.noconvert(), "reach"_a, "isa"_a = nb::none());
    m.def("row_depth", &depth, "row"_a.noconvert(), "peak"_a, "pace"_a, "magic"_a, "isa"_a = nb::none());
    m.def("row_softmax", &softmax, "row"_a.noconvert(), "peak"_a, "pace"_a, "total"_a, "out"_a.noconvert(),
          "isa"_a = nb::none());
    m.def("row_share", &share, "row"_a.noconvert(), "token"_a, "peak"_a, "pace"_a, "total"_a, "isa"_a = nb::none());
    m.def("row_excess", &excess, "p"_a.noconvert(), "q"_a.noconvert() = nb::none(), "scale"_a = 1.0f,
          "without"_a = std::vector<int64_t>(), "magic"_a = 6.0, "isa"_a = nb::none());
    m.def("row_race", &race, "p"_a.noconvert(), "key"_a, "count"_a, "isa"_a = nb::none());
}

}  // namespace outrider
