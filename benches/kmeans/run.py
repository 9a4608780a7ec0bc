#!/usr/bin/env python3
"""Compares k-means on path bits with scikit-learn's `KMeans(n_init=10)`.

    benches/kmeans/run.py [PATHS ...] [--clusters 1 4 7 10] [--threads 2] [--rounds 5]

PATHS is a decision graph, or what `npcov explain --alpha A --output PATHS.npz`
writes: `path.0`, `path.1`, ... (inputs x neurons, bool) and `prediction`. Every
predicted class is clustered by itself; seconds and inertias are sums over the
classes. Without a file, made-up bits of two sizes are clustered: SADL-1 on MNIST
(6000 x 256) and VGG16 on CIFAR-10 (5000 x 4224).

scikit-learn gets its floats ready-made, in the faster of float32 and float64,
which the first round finds. Both programs take turns, so that a slow moment of
the machine meets both, and the best time counts. The two float types can end in different clusters: the
inertia ratio is to the lower inertia of the two, whichever was faster. Needs requirements.txt beside this file, and cargo.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--clusters", nargs="*", type=int, default=[1, 4, 7, 10])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()

    # Read when scikit-learn and its BLAS are loaded.
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(options.threads)
    program = build()
    inputs = {p.stem: lambda p=p: classes(p) for p in options.paths} or {
        "SADL-1 size": lambda: [synthetic(6000, 256, 0.1)],
        "VGG16 size": lambda: [synthetic(5000, 4224, 0.3)],
    }
    print(f"{options.threads} threads, best of {options.rounds} rounds\n")
    print("| paths | classes | rows | bits | k | scikit-learn s | npcov s | ratio | inertia ratio |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, read in inputs.items():
        groups = read()
        rows = sum(len(group) for group in groups)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "bits"
            write(groups, file)
            for k in options.clusters:
                # scikit-learn refuses more clusters than rows.
                small = [group for group in groups if len(group) < k]
                if small:
                    sys.exit(f"{name}: a class has {len(small[0])} rows, fewer than {k} clusters")
                theirs, ours = compare(groups, file, program, k, options)
                print(
                    f"| {name} | {len(groups)} | {rows} | {groups[0].shape[1]} | {k} "
                    f"| {theirs[0]:.4f} | {ours[0]:.4f} | {theirs[0] / ours[0]:.1f} "
                    f"| {ours[1] / max(theirs[1], 1e-300):.5f} |",
                    flush=True,
                )


def build():
    """The path of the timing program."""
    command = ["cargo", "build", "--release", "-p", "npcov-paths", "--example", "kmeans_time"]
    command.append("--message-format=json-render-diagnostics")
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE)
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    return next(m["executable"] for m in messages if m.get("executable"))


def classes(path):
    """The path bits of a file, one array for every predicted class."""
    import numpy as np

    if path.suffix == ".npz":
        with np.load(path) as arrays:
            count = sum(name.startswith("path.") for name in arrays)
            layers = [arrays[f"path.{i}"] for i in range(count)]
            prediction = arrays["prediction"]
    else:
        layers, prediction = graph(path)
    bits = np.concatenate(layers, axis=1)
    return [bits[prediction == label] for label in np.unique(prediction)]


def graph(path):
    """The training paths of a decision graph, by layer, and the predicted classes."""
    import numpy as np

    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        start = file.tell()
    record = json.loads(header.pop("__metadata__")["npcov"])

    def tensor(name, dtype):
        entry = header[name]
        count = int(np.prod(entry["shape"]))
        begin = start + entry["data_offsets"][0]
        return np.fromfile(path, dtype, count, offset=begin).reshape(entry["shape"])

    layers = []
    for i, layer in enumerate(record["extraction"]["layers"]):
        words = tensor(f"path.{i}", "<u8")
        bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")
        layers.append(bits[:, : layer["neurons"]].astype(bool))
    return layers, tensor("prediction", "<u4")


def synthetic(rows, neurons, off, seed=0):
    """Bits like those of paths: a few prototypes, and neurons that differ in how often
    they leave them. A share `off` of the neurons is on no path; about 35 % are on one."""
    import numpy as np

    rng = np.random.default_rng(seed)
    prototypes = 6
    common = rng.random(neurons)
    # Every prototype shares most of its neurons with the others.
    own = np.where(rng.random((prototypes, neurons)) < 0.3, rng.random((prototypes, neurons)), common)
    prototype = own < 0.35 / (1 - off)
    flip = rng.beta(0.7, 2.5, neurons)
    member = rng.choice(prototypes, rows, p=rng.dirichlet(np.full(prototypes, 3.0)))
    # A flipped neuron is drawn anew, which keeps the density.
    anew = rng.random((rows, neurons)) < 2 * flip
    bits = np.where(anew, rng.random((rows, neurons)) < 0.35 / (1 - off), prototype[member])
    bits[:, rng.random(neurons) < off] = False
    return bits


def write(groups, path):
    """For each group: rows and words per row as u64, then the rows, bit 0 first."""
    import numpy as np

    with open(path, "wb") as file:
        for bits in groups:
            words = -(-bits.shape[1] // 64)
            padded = np.zeros((len(bits), words * 64), bool)
            padded[:, : bits.shape[1]] = bits
            file.write(np.array([len(bits), words], "<u8").tobytes())
            file.write(np.packbits(padded, axis=1, bitorder="little").tobytes())


def compare(groups, file, program, k, options):
    """Best seconds, and inertia, of scikit-learn and of npcov."""
    import numpy as np

    floats = {dtype: [g.astype(dtype) for g in groups] for dtype in (np.float32, np.float64)}
    trials = {dtype: sklearn(floats[dtype], k) for dtype in floats}
    fastest = min(trials, key=lambda dtype: trials[dtype][0])
    arrays = floats[fastest]
    theirs, ours = [trials[fastest]], []
    for turn in range(options.rounds):
        if turn > 0:
            theirs.append(sklearn(arrays, k))
        command = [program, str(file), str(k), str(options.threads)]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        ours.append(tuple(map(float, printed.split())))
    lowest = min(inertia for _, inertia in trials.values())
    return (min(theirs)[0], lowest), min(ours)


def sklearn(arrays, k):
    """Seconds and inertia, summed over the classes."""
    import warnings

    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    warnings.simplefilter("ignore", ConvergenceWarning)
    start = time.perf_counter()
    fits = [KMeans(n_clusters=k, n_init=10, random_state=0).fit(array) for array in arrays]
    return time.perf_counter() - start, float(sum(fit.inertia_ for fit in fits))


if __name__ == "__main__":
    main()
