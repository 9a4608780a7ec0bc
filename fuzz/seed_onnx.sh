#!/bin/sh
# Fills the corpus of the target `onnx` with small models: the project's fixtures, and the node
# cases of ONNX's backend tests when NPCOV_ONNX_TESTS names their folder (see `make conformance`).
set -eu
cd "$(dirname "$0")"
mkdir -p corpus/onnx
find ../fixtures -name '*.onnx' -size -100k -exec cp {} corpus/onnx/ \;
if [ -n "${NPCOV_ONNX_TESTS:-}" ]; then
    for folder in "$NPCOV_ONNX_TESTS"/node/*/; do
        model="$folder/model.onnx"
        [ "$(wc -c < "$model")" -lt 4096 ] && cp "$model" "corpus/onnx/$(basename "$folder").onnx"
    done
fi
