# Two commands do everything on a fresh machine: `make demo` and `make test`. Both make .venv themselves.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
NATIVE := $(sort $(shell find src -name '*.[ch]'))

.PHONY: demo test test-all test-engines test-page test-ssh test-executorch test-kubernetes mutants lint format docs docs-tables install bench clean

install: .venv/installed

.venv/installed: requirements.txt pyproject.toml reproductions/pyproject.toml $(NATIVE)
	@test -n "$(PYTHON)" || { echo "Polyrhythm needs Python 3.11 or newer; none was found."; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable . --editable ./reproductions
	@touch $@

demo: install
	$(BIN)/python examples/demo.py

test: install
	$(BIN)/python -m pytest -m "not long" --in-turns --numprocesses 2 --dist loadfile --durations 25

test-all: install
	$(BIN)/python -m pytest --record-durations

.venv/mutation-installed: .venv/installed requirements-mutation.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint requirements.txt -r requirements-mutation.txt
	@touch $@

# Changes in codecs, merges and consistencies that their tests must notice. MUTANTS='polyrhythm.merge.*' tries those of some modules.
MUTANTS ?=
mutants: .venv/mutation-installed
	$(BIN)/python -m mutmut run $(MUTANTS)

# The engines and frameworks live in an environment of their own; torch is pinned for both. SLURM, MPI and Java are Debian's: as root.
.venv-engines/installed: requirements.txt requirements-engines.txt pyproject.toml reproductions/pyproject.toml $(NATIVE)
	@test -n "$(PYTHON)" || { echo "Polyrhythm needs Python 3.11 or newer; none was found."; exit 1; }
	$(PYTHON) -m venv .venv-engines
	.venv-engines/bin/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	.venv-engines/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --constraint requirements.txt -r requirements-engines.txt
	.venv-engines/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable . --editable ./reproductions
	@touch $@

test-engines: .venv-engines/installed
	engine_tests/install.sh
	@# each file in a process of its own: what one library does to a process (JAX warns of every fork, Ray and Spark stay) is not for another's tests
	find engine_tests -name 'test_*.py' | sort | xargs -n 1 .venv-engines/bin/python -m pytest

# Exported models in WebAssembly under Node, and exported pages in a headless Chromium. Both, where absent, are Debian's: as root.
test-page: install
	page_tests/install.sh
	$(BIN)/python -m pytest page_tests

# Calibration over OpenSSH on three emulated hosts, whose lines are known. Its server, where absent, is Debian's: as root, as the emulation is.
test-ssh: install
	ssh_tests/install.sh
	$(BIN)/python -m pytest -s ssh_tests

.venv-executorch/installed: requirements.txt requirements-executorch.txt pyproject.toml reproductions/pyproject.toml $(NATIVE)
	@test -n "$(PYTHON)" || { echo "Polyrhythm needs Python 3.11 or newer; none was found."; exit 1; }
	$(PYTHON) -m venv .venv-executorch
	.venv-executorch/bin/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	.venv-executorch/bin/python -m pip install --quiet --disable-pip-version-check --constraint requirements.txt -r requirements-executorch.txt
	.venv-executorch/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable . --editable ./reproductions
	@touch $@

# ExecuTorch brings much with it, so it lives in an environment of its own; its runtime runs here on the CPU.
test-executorch: .venv-executorch/installed
	.venv-executorch/bin/python -m pytest executorch_tests

# The tests of tests/kubernetes on a control plane of Kubernetes itself, which is built at the first time from Debian bookworm's packages: about
# 7 minutes at idle priority, in ~/.cache/polyrhythm/kubernetes. Without it they run on a stub, as they do in `make test`.
test-kubernetes: install
	tests/kubernetes/build.sh
	RIG=real $(BIN)/python -m pytest tests/kubernetes

lint: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# What pages state of the catalogue: tables of systems and pieces, and their numbers.
docs-tables: install
	$(BIN)/python docs/generate_tables.py

.venv/docs-installed: .venv/installed requirements-docs.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint requirements.txt -r requirements-docs.txt
	@touch $@

# The guide and the API reference as a site in site/. A warning is an error.
docs: .venv/docs-installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# The rivals live in an environment of their own. requirements.txt pins torch for both, so that no rival brings another.
.venv-bench/installed: requirements.txt requirements-bench.txt pyproject.toml reproductions/pyproject.toml $(NATIVE)
	@test -n "$(PYTHON)" || { echo "Polyrhythm needs Python 3.11 or newer; none was found."; exit 1; }
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --constraint requirements.txt -r requirements-bench.txt
	.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable . --editable ./reproductions
	@# DeepSpeed compiles its shared-memory collectives at first use, for minutes, and a build that is broken off locks all later ones out
	DS_ACCELERATOR=cpu .venv-bench/bin/python -c 'from deepspeed.comm.torch import build_shm_op; build_shm_op()'
	@touch $@

# About 50 minutes on two idle cores; the last three need root. Numbers go to benchmarks/results/*.json, tables to *.md beside them.
RACE ?=
RESULTS := benchmarks/results
BENCH := OMP_NUM_THREADS=1 .venv-bench/bin/python benchmarks
LAB := .venv-bench/bin/polyrhythm lab --quiet
BETWEEN := .venv-bench/bin/python benchmarks/between_hosts.py

bench: .venv-bench/installed
	@mkdir -p $(RESULTS)
	$(BENCH)/all_reduce.py --json $(RESULTS)/all_reduce.json --plot docs/all_reduce.svg > $(RESULTS)/all_reduce.md
	$(BENCH)/steps.py --json $(RESULTS)/steps.json --plot docs/steps.svg > $(RESULTS)/steps.md
	$(BENCH)/push_pull.py --json $(RESULTS)/push_pull.json > $(RESULTS)/push_pull.md
	$(BENCH)/partition_steps.py --json $(RESULTS)/partition_steps.json > $(RESULTS)/partition_steps.md
	$(BENCH)/codecs.py --json $(RESULTS)/codecs.json > $(RESULTS)/codecs.md
	$(BENCH)/topic_models.py --json $(RESULTS)/topic_models.json > $(RESULTS)/topic_models.md
	$(BENCH)/kernel.py > $(RESULTS)/kernel.md
	$(BENCH)/overhead.py --json $(RESULTS)/overhead.json > $(RESULTS)/overhead.md
	$(LAB) --hosts 2 --network benchmarks/networks/middling.json -- $(BETWEEN) --megabytes 8 --bandwidth 200e6 --latency 0.0005 > $(RESULTS)/between_2_hosts.md
	$(LAB) --hosts 3 --network slow -- $(BETWEEN) --megabytes 1 --bandwidth 50e6 --latency 0.02 > $(RESULTS)/between_3_hosts.md
	$(BENCH)/time_to_accuracy.py $(RACE) --json $(RESULTS)/time_to_accuracy.json --plot docs/time_to_accuracy.svg > $(RESULTS)/time_to_accuracy.md

clean:
	rm -rf .venv .venv-bench .venv-engines .venv-executorch build dist site src/*.egg-info .pytest_cache .mypy_cache .ruff_cache mutants
