#!/usr/bin/env python3
"""How exact convolutions by tiles are on a trained model and real images.

    exactness.py MODEL DATA [--limit 256] [--divide 255] [--exactness target/release/examples/exactness]

Hands images to the example `exactness` of `npcov-engine`, which counts activations that are falsely
non-zero and max-pool windows with another winner than direct kernels choose. Such windows of ONNX Runtime are counted
beside them: where two sums are as close as a program rounds, each program has its own winner. DATA is a folder as
`make data` writes it: test images of MNIST's kind, or of CIFAR-10. Needs requirements-test.txt.
"""

import argparse
import gzip
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

# Inputs that the example compares at a time.
PART = 64


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("data")
    parser.add_argument("--limit", type=int, default=256)
    parser.add_argument("--divide", type=float, default=255)
    parser.add_argument("--exactness", default="target/release/examples/exactness")
    options = parser.parse_args()
    images = read(Path(options.data))[: options.limit].astype(np.float32) / options.divide
    with tempfile.NamedTemporaryFile() as file, tempfile.NamedTemporaryFile() as pooled:
        images.astype("<f4").tofile(file.name)
        subprocess.run([options.exactness, options.model, file.name, pooled.name], check=True)
        live, others = winners(options.model, images, np.memmap(pooled.name, "<f4", "r"))
    print(f"{others} of {live} live windows have another winner in ONNX Runtime")


def winners(path, images, direct):
    """Live windows, and those whose first maximum is elsewhere in ONNX Runtime than by direct kernels."""
    model = onnx.load(path)
    pools = [node for node in model.graph.node if node.op_type == "MaxPool"]
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=pool.input[0]) for pool in pools)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (name, shape) = [(x.name, x.shape) for x in session.get_inputs()][0]
    live, others, at = 0, 0, 0
    for first in range(0, len(images), PART):
        part = images[first : first + PART]
        for pool, theirs in zip(pools, session.run(None, {name: part.reshape(-1, *shape[1:])})):
            ours = direct[at : at + theirs.size].reshape(theirs.shape)
            at += theirs.size
            ours, theirs = (windows(pool, x) for x in (ours, theirs))
            alive = ours.max(axis=-1) > 0
            live += alive.sum()
            others += (alive & (ours.argmax(axis=-1) != theirs.argmax(axis=-1))).sum()
    return live, others


def windows(pool, x):
    """What each window of a pool without padding sees, as the last axis."""
    given = {a.name: onnx.helper.get_attribute_value(a) for a in pool.attribute}
    if any(given.get("pads", [])) or given.get("ceil_mode"):
        sys.exit("only pools without padding are compared")
    rows, cols = given.get("strides", [1, 1])
    seen = np.lib.stride_tricks.sliding_window_view(x, given["kernel_shape"], axis=(2, 3))
    seen = seen[:, :, ::rows, ::cols]
    return seen.reshape(*seen.shape[:4], -1)


def read(folder):
    """The bytes of the test images, one row for each."""
    idx = folder / "t10k-images-idx3-ubyte.gz"
    if idx.exists():
        return np.frombuffer(gzip.decompress(idx.read_bytes()), np.uint8, offset=16).reshape(-1, 28 * 28)
    rows = np.fromfile(folder / "test_batch.bin", np.uint8).reshape(-1, 1 + 3 * 32 * 32)
    return rows[:, 1:]


if __name__ == "__main__":
    main()
