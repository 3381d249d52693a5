# Each target sets up what it needs on first use: harness/setup/bootstrap.py.
PYTHON ?= python3
RUN := $(PYTHON) -m harness.setup.bootstrap
# One process for each core. A file's tests stay together, where it is not marked `spread`.
PARALLEL := --numprocesses auto --maxprocesses 16 --dist loadgroup -p no:benchmark

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\): .*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

setup:  ## install what the other targets need into .venv, which they do on first use too
	@$(RUN) -c ""

report:  ## compile, check and inspect every kernel, time them if there is a GPU, and build the site
	@$(RUN) -m harness report

test-fast: lint  ## lint, types and the quick unit tests: a minute
	@$(RUN) -m pytest $(PARALLEL) -m "not gpu and not full and not slow" tests/unit tests/operators

test: lint  ## lint, and all tests that need no GPU: CI runs this
	@$(RUN) -m pytest $(PARALLEL) -m "not gpu and not full" tests/unit tests/operators tests/kernels

test-full: lint  ## everything, in every Triton (downloads those that are not here), and on a GPU the tests for it
	@$(RUN) -m pytest $(PARALLEL) --install -m "not gpu" tests/unit tests/operators tests/kernels
	@$(RUN) -m pytest --benchmark-quiet -m gpu tests/unit tests/operators tests/kernels
	@$(RUN) -m pytest --benchmark-quiet tests/regression

lint:  ## ruff, mypy, clang-format
	@$(RUN) -m harness.setup.lint

format:  ## let the same tools rewrite the files
	@$(RUN) -m harness.setup.lint --fix

clean:  ## remove what can be made again: builds, the site, .venv
	rm -rf .venv build reports/site .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

clean-all:  ## list fresh runs and saved baselines, which a GPU may have measured, and remove them too
	@find reports/runs .benchmarks -type f 2> /dev/null | sort
	rm -rf reports/runs .benchmarks
	@$(MAKE) --no-print-directory clean

.PHONY: help setup report test-fast test test-full lint format clean clean-all
