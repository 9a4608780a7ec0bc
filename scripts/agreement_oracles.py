#!/usr/bin/env python3
"""What other people's programs make of clusters beside kinds.

    scripts/agreement_oracles.py

Writes fixtures/cluster-agreement.txt: divisions of inputs into clusters and
into kinds, and how they agree, by scikit-learn.
Needs requirements-fixtures.txt.
"""

from pathlib import Path

import numpy as np
import sklearn
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.cluster import contingency_matrix

FILE = Path(__file__).resolve().parent.parent / "fixtures" / "cluster-agreement.txt"


def cases():
    """By hand: the same, nothing in common, one cluster, each alone. Then random ones, more and less alike."""
    yield [0, 0, 1, 1, 2], [5, 5, 0, 0, 1]
    yield [0, 1, 0, 1], [3, 3, 4, 4]
    yield [0, 0, 0, 0, 0, 0], [1, 1, 1, 2, 2, 2]
    yield [0, 0, 0], [4, 4, 4]
    yield [0, 1, 2, 3], [0, 1, 2, 3]
    yield [0, 0, 1, 1, 1, 2], [0, 0, 0, 1, 1, 1]
    random = np.random.default_rng(0)
    for inputs, kinds, clusters, alike in [(40, 3, 3, 0.9), (60, 5, 7, 0.7), (60, 5, 2, 0.7), (50, 4, 4, 0.0)]:
        kind = random.integers(0, kinds, inputs)
        keep = random.random(inputs) < alike
        yield np.where(keep, kind % clusters, random.integers(0, clusters, inputs)), kind


def main():
    lines = [f"# clusters | kinds | adjusted Rand index | purity; scikit-learn {sklearn.__version__}"]
    for clusters, kinds in cases():
        table = contingency_matrix(kinds, clusters)
        numbers = [adjusted_rand_score(kinds, clusters), table.max(0).sum() / table.sum()]
        words = [" ".join(map(str, part)) for part in (clusters, kinds)]
        lines.append(" | ".join(words + [repr(float(number)) for number in numbers]))
    FILE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
