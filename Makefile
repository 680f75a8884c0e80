# `make demo` and `make test` set everything up by themselves; `make help` lists the rest.
PYTHON ?= python3
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help demo test check format docs bench report clean

help:  ## Say what can be made
	@grep -E '^[a-z]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 10

demo: .venv/ready  ## HalfNet of rising rank against a linear and a dense model, then every command
	$(BIN)/python examples/digits.py
	$(BIN)/halfnet data get digits
	$(BIN)/halfnet reproduce digits --specs examples/digits.toml --preset digits --results build/results
	$(BIN)/halfnet train digits --layers 'half(64, k=8)' --output build/digits.safetensors --overwrite
	$(BIN)/halfnet predict build/digits.safetensors digits --output build/predictions.csv
	$(BIN)/halfnet spectrum build/digits.safetensors
	$(BIN)/halfnet report --output build/report

test: check .venv/other-numpy  ## Lint, check types and run every test
	HALFNET_OTHER_NUMPY=.venv/other-numpy $(BIN)/python -m pytest --cov

check: .venv/ready  ## The hooks that also run before a commit
	$(BIN)/pre-commit run --all-files

format: .venv/ready  ## Put the code into shape
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: .venv/ready  ## Build the documentation in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: .venv/ready  ## Time the draws, the computation paths and half layers beside dense ones
	$(BIN)/python benchmarks/draws.py
	$(BIN)/python benchmarks/paths.py
	$(BIN)/halfnet bench

report: .venv/ready  ## Renew paper/report/ from paper/results/
	$(BIN)/halfnet report --output build/report
	rm -rf paper/report
	mkdir -p paper/report/figures
	cp build/report/report.md paper/report/
	cp build/report/figures/*.svg paper/report/figures/
	cp build/report/figures/mnist.png docs/images/

clean:  ## Remove everything that was set up or built
	rm -rf .venv site build dist .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis

# The versions are those of constraints.txt; pip itself is new enough to read dependency groups.
.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt pip
	$(BIN)/pip install --quiet --constraint constraints.txt --group dev --group docs --editable '.[all]'
	touch $@

# A second NumPy, for the test that the draws' bits do not depend on it.
.venv/other-numpy: .venv/ready
	rm -rf $@
	$(BIN)/pip install --quiet --no-deps --target $@ numpy==1.26.4
