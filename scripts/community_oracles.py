#!/usr/bin/env python3
"""What other people's programs make of clusters by a network of neighbours.

    scripts/community_oracles.py [--fixtures fixtures]

Writes fixtures/communities.txt: points of a few bytes, some of them in groups
that overlap (`point` lines), the number of edges and the sum of the weights of
their network of neighbours, from its definition with NumPy (`network`), and for
some resolutions the modularity of what leidenalg finds, the median of eleven
seeds (`communities`): the quality of its RBConfigurationVertexPartition over
twice the sum of all weights.
Needs requirements-fixtures.txt.
"""

import argparse
from pathlib import Path

import igraph
import leidenalg
import numpy as np

NEIGHBOURS = 15
RESOLUTIONS = [0.3, 0.5, 1.0, 2.0]
SEEDS = 11


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--fixtures", type=Path, default=Path("fixtures"))
    options = parser.parse_args()

    points = overlapping_groups(np.random.default_rng(0))
    edges = neighbour_edges(points)
    weights = list(edges.values())
    lines = [f"point {' '.join(map(str, point))}" for point in points]
    lines.append(f"network {len(edges)} {sum(weights):.6f}")
    graph = igraph.Graph(n=len(points), edges=list(edges))
    for resolution in RESOLUTIONS:
        found = [communities(graph, weights, resolution, seed) for seed in range(SEEDS)]
        modularity = np.median([partition.quality() for partition in found]) / (2 * sum(weights))
        lines.append(f"communities {resolution} {modularity:.6f}")
    (options.fixtures / "communities.txt").write_text("\n".join(lines) + "\n")


def overlapping_groups(random):
    """Six groups of different sizes and widths, and points anywhere."""
    sizes, width = [120, 90, 70, 50, 30, 20], 8
    groups = [np.clip(random.normal(random.uniform(60, 190, width), 12 + 5 * i, (size, width)), 0, 255)
              for i, size in enumerate(sizes)]
    groups.append(random.uniform(0, 255, (20, width)))
    points = np.concatenate(groups).round().astype(np.int64)
    return points[random.permutation(len(points))]


def neighbour_edges(points):
    """Weights by pairs of points: the Jaccard index of both points' sets of neighbours, with themselves."""
    squared = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    sets = []
    for i, row in enumerate(squared):
        order = [j for j in np.argsort(row, kind="stable") if j != i]
        sets.append({i, *order[:NEIGHBOURS]})
    pairs = {tuple(sorted((i, int(j)))) for i, near in enumerate(sets) for j in near if i != j}
    return {(i, j): len(sets[i] & sets[j]) / len(sets[i] | sets[j]) for i, j in sorted(pairs)}


def communities(graph, weights, resolution, seed):
    return leidenalg.find_partition(
        graph, leidenalg.RBConfigurationVertexPartition, weights=weights,
        resolution_parameter=resolution, n_iterations=-1, seed=seed)


if __name__ == "__main__":
    main()
