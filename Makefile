# make          set up, run the default study, print its summary and where the report is
# make test     set up, run all checks and tests
# make plan     what the study will take: time, memory, disk
# make status   which of its files exist, and what is missing
# make smoke    the study on five items, in results/smoke
# make TORCH=cpu    on Linux without a GPU: the small CPU build of torch
PYTHON ?= python3
CORES ?= all
TORCH ?=
CONFIG ?= config.yaml
VENV := .venv
BIN := $(VENV)/bin
SNAKEMAKE := $(BIN)/snakemake --cores $(CORES)
TORCH_INDEX := $(if $(filter cpu,$(TORCH)),--extra-index-url https://download.pytorch.org/whl/cpu)

.PHONY: study plan status smoke test lint lock clean

study: $(VENV)/.ready
	$(SNAKEMAKE)
	@cat results/summary.txt

smoke: $(VENV)/.ready
	$(SNAKEMAKE) resources/models/bundled/smollm2-135m
	$(SNAKEMAKE) --directory results/smoke --configfile config.smoke.yaml
	@cat results/smoke/results/summary.txt

test: lint
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

lint: $(VENV)/.ready
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/snakemake --lint

$(VENV)/.ready: requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Backfire needs Python 3.11 or newer and this is %s; name another with: make PYTHON=..." % sys.version.split()[0] or 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet $(TORCH_INDEX) -r requirements.lock
	@touch $@

plan: $(VENV)/.ready
	@PYTHONPATH=workflow $(BIN)/python -m backfire.commands plan $(CONFIG)

status: $(VENV)/.ready
	@PYTHONPATH=workflow $(BIN)/python -m backfire.commands status $(CONFIG)

lock: $(VENV)/.ready
	$(BIN)/pip freeze | sed 's/+cpu//' > requirements.lock

clean:
	rm -rf results .snakemake
