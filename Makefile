PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEV_STAMP := $(VENV)/.installed-dev
FULL_STAMP := $(VENV)/.installed-full
AGENT_STAMP := $(VENV)/.installed-agent
SAMPLE ?= samples/fusible_subgraphs/bert-base-uncased/add_layer_norm

.PHONY: quickstart agent-demo test test-full lint install install-dev clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# torch first and pinned: an open range could replace a CPU build by a 3 GB CUDA one.
$(STAMP): requirements.txt pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e . \
	  || $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	touch $@

$(DEV_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

# Without them the tests of Ray and of training skip.
$(FULL_STAMP): $(DEV_STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,ray,train]'
	touch $@

install: $(STAMP)
install-dev: $(DEV_STAMP)

quickstart: $(STAMP)  ## evaluate one example sample on the best device there is
	$(BIN)/passbench eval $(SAMPLE) --time-budget 15

$(AGENT_STAMP): $(STAMP) pass_agent/requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r pass_agent/requirements.txt
	touch $@

agent-demo: $(AGENT_STAMP)  ## a scripted model, served over HTTP, writes a pass; needs no key and no network
	$(BIN)/python examples/run_pass_agent_demo.py --serve-script examples/demo_script.yaml \
	  --dataset datasets/scripted_demo_dataset.jsonl --exp-name agent_demo --runtime local \
	  --eval-env PASSNET_WARMUP=5 --eval-env PASSNET_TRIALS=20
	$(BIN)/passagent show trajectories/pass_agent/agent_demo/tasks/*/attempt_0

lint: $(DEV_STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint  ## the seeded slice; see test-full for the full counts
	$(BIN)/python -m pytest -n auto -m "not serial and not full"
	$(BIN)/python -m pytest -m "serial and not full"

test-full: lint $(FULL_STAMP)
	$(BIN)/python -m pytest -n auto -m "not serial"
	$(BIN)/python -m pytest -m serial

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
