// The part of the Python module that serves the sampler.
#pragma once
#include <nanobind/nanobind.h>

namespace outrider {
void bind_rows(nanobind::module_& m);
}
