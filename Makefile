# The set-up is part of every target; what is done already is not done again. See scripts/setup.sh.

.DEFAULT_GOAL := help
PYTHON_IN_VENV := .venv/bin/python

.PHONY: help setup demo test lint bench targets cpp-test soak asan tsan fuzz arm64 clean

help: ## show this list
	@sed -n 's/^\([a-z0-9-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 18

setup: ## Debian packages, .venv, pinned requirements, build
	@scripts/setup.sh demo

demo: ## train Fashion-MNIST on one process and on two ranks, print a table
	@scripts/setup.sh demo
	@$(PYTHON_IN_VENV) examples/demo.py

test: ## every test; ends with one line "N passed, N failed"
	@scripts/setup.sh test
	@$(PYTHON_IN_VENV) tests/run.py

bench: ## measure against raw MPI, Gloo and others in ten minutes; build/bench/report.html
	@scripts/setup.sh bench
	@$(PYTHON_IN_VENV) benchmarks/python/run.py

targets: ## compare what `make bench` measured with what must be reached
	@scripts/setup.sh demo
	@$(PYTHON_IN_VENV) benchmarks/python/targets.py

lint: ## clang-format, ruff, mypy, layers
	@scripts/setup.sh lint
	@scripts/lint.sh

cpp-test: ## the C++ tests only
	@scripts/setup.sh cpp
	@ctest --preset dev

soak: ## simulate the agreement of random jobs until stopped; prints how to replay one that fails
	@scripts/setup.sh cpp
	@build/dev/tests/cpp/hora_simulation --soak

asan: ## the C++ tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@scripts/setup.sh cpp
	@cmake --workflow --preset asan

tsan: ## the C++ tests under ThreadSanitizer
	@scripts/setup.sh cpp
	@cmake --workflow --preset tsan

fuzz: ## every reader of bytes from outside, two minutes each, under libFuzzer
	@scripts/setup.sh test
	@HORA_FUZZ_SECONDS=120 $(PYTHON_IN_VENV) -m pytest -q tests/fuzz

arm64: ## the C++ tests of vector kernels, cross-compiled, under QEMU
	@scripts/arm64.sh

clean: ## remove what was built (not .venv)
	rm -rf build dist python/*.egg-info python/hora/*.so
