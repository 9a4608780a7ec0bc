#!/usr/bin/env python3
"""Binomial probabilities by SciPy, for the test of npcov's own.

    scripts/binomial_oracle.py [--fixtures fixtures]

Writes fixtures/binomial.csv: the probability that at most `most` of `inputs` are
of a kind that each is of with probability `share`. Numbers of inputs reach from
one to millions, probabilities from 1 down to 1e-290.
Needs requirements-fixtures.txt.
"""

import argparse
from pathlib import Path

from scipy.stats import binom

INPUTS = [1, 2, 10, 37, 100, 994, 1000, 10_000, 123_457, 1_000_000, 5_000_000]
SHARES = [1e-6, 0.001, 0.02, 0.1, 0.181084, 0.5, 0.9, 0.999]
# How far from the mean, in standard deviations.
DISTANCES = [-30.0, -16.0, -8.0, -4.0, -2.0, -1.0, 0.0, 1.0, 3.0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fixtures", type=Path, default=Path("fixtures"))
    options = parser.parse_args()
    lines = ["most,inputs,share,probability"]
    for inputs in INPUTS:
        for share in SHARES:
            mean, spread = inputs * share, (inputs * share * (1 - share)) ** 0.5
            for most in sorted({int(mean + distance * spread) for distance in DISTANCES}):
                if 0 <= most < inputs:
                    probability = binom.cdf(most, inputs, share)
                    if probability > 1e-290:
                        lines.append(f"{most},{inputs},{share!r},{float(probability)!r}")
    path = options.fixtures / "binomial.csv"
    path.write_text("\n".join(lines) + "\n")
    print(f"{path}: {len(lines) - 1} probabilities")


if __name__ == "__main__":
    main()
