// The Python module.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "bandwidth.hpp"
#include "pass.hpp"
#include "row_bindings.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace outrider {
namespace {

using Floats1 = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Floats2 = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Bytes = nb::ndarray<const uint8_t, nb::c_contig, nb::device::cpu>;
using Order = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
// What is written to is taken as it is, never converted: the results would land in a copy.
using MutableFloats = nb::ndarray<float, nb::c_contig, nb::device::cpu>;

int narrow(size_t n) {
    if (n > size_t(1) << 30) throw std::invalid_argument("a size is too large");
    return int(n);
}

std::shared_ptr<Matrix> shared(Matrix m) { return std::make_shared<Matrix>(std::move(m)); }

std::shared_ptr<Matrix> pack(Floats2 weights, const std::string& format, int threads) {
    const int outputs = narrow(weights.shape(0)), inputs = narrow(weights.shape(1));
    const Format kind = format_of(format);
    nb::gil_scoped_release release;
    return shared(pack_floats(weights.data(), outputs, inputs, kind, threads));
}

std::shared_ptr<Matrix> pack_raw(Bytes raw, int outputs, int inputs, const std::string& format,
                                 std::optional<Order> order, int threads, std::optional<std::string> to) {
    const Format kind = format_of(format), wanted = to ? format_of(*to) : kind;
    if (order && narrow(order->shape(0)) != outputs) throw std::invalid_argument("order must name every output");
    const int32_t* rows = order ? order->data() : nullptr;
    nb::gil_scoped_release release;
    if (to) return shared(convert_blocks(raw.data(), raw.nbytes(), outputs, inputs, kind, wanted, rows, threads));
    return shared(pack_blocks(raw.data(), raw.nbytes(), outputs, inputs, kind, rows, threads));
}

std::shared_ptr<Matrix> over(Bytes panels, const std::string& format, int outputs, int inputs, float largest) {
    return shared(matrix_over(panels.data(), panels.nbytes(), std::make_shared<Bytes>(panels), format_of(format),
                              narrow(outputs), narrow(inputs), largest));
}

const std::pair<const char*, Weights Layer::*> kMatrices[] = {
    {"q", &Layer::q}, {"k", &Layer::k}, {"v", &Layer::v}, {"o", &Layer::o},
    {"gate", &Layer::gate}, {"up", &Layer::up}, {"down", &Layer::down}};
const std::pair<const char*, Vector Layer::*> kVectors[] = {
    {"input_norm", &Layer::input_norm}, {"hidden_norm", &Layer::hidden_norm}, {"mlp_norm", &Layer::mlp_norm},
    {"q_norm", &Layer::q_norm}, {"k_norm", &Layer::k_norm}, {"q_bias", &Layer::q_bias}, {"k_bias", &Layer::k_bias},
    {"v_bias", &Layer::v_bias}, {"o_bias", &Layer::o_bias}, {"gate_bias", &Layer::gate_bias},
    {"up_bias", &Layer::up_bias}, {"down_bias", &Layer::down_bias}};

// Puts a part of a layer where its name says; a part that would not be honoured is refused.
void put_part(Layer& layer, const std::string& name, nb::handle value) {
    for (const auto& [known, member] : kMatrices)
        if (name == known) {
            if (!nb::try_cast(value, layer.*member)) throw std::invalid_argument(name + " must be a Matrix");
            return;
        }
    for (const auto& [known, member] : kVectors)
        if (name == known) {
            Floats1 array;
            if (value.is_none()) return;
            if (!nb::try_cast(value, array)) throw std::invalid_argument(name + " must be an array of float32, [size]");
            (layer.*member).assign(array.data(), array.data() + array.shape(0));
            return;
        }
    throw std::invalid_argument("a layer has no part '" + name + "'");
}

void add_layer(Decoder& decoder, nb::dict parts, int window, bool normed_residual) {
    Layer layer;
    for (auto [name, value] : parts) put_part(layer, nb::cast<std::string>(name), value);
    layer.window = window, layer.normed_residual = normed_residual;
    nb::gil_scoped_release release;
    decoder.change([&](Model& model) { model.add_layer(std::move(layer)); });
}

void set_top(Decoder& decoder, std::shared_ptr<Matrix> embedding, Floats1 norm, std::shared_ptr<Matrix> head) {
    nb::gil_scoped_release release;
    decoder.change([&](Model& model) {
        model.set_top(embedding, Vector(norm.data(), norm.data() + norm.shape(0)), head);
    });
}

void set_fusion(Decoder& decoder, std::shared_ptr<Matrix> matrix, std::optional<Floats1> bias,
                std::optional<Floats1> norm, int parts) {
    auto vector = [](const std::optional<Floats1>& array) {
        return array ? Vector(array->data(), array->data() + array->shape(0)) : Vector();
    };
    nb::gil_scoped_release release;
    decoder.change([&](Model& model) { model.set_fusion({matrix, vector(bias), vector(norm), parts}); });
}

void set_rotation(Decoder& decoder, Floats2 cos, Floats2 sin) {
    const size_t half = decoder.model().shape.dim / 2;
    if (cos.shape(1) != half || sin.shape(1) != half || cos.shape(0) != sin.shape(0))
        throw std::invalid_argument("cos and sin must be [positions, dim / 2]");
    const int positions = narrow(cos.shape(0));
    nb::gil_scoped_release release;
    decoder.change([&](Model& model) { model.set_rotation(cos.data(), sin.data(), positions); });
}

std::unique_ptr<Decoder> make_decoder(int vocab, int hidden, int inner, int heads, int kv_heads, int dim, float eps,
                                      std::optional<std::string> isa, std::optional<int> outputs, bool bytes) {
    const Kernels* kernels = choose_kernels(isa ? isa->c_str() : nullptr);
    if (!kernels) throw std::invalid_argument("this processor or build has no instruction set '" + *isa + "'");
    if (bytes) kernels = kernels->with_bytes();
    return std::make_unique<Decoder>(Model({vocab, hidden, inner, heads, kv_heads, dim, eps, outputs.value_or(vocab)}), *kernels);
}

void check_rows(const std::optional<Floats2>& array, const char* message, size_t rows, size_t width) {
    if (array && (array->shape(0) != rows || array->shape(1) != width)) throw std::invalid_argument(message);
}

void run(Decoder& decoder, std::vector<int64_t> tokens, std::vector<int64_t> positions, std::vector<int64_t> sequences,
         std::vector<int64_t> parents, std::vector<int64_t> wanted, std::vector<Cache*> caches, int threads,
         MutableFloats logits, std::optional<std::vector<int>> layers, std::vector<int> captured,
         std::optional<MutableFloats> hidden, std::optional<Floats2> inputs, std::optional<Floats2> features,
         std::optional<MutableFloats> states, bool normed, bool grows) {
    const Model& model = decoder.model();
    const size_t rows = tokens.size(), width = model.shape.hidden;
    for (const Cache* cache : caches)
        if (!cache) throw std::invalid_argument("None is not a cache");
    check_rows(inputs, "inputs must be [rows, hidden]", rows, width);
    const size_t wide = features ? features->shape(1) : 0;
    check_rows(features, "features must be [rows, width]", rows, wide);
    if (states && states->size() != wanted.size() * width) throw std::invalid_argument("states must be [wanted, hidden]");
    if (logits.size() != wanted.size() * model.shape.outputs)
        throw std::invalid_argument("logits must be [wanted, vocabulary]");
    if (hidden ? hidden->size() != captured.size() * rows * width : !captured.empty())
        throw std::invalid_argument("hidden must be [captured, rows, hidden]");
    Options options{{}, std::move(captured), normed};
    if (layers) options.layers = std::move(*layers);
    else
        for (int i = 0; i < int(model.layers.size()); ++i) options.layers.push_back(i);
    const Batch batch{std::move(tokens), std::move(positions), std::move(sequences), std::move(parents), std::move(wanted),
                      grows};
    const Floats floats{inputs ? inputs->data() : nullptr, features ? features->data() : nullptr, wide, logits.data(),
                        hidden ? hidden->data() : nullptr, states ? states->data() : nullptr};
    nb::gil_scoped_release release;
    decoder.run(batch, caches, options, threads, floats);
}

void head(Decoder& decoder, Floats2 hidden, int threads, MutableFloats logits) {
    const Shape& shape = decoder.model().shape;
    const int rows = narrow(hidden.shape(0));
    if (int64_t(hidden.shape(1)) != shape.hidden) throw std::invalid_argument("hidden must be [rows, hidden]");
    if (logits.size() != size_t(rows) * shape.outputs) throw std::invalid_argument("logits must be [rows, vocabulary]");
    nb::gil_scoped_release release;
    decoder.head(hidden.data(), rows, threads, logits.data());
}

}  // namespace

NB_MODULE(_core, m) {
    m.doc() = "The decoder's whole pass in C++, and the sampler's work on a row.";
    nb::set_leak_warnings(false);  // a program may well end with a model still loaded
    nb::exception<Cancelled>(m, "Cancelled");

    nb::class_<Matrix>(m, "Matrix")
        .def_prop_ro("format", [](const Matrix& w) { return name_of(w.format); })
        .def_ro("outputs", &Matrix::outputs)
        .def_ro("inputs", &Matrix::inputs)
        .def_ro("largest", &Matrix::largest)
        .def_prop_ro("nbytes", [](const Matrix& w) { return w.data.bytes(); })
        .def("panels", [](nb::handle self) {
                const Matrix& w = nb::cast<const Matrix&>(self);
                return nb::ndarray<nb::numpy, const uint8_t, nb::ndim<1>>(w.data.as<uint8_t>(), {w.data.bytes()}, self);
            })
        .def("read", [](const Matrix& w, int output, MutableFloats out) {
                if (output < 0 || output >= w.outputs || int(out.size()) != w.inputs)
                    throw std::invalid_argument("no such output, or out is not [inputs]");
                w.read(output, out.data());
            }, "output"_a, "out"_a.noconvert());
    m.def("pack", &pack, "weights"_a, "format"_a, "threads"_a = 1);
    m.def("pack_blocks", &pack_raw, "raw"_a.noconvert(), "outputs"_a, "inputs"_a, "format"_a,
          "order"_a.noconvert() = nb::none(), "threads"_a = 1, "to"_a = nb::none());
    m.def("matrix_over", &over, "panels"_a.noconvert(), "format"_a, "outputs"_a, "inputs"_a, "largest"_a);

    nb::class_<Page>(m, "Page").def_prop_ro("nbytes", &Page::bytes);
    m.attr("PAGE_SLOTS") = kSlots;

    nb::class_<Cache>(m, "Cache")
        .def(nb::init<int, int, int, std::vector<Page>>(), "layers"_a, "kv_heads"_a, "dim"_a,
             "pages"_a = std::vector<Page>())
        .def_prop_ro("length", &Cache::length)
        .def_prop_ro("nbytes", &Cache::bytes)
        .def_prop_ro("page_bytes", &Cache::page_bytes)
        .def("pages", &Cache::pages, "count"_a)
        .def("keep", &Cache::keep, "rows"_a)
        .def("truncate", &Cache::truncate, "length"_a)
        .def("read", [](Cache& cache, int layer, int head, int slot, MutableFloats key, MutableFloats value) {
                if (int(key.size()) != cache.dim() || int(value.size()) != cache.dim())
                    throw std::invalid_argument("key and value must be [dim]");
                cache.read(layer, head, slot, key.data(), value.data());
            }, "layer"_a, "head"_a, "slot"_a, "key"_a.noconvert(), "value"_a.noconvert());

    nb::class_<Decoder>(m, "Decoder")
        .def_prop_ro("isa", [](const Decoder& d) { return d.kernels().name; })
        .def_prop_ro("threads", &Decoder::threads)
        .def("add_layer", &add_layer, "parts"_a, "window"_a = 0, "normed_residual"_a = false)
        .def("set_fusion", &set_fusion, "matrix"_a, "bias"_a = nb::none(), "norm"_a = nb::none(), "parts"_a = 1)
        .def("set_top", &set_top, "embedding"_a, "norm"_a, "head"_a)
        .def("set_rotation", &set_rotation, "cos"_a, "sin"_a)
        .def("run", &run, "tokens"_a, "positions"_a, "sequences"_a, "parents"_a, "wanted"_a, "caches"_a, "threads"_a,
             "logits"_a.noconvert(), "layers"_a = nb::none(), "captured"_a = std::vector<int>(),
             "hidden"_a.noconvert() = nb::none(), "inputs"_a = nb::none(), "features"_a = nb::none(),
             "states"_a.noconvert() = nb::none(), "normed"_a = false, "grows"_a = false)
        .def("head", &head, "hidden"_a.noconvert(), "threads"_a, "logits"_a.noconvert())
        .def("cancel", &Decoder::cancel);
    m.def("make_decoder", &make_decoder, "vocab"_a, "hidden"_a, "inner"_a, "heads"_a, "kv_heads"_a, "dim"_a, "eps"_a,
          "isa"_a = nb::none(), "outputs"_a = nb::none(), "bytes"_a = false);

    nb::class_<Reader>(m, "Reader")
        .def(nb::init<size_t, int>(), "bytes"_a, "threads"_a)
        .def_prop_ro("nbytes", &Reader::bytes)
        .def_prop_ro("sum", &Reader::sum)
        .def("seconds", &Reader::seconds, nb::call_guard<nb::gil_scoped_release>());

    bind_rows(m);
}

}  // namespace outrider
