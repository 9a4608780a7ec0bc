#!/bin/sh
# Fills the corpora. Models: the project's fixtures, and the node cases of ONNX's backend tests when
# NPCOV_ONNX_TESTS names their folder (see `make conformance`). Images and tables: those of the tests.
set -eu
cd "$(dirname "$0")"
mkdir -p corpus/onnx corpus/network corpus/external corpus/images corpus/tables
find ../fixtures -name '*.onnx' -size -100k -exec cp {} corpus/onnx/ \;
cp ../fixtures/mlp-external.onnx corpus/external/
cp ../crates/data/tests/fixtures/*.jpg corpus/images/
cp ../fixtures/prices.csv ../fixtures/prices.parquet corpus/tables/
if [ -n "${NPCOV_ONNX_TESTS:-}" ]; then
    for folder in "$NPCOV_ONNX_TESTS"/node/*/; do
        model="$folder/model.onnx"
        [ "$(wc -c < "$model")" -lt 4096 ] && cp "$model" "corpus/onnx/$(basename "$folder").onnx"
    done
fi
cp corpus/onnx/* corpus/network/
