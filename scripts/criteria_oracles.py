#!/usr/bin/env python3
"""What other people's programs make of a fixture model's activations, by test criteria.

    scripts/criteria_oracles.py --npcov target/release/npcov [--fixtures fixtures]

Writes fixtures/criteria-oracles.npz: the activations of two layers of lenet.onnx
on some of fashion-1000.npz (`activation.0`, `activation.1`, `prediction`), of
which the first 600 inputs are training data and the others the suite, and an
`importance` for each neuron of the last layer. Further arrays are named after
what npcov is asked to compute the same with: `covered.SPEC` is how much a suite
covers, `scores.SPEC` one number for each of its inputs, `centroids.SPEC` the
centroids of all chosen neurons.

NAC, KMNC, NBC, SNAC, TKNC and the surprise adequacies are dnn-tip's, likelihoods
also SciPy's, buckets also NumPy's `digitize`, clusters scikit-learn's. Everything
is computed in float64. Where definitions differ, the options make them meet, and
what is left is checked here: no two neurons may tie for a place among the top
ones, and the neurons that SADL's rule leaves out, which the programs do not know,
are left out beforehand.
Needs requirements-fixtures.txt.
"""

import argparse
import subprocess
import tempfile
import warnings
from pathlib import Path

import numpy as np
from dnn_tip import neuron_coverage as neurons
from dnn_tip.surprise import DSA, LSA, MDSA, MultiModalSA, SurpriseCoverageMapper
from scipy.stats import gaussian_kde
from sklearn.cluster import KMeans
from sklearn.metrics import silhouette_score

LAYERS = ["activation.1", "activation.2"]
TRAINING = 600
SUITE = 200


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--npcov", type=Path, required=True)
    parser.add_argument("--fixtures", type=Path, default=Path("fixtures"))
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)

    layers, prediction = activations(options.npcov, options.fixtures)
    train = [layer[:TRAINING].astype(np.float64) for layer in layers]
    suite = [layer[TRAINING:].astype(np.float64) for layer in layers]
    classes = prediction[:TRAINING], prediction[TRAINING:]
    # Any numbers do; these differ from neuron to neuron.
    importance = train[1].sum(axis=0) * np.cos(np.arange(train[1].shape[1]))

    arrays = {f"activation.{i}": layer for i, layer in enumerate(layers)}
    arrays |= {"prediction": prediction, "importance": importance}
    arrays |= coverage_of_neurons(train, suite)
    arrays |= surprise(train, suite, *classes)
    arrays |= importance_driven(train[1], suite[1], importance)
    path = options.fixtures / "criteria-oracles.npz"
    np.savez_compressed(path, **arrays)
    print(f"{path}: {path.stat().st_size} bytes")
    for name, array in arrays.items():
        shown = array if array.size == 1 else f"{array.shape} {array.min()} to {array.max()}"
        print(f"  {name}: {shown}")


def activations(npcov, fixtures):
    """The layers' activations in float32, and the predicted classes."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "out.npz"
        data = fixtures / "fashion-1000.npz"
        command = [npcov, "predict", fixtures / "lenet.onnx", "--data", data, "--divide", "255"]
        command += ["--limit", str(TRAINING + SUITE), "--output", output]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        with np.load(output) as arrays:
            return [arrays[name] for name in LAYERS], arrays["prediction"]


def coverage_of_neurons(train, suite):
    """What a suite covers of neurons, their sections and their boundaries."""
    low = [layer.min(axis=0) for layer in train]
    high = [layer.max(axis=0) for layer in train]
    deviation = [layer.std(axis=0) for layer in train]
    criteria = {
        f"nc:thresholds={t}:variant=raw": neurons.NAC(t) for t in (0.0, 0.25, 0.75)
    } | {
        f"kmnc:edges=upper-open:sections={k}": neurons.KMNC(low, high, k) for k in (2, 10, 1000)
    }
    for slack in (0.0, 0.5):
        end = f":edges=inclusive:slack={slack}"
        criteria["nbc" + end] = neurons.NBC(low, high, deviation, slack)
        criteria["snac" + end] = neurons.SNAC(high, deviation, slack)
    for k in (1, 2, 3):
        for layer in suite:
            ordered = np.sort(layer, axis=1)
            assert (ordered[:, -k] > ordered[:, -k - 1]).all(), f"a tie for place {k}"
        criteria[f"tknc:k={k}"] = neurons.TKNC(k)
    found = {}
    for spec, criterion in criteria.items():
        _, profiles = criterion(suite)
        found["covered." + spec] = np.array([profiles.any(axis=0).sum()])
    return found


def surprise(train, suite, train_class, suite_class):
    """Surprise adequacies, and the buckets they fall in."""
    found = {}
    for layer in (0, 1):
        # SADL leaves a neuron out that hardly varies in some class. Of those that stay there are
        # fewer than inputs of a class: covariances are regular.
        variances = [train[layer][train_class == c].var(axis=0) for c in np.unique(train_class)]
        kept = np.min(variances, axis=0) >= 1e-5
        assert 2 * kept.sum() < np.bincount(train_class).min(), "covariances may be singular"
        traces, queries = train[layer][:, kept], suite[layer][:, kept]
        lsa = np.empty(len(queries))
        for c in np.unique(suite_class):
            kde = gaussian_kde(traces[train_class == c].T)
            lsa[suite_class == c] = -kde.logpdf(queries[suite_class == c].T)
        found[f"scores.lsc:layer={layer}"] = lsa
        # dnn-tip leaves the square.
        by_class = MultiModalSA.build_by_class(traces, train_class, lambda a, _: MDSA(a))
        mdsa = np.sqrt(by_class(queries, suite_class))
        found[f"scores.mdsc:layer={layer}"] = mdsa
        varies = train[layer].var(axis=0) >= 1e-5
        single = MDSA(train[layer][:, varies])(suite[layer][:, varies])
        found[f"scores.mdsc:class=none:layer={layer}"] = np.sqrt(single)
        dsa = DSA(train[layer], train_class)(suite[layer], suite_class)
        found[f"scores.dsc:layer={layer}"] = dsa

    for spec, rule in [
        ("lsc:columns=per-class:layer=0", {"var_threshold": 1e-5, "max_features": None}),
        ("lsc:columns=per-class:layer=0:most=6", {"max_features": 6}),
    ]:
        by_class = MultiModalSA.build_by_class(
            train[0], train_class, lambda a, _, rule=rule: LSA(a, **rule)
        )
        found["scores." + spec] = by_class(suite[0], suite_class)
        assert np.isfinite(found["scores." + spec]).all(), "a density that is 0 in float64"

    for name, scores, upper in [("lsc", lsa, 100.0), ("mdsc", mdsa, 20.0), ("dsc", dsa, 2.0)]:
        for buckets in (10, 1000):
            ids = np.digitize(scores, np.linspace(scores.min(), upper, buckets))
            spec = f"{name}:buckets={buckets}:edges=sadl:upper={upper}"
            found["covered." + spec] = np.array([len(set(ids))])
            # dnn-tip's buckets have their lower edge, ours their upper: no score is on one.
            profile = SurpriseCoverageMapper(buckets, upper).get_coverage_profile(scores)
            spec = f"{name}:buckets={buckets}:upper={upper}"
            found["covered." + spec] = np.array([profile.any(axis=0).sum()])
    return found


def importance_driven(train, suite, importance):
    """IDC with scikit-learn's clusters, by the procedure of DeepImportance."""
    found = {}
    for zeros in ("drop", "keep"):
        spec = f"idc:neurons=6:zeros={zeros}"
        chosen = np.argsort(-importance, kind="stable")[:6]
        centroids = [best_centroids(train[:, n], zeros == "keep") for n in chosen]
        vectors = [
            np.abs(suite[:, n, None] - c[None]).argmin(axis=1)
            for n, c in zip(chosen, centroids)
        ]
        found["centroids." + spec] = np.concatenate(centroids)
        found["covered." + spec] = np.array([len(set(zip(*vectors)))])
    return found


def best_centroids(values, keep_zeros):
    """Rounded to two decimals, ascending."""
    values = values if keep_zeros else values[values != 0]
    if len(values) < 10:
        return np.zeros(1)
    column = values[:, None]
    fits = [KMeans(k, n_init=50, random_state=0, tol=0).fit(column) for k in (2, 3, 4)]
    best = max(fits, key=lambda fit: silhouette_score(column, fit.labels_))
    return np.sort(best.cluster_centers_[:, 0]).round(2)


if __name__ == "__main__":
    main()
