# Each target sets up what it needs on first use: harness/bootstrap.py.
PYTHON ?= python3
RUN := $(PYTHON) -m harness.bootstrap

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\): .*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

report:  ## compile, check and inspect every kernel, time them if there is a GPU, and build the site
	@$(RUN) -m harness report

test: lint  ## lint and run the tests that need no GPU
	@$(RUN) -m pytest -m "not gpu and not full" --benchmark-quiet

test-full: lint  ## every test: the full products, and the GPU tests where there is a GPU
	@$(RUN) -m pytest --benchmark-quiet

lint:  ## ruff, mypy, clang-format
	@$(RUN) -m harness.lint

format:  ## let the same tools rewrite the files
	@$(RUN) -m harness.lint --fix

clean:  ## remove builds, fresh runs, the site and .venv; recorded rows stay
	rm -rf .venv build reports/runs reports/site .pytest_cache .mypy_cache .ruff_cache .benchmarks
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: help report test test-full lint format clean
