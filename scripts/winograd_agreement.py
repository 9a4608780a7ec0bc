#!/usr/bin/env python3
"""Compares convolutions by tiles with direct ones on a trained model and real inputs.

    winograd_agreement.py --npcov FILE MODEL DATA [--divide 255] [--limit 1000] [--alpha 0.9]

Predictions must be equal, and the paths of every layer have a mean Jaccard
similarity of 0.999 at least; else it exits with 1. Further options are handed
on to `npcov explain`.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

AT_LEAST = 0.999


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("data")
    parser.add_argument("--npcov", default="target/release/npcov")
    parser.add_argument("--limit", default="1000")
    parser.add_argument("--alpha", default="0.9")
    options, others = parser.parse_known_args()

    with tempfile.TemporaryDirectory() as folder:
        direct, tiles = (explain(kernels, Path(folder), options, others) for kernels in ("direct", "winograd"))
    inputs = len(direct["prediction"])
    equal = int((direct["prediction"] == tiles["prediction"]).sum())
    logits = np.abs(direct["logits"] - tiles["logits"]).max() / np.abs(direct["logits"]).max()
    print(f"{options.model}: {inputs} inputs, {equal} predictions equal, logits differ by {logits:.1e}")
    print("layer  mean Jaccard  lowest  equal paths  relevances differ by")
    worst = 1.0
    for layer in range(sum(name.startswith("path.") for name in direct.files)):
        a, b = direct[f"path.{layer}"] != 0, tiles[f"path.{layer}"] != 0
        union = (a | b).sum(1)
        jaccard = np.where(union == 0, 1.0, (a & b).sum(1) / np.maximum(union, 1))
        r, s = direct[f"relevance.{layer}"], tiles[f"relevance.{layer}"]
        distance = np.abs(r - s).sum(1) / np.maximum(np.abs(r).sum(1), 1e-30)
        print(
            f"{layer:5}  {jaccard.mean():12.5f}  {jaccard.min():6.3f}  {(jaccard == 1).mean():11.3f}"
            f"  {np.median(distance):.1e} (median), {distance.max():.1e} (largest)"
        )
        worst = min(worst, jaccard.mean())
    sys.exit(0 if worst >= AT_LEAST and equal == inputs else 1)


def explain(kernels, folder, options, others):
    output = folder / f"{kernels}.npz"
    command = [options.npcov, "explain", options.model, "--data", options.data]
    command += ["--limit", options.limit, "--alpha", options.alpha, "--kernels", kernels]
    command += ["--output", output, *others]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return np.load(output)


if __name__ == "__main__":
    main()
