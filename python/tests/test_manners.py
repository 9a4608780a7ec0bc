"""Ctrl-C, threads, processes, pickles, memory, warnings and errors."""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import FIXTURES, IMAGES, MODEL, CommandLine, png

import npcov


# A network that takes long. It says what happens, and when it was stopped.
LONG = textwrap.dedent(
    f"""
    import signal, sys, time, numpy as np, npcov
    # Whoever runs tests in the background may have told them to ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    x = np.random.default_rng(0).random((20000, 28, 28), np.float32)
    y = np.zeros(20000, int)
    model = npcov.Model({str(FIXTURES / "resnet8.onnx")!r}, threads=1)
    def told(event, count):
        print(event, count, flush=True)
    try:
        model.build(x, y, output="graph.npcov", criteria=["snpc"], progress=told)
    except KeyboardInterrupt:
        print("stopped", time.time(), flush=True)
    """
)


def interrupted(folder: Path, after: str) -> float:
    """Seconds from Ctrl-C, once the program has said `after`, to its exception."""
    command = [sys.executable, "-c", LONG]
    child = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    for line in child.stdout:
        if line.startswith(after):
            break
    asked = time.time()
    child.send_signal(signal.SIGINT)
    rest = child.stdout.read()
    assert child.wait() == 0
    return float(rest.split("stopped ")[1]) - asked


def test_ctrl_c_stops_within_a_second_and_loses_no_finished_shard(tmp_path: Path) -> None:
    # The machine may do other things for a second; it does not do so three times.
    taken = [interrupted(tmp_path, "kept")]
    parts = tmp_path / "graph.npcov.parts"
    shards = {path.name: path.read_bytes() for path in parts.iterdir() if path.name not in ("lock", "plan.json")}
    assert shards and not (tmp_path / "graph.npcov").exists()
    while taken[-1] > 1 and len(taken) < 3:
        taken.append(interrupted(tmp_path, "finished"))
    print(f"stopped after {taken} s")
    assert min(taken) < 1
    assert all((parts / name).read_bytes() == held for name, held in shards.items())

    seen: dict[str, int] = {}

    def told(event: str, count: int) -> None:
        seen[event] = seen.get(event, 0) + count
        if "resumed" in seen:
            raise RuntimeError("seen enough")

    x = np.random.default_rng(0).random((20000, 28, 28), np.float32)
    model = npcov.Model(FIXTURES / "resnet8.onnx", threads=1)
    # Twice: what is given up lets go of its file before the next call begins.
    for _ in range(2):
        seen.clear()
        with pytest.raises(RuntimeError, match="seen enough"):
            model.build(
                x, np.zeros(20000, int), output=tmp_path / "graph.npcov", criteria=["snpc"], progress=told
            )
        assert seen["resumed"] >= 512 * len(shards)


def test_other_threads_run_meanwhile(model: npcov.Model) -> None:
    ticks, done = 0, threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not done.is_set():
            ticks += 1
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    x = np.random.default_rng(0).random((20000, 28, 28), np.float32)
    start = time.monotonic()
    model.predict(x)
    taken = time.monotonic() - start
    done.set()
    thread.join()
    assert ticks > 5 * taken, "the interpreter was held"


def predicted(opened: npcov.Model, x: np.ndarray) -> bytes:
    return opened.predict(x, progress=False).logits.tobytes()


@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_workers(start: str, model: npcov.Model, images: Any) -> None:
    x = images[0][:64]
    expected = predicted(model, x)
    with multiprocessing.get_context(start).Pool(2) as pool:
        assert pool.starmap(predicted, [(model, x)] * 4) == [expected] * 4


INHERITED: dict[str, Any] = {}


def asked_in_a_fork(rows: int) -> tuple[bytes, dict[str, int]]:
    x = INHERITED["x"][:rows]
    return predicted(INHERITED["model"], x), INHERITED["graph"].cover(x, name="s", progress=False).suites


@pytest.mark.skipif(sys.platform == "win32", reason="there are no forks")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_a_fork_inherits(model: npcov.Model, graph: npcov.DecisionGraph, images: Any) -> None:
    """Nothing is pickled: models and graphs that were used before the fork are used after it."""
    INHERITED.update(model=model, graph=graph, x=images[0])
    expected = asked_in_a_fork(64)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(asked_in_a_fork, [64] * 4) == [expected] * 4
    assert asked_in_a_fork(64) == expected


def test_pickles_are_paths_and_digests(tmp_path: Path, images: Any) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(Path(MODEL).read_bytes())
    opened = npcov.Model(path, divide=255, threads=2)
    kept = pickle.dumps(opened)
    assert len(kept) < 1000
    again = pickle.loads(kept)
    assert predicted(again, images[0][:5]) == predicted(opened, images[0][:5])
    graph = opened.build(IMAGES, limit=100, output=tmp_path / "g.npcov")
    same = pickle.loads(pickle.dumps(graph))
    assert same.id == graph.id
    coverage = graph.cover(IMAGES, limit=50)
    assert pickle.loads(pickle.dumps(coverage)) == coverage
    in_memory = opened.build(IMAGES, limit=100)
    with pytest.raises(TypeError, match="save"):
        pickle.dumps(in_memory)
    path.write_bytes((FIXTURES / "lenet.onnx").read_bytes())
    with pytest.raises(npcov.ModelError, match="another model"):
        pickle.loads(kept)
    report = coverage.report()
    assert pickle.loads(pickle.dumps(report)).to_dict() == report.to_dict()


def test_models_from_bytes_are_the_same(model: npcov.Model, images: Any) -> None:
    opened = npcov.Model(Path(MODEL).read_bytes(), divide=255)
    assert opened.sha256 == model.sha256 and opened.file is None
    assert predicted(opened, images[0][:20]) == predicted(model, images[0][:20])
    again = pickle.loads(pickle.dumps(opened))
    assert again.sha256 == model.sha256


def test_generators_larger_than_memory(tmp_path: Path) -> None:
    """Half a gigabyte of batches goes through a process whose memory stays where it was."""
    program = textwrap.dedent(
        f"""
        import numpy as np, npcov
        def megabytes(field):
            with open("/proc/self/status") as status:
                fields = dict(line.split(":", 1) for line in status)
            return int(fields[field].split()[0]) / 1024
        model = npcov.Model({MODEL!r}, threads=1)
        graph = model.build(np.random.default_rng(0).random((200, 28, 28), np.float32), criteria=["snpc"])
        def batches(count):
            for seed in range(count):
                yield np.random.default_rng(seed).random((2000, 28, 28), np.float32)
        graph.cover(batches(2), progress=False)
        before = megabytes("VmRSS")
        with open("/proc/self/clear_refs", "w") as refs:
            refs.write("5")  # The peak is that from here on, while batches are spooled too.
        coverage = graph.cover(batches(80), progress=False)
        print(sum(coverage.suites.values()), before, megabytes("VmHWM"))
        """
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    assert found.returncode == 0, found.stderr
    inputs, before, peak = map(float, found.stdout.split())
    assert inputs == 160000
    # The batches are 478 MB; what is kept of each input is a few dozen bytes.
    assert peak - before < 60, f"{before} MB became {peak} MB"
    assert not any(tmp_path.iterdir()), "temporary files are left"


def test_batches_are_the_same_as_all_at_once(graph: npcov.DecisionGraph, images: Any) -> None:
    x, y = images
    expected = graph.cover(x[:333], y[:333], name="suite")

    def batches(size: int) -> Any:
        return ((x[i : min(i + size, 333)], y[i : min(i + size, 333)]) for i in range(0, 333, size))

    assert graph.cover(batches(100), name="suite") == expected
    accumulated = graph.empty_coverage("suite")
    for batch_x, batch_y in batches(64):
        accumulated.update(batch_x, batch_y)
    assert "333 inputs to be measured" in repr(accumulated)
    assert accumulated.compute() == expected
    assert accumulated.report().to_dict() == expected.report().to_dict()
    assert accumulated.compute() == expected
    # As loaders give them, tuples or lists.
    for kind in (tuple, list):
        accumulated = graph.empty_coverage("suite")
        for batch in batches(64):
            accumulated.update(kind(batch))
        assert accumulated.compute() == expected
    accumulated.reset()
    with pytest.raises(npcov.ArtefactError, match="nothing is measured"):
        accumulated.compute()


def test_batches_go_on_with_a_suite(graph: npcov.DecisionGraph, images: Any, tmp_path: Path) -> None:
    """What is updated is the suite that was measured, with the options that it was measured with."""
    x, y = images
    expected = graph.cover(x[:90], y[:90], name="test", criteria=["snpc"]).report().suites[0].criteria
    coverage = graph.cover(x[:60], y[:60], name="test", criteria=["snpc"], limit=50)
    coverage.save(tmp_path / "state.npcov")
    coverage.update(x[50:90], y[50:90])
    assert coverage.compute().suites == {"test": 90}
    assert coverage.report().suites[0].criteria == expected
    parts = graph.cover(x[:30], y[:30], name="a").merge(graph.cover(x[30:50], y[30:50], name="b"), name="test")
    for begun in (npcov.Coverage(tmp_path / "state.npcov", graph), parts, coverage.with_class_shares("balanced")):
        begun.update((x[:10], y[:10]))
        assert begun._name == "test"


def test_arrays_of_all_kinds(model: npcov.Model, images: Any) -> None:
    x = images[0][:40]
    expected = predicted(model, x)
    locked = x.copy()
    locked.setflags(write=False)
    assert predicted(model, locked) == expected
    assert predicted(model, np.asfortranarray(x)) == expected
    doubled = np.repeat(x, 2, axis=0)
    assert predicted(model, doubled[::2]) == expected
    for dtype in ("int16", "int64", "float32", "float64", ">f4", "float16"):
        assert predicted(model, x.astype(dtype)) == expected, dtype
    assert predicted(model, list(x)) == expected
    unaligned = np.frombuffer(b"\0" + x.astype("<f4").tobytes(), "<f4", offset=1).reshape(x.shape)
    assert predicted(model, unaligned) == expected
    assert model.predict(x).logits.base is not None, "no copy"
    assert npcov.Data(x).sha256 == npcov.Data(x.copy()).sha256
    y = images[1][:40]
    found = model.predict(x, y).accuracy
    for labels in (y.tolist(), y.astype(float), y[:, None], np.eye(10)[y], np.eye(10, dtype=bool)[y]):
        assert model.predict(x, labels).accuracy == found
    texts = [f"class {label}" for label in y]
    named = npcov.Model(MODEL, divide=255, class_names=[f"class {i}" for i in range(10)])
    assert named.predict(x, texts).accuracy == found
    assert named.predict(iter([(x[:10], texts[:10]), (x[10:], texts[10:])])).accuracy == found
    with pytest.raises(npcov.DataError, match="none of the names"):
        npcov.Data(x, texts, class_names=["class 1"])


class Capsules:
    """An array of a library that shares its memory by DLPack and has nothing else in common with numpy."""

    def __init__(self, numbers: np.ndarray) -> None:
        self._numbers = numbers

    def __dlpack__(self, **options: Any) -> Any:
        return self._numbers.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._numbers.__dlpack_device__()


def test_arrays_of_other_libraries(model: npcov.Model, images: Any) -> None:
    x = images[0][:40].astype(np.float32)
    assert predicted(model, Capsules(x)) == predicted(model, x)  # type: ignore[arg-type]
    batches = iter([(Capsules(x[:30]), images[1][:30]), (Capsules(x[30:]), images[1][30:40])])
    assert model.predict(batches).accuracy == model.predict(x, images[1][:40]).accuracy


def test_files_and_folders(tmp_path: Path, model: npcov.Model, images: Any) -> None:
    x, y = images
    expected = predicted(model, x[:30])
    np.save(tmp_path / "a.npy", x[:10])
    np.savez(tmp_path / "b.npz", x=x[10:30])
    assert predicted(model, [tmp_path / "a.npy", tmp_path / "b.npz"]) == expected  # type: ignore[arg-type]
    assert predicted(model, [tmp_path / "a.npy"]) == predicted(model, x[:10])  # type: ignore[arg-type]
    assert model.predict([tmp_path / "a.npy"], y[:10]).accuracy is not None
    found = model.predict(f"{IMAGES}:x,y", limit=30)
    assert found.logits.tobytes() == expected and found.accuracy is not None
    with pytest.raises(TypeError, match="labels and names of its own"):
        model.predict(IMAGES, y)


def test_a_list_of_images(tmp_path: Path, model: npcov.Model, images: Any) -> None:
    x, y = images
    files = [tmp_path / f"{i}.png" for i in range(12)]
    for file, image in zip(files, x):
        file.write_bytes(png(image))
    if importlib.util.find_spec("PIL") is None:
        with pytest.raises(npcov.DataError, match="needs Pillow") as error:
            model.predict(files)
        assert "pip install pillow" in str(error.value.hint)
        return
    found = model.predict(files, y[:12])
    assert found.logits.tobytes() == predicted(model, x[:12])
    assert found.accuracy == model.predict(x[:12], y[:12]).accuracy
    assert npcov.Data(files).name == "arrays in memory"


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        (np.zeros((3, 5)), None, "shape"),
        (np.zeros((3, 28, 28)), [1, 2], "2 labels for 3 samples"),
        (iter([(np.zeros((3, 28, 28)), np.zeros(2))]), None, "2 labels for 3 samples"),
        (np.zeros((3, 28, 28), complex), None, "numbers are needed"),
        (np.array(["a", "b"]), None, "numbers are needed"),
        (np.zeros((3, 28, 28)), np.ones((3, 2)), "rows of 2 numbers are no classes"),
        (np.zeros((3, 28, 28)), [0.5, 1, 2], "not a whole number"),
        ([np.zeros((28, 28)), np.zeros((27, 28))], None, ""),
        (iter([np.zeros((2, 28, 28)), np.zeros((2, 27, 28))]), None, "batches differ"),
        (iter([]), None, "no inputs"),
        (3, None, "no data"),
        ("nowhere.npz", None, "nowhere.npz"),
    ],
)
def test_wrong_data(x: Any, y: Any, words: str, model: npcov.Model) -> None:
    with pytest.raises((npcov.DataError, ValueError)) as found:
        model.predict(x, y)
    assert words in str(found.value)


def test_wrong_models_and_options(model: npcov.Model, tmp_path: Path, cli: CommandLine) -> None:
    with pytest.raises(npcov.ModelError) as error:
        npcov.Model("nowhere.onnx")
    said = cli.run("predict", "nowhere.onnx", "--data", IMAGES).stderr
    assert error.value.message in said and str(error.value.hint) in said
    with pytest.raises(npcov.ModelError, match="not an ONNX"):
        npcov.Model(b"no model")
    with pytest.raises(TypeError, match="no model"):
        npcov.Model(3)
    with pytest.raises(npcov.OptionError, match="alpha"):
        model.build(IMAGES, alpha="much")
    with pytest.raises(npcov.OptionError):
        model.build(IMAGES, alpha=7.0)
    with pytest.raises(TypeError, match="did you mean `clusters`"):
        model.build(IMAGES, cluster=3)
    with pytest.raises(TypeError, match="`write`"):
        model.tune(IMAGES, write="npcov.toml")
    with pytest.raises(npcov.ArtefactError):
        npcov.DecisionGraph(MODEL)
    with pytest.raises((npcov.OptionError, npcov.DataError), match="same file|would"):
        model.predict(IMAGES, output=MODEL)
    assert issubclass(npcov.ModelError, npcov.NpcovError) and issubclass(npcov.DataError, ValueError)
    again = pickle.loads(pickle.dumps(error.value))
    assert str(again) == str(error.value) and again.hint == error.value.hint


def test_warnings_are_warnings(model: npcov.Model, images: Any) -> None:
    x, _ = images
    with pytest.warns(npcov.NpcovWarning, match="scaled already") as heard:
        model.predict(x[:20].astype(np.float32) / 255)
    assert heard[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(x[:20])


def scaled(batch: np.ndarray) -> np.ndarray:
    return batch.astype(np.float32) / 255


def broken(batch: np.ndarray) -> np.ndarray:
    raise KeyError("deep inside")


def test_preprocessing_by_the_caller(tmp_path: Path, images: Any, cli: CommandLine) -> None:
    x, y = images
    model = npcov.Model(MODEL, preprocess=scaled)
    plain = npcov.Model(MODEL)
    expected = plain.predict(scaled(x), y).logits
    assert model.predict(x, y).logits.tobytes() == expected.tobytes()
    graph = model.build(x[:200], y[:200], output=tmp_path / "g.npcov")
    record = graph.inspect().extraction.preprocessing
    assert record.by_caller.endswith("scaled")
    coverage = graph.cover(x[200:300], y[200:300], name="s")
    opened = npcov.DecisionGraph(tmp_path / "g.npcov")
    with pytest.warns(npcov.NpcovWarning, match="preprocessed"):
        opened.cover(scaled(x[200:300]), y[200:300])
    same = npcov.DecisionGraph(tmp_path / "g.npcov", preprocess=scaled)
    assert same.cover(x[200:300], y[200:300], name="s") == coverage
    np.savez(cli.folder / "suite.npz", x=scaled(x[200:300]), y=y[200:300])
    found = cli.run("cover", tmp_path / "g.npcov", "--data", "suite.npz", "--name", "s", "-o", "s.npcov")
    assert found.returncode == 0 and "scaled" in found.stderr
    assert npcov.Coverage(cli.folder / "s.npcov") == coverage


def test_exceptions_of_callables_survive(images: Any) -> None:
    model = npcov.Model(MODEL, preprocess=broken)
    with pytest.raises(KeyError, match="deep inside") as error:
        model.predict(images[0])
    assert "in broken" in "".join(traceback.format_tb(error.value.__traceback__))

    def batches() -> Any:
        yield images[0][:10]
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        npcov.Model(MODEL).predict(batches())

    def told(event: str, count: int) -> None:
        raise ZeroDivisionError("in progress")

    with pytest.raises(ZeroDivisionError, match="in progress"):
        npcov.Model(MODEL, divide=255).predict(images[0], progress=told)


def test_results(graph: npcov.DecisionGraph, model: npcov.Model, images: Any, tmp_path: Path) -> None:
    coverage = graph.cover(IMAGES, limit=100)
    report = coverage.report()
    assert report.suites[0].criteria["snpc"] == report.to_dict()["suites"][0]["criteria"]["snpc"]
    with pytest.raises(AttributeError):
        report.nothing
    with pytest.raises(AttributeError, match="read-only"):
        report.suites = []
    for shown in (report, coverage, graph, model.inspect(), model.predict(IMAGES, limit=5)):
        assert "<table>" in shown._repr_html_()
    one = graph.explain(IMAGES, index=3)
    assert "data:image/png;base64," in one._repr_html_()
    few = (images[1] < 5) & (np.arange(1000) < 500)
    gaps = graph.cover(images[0][few], images[1][few]).gaps()
    assert gaps and "data:image/png;base64," in gaps._repr_html_(), "data that is at hand is shown"
    names = [f"thing {i}" for i in range(10)]
    file = tmp_path / "names.txt"
    file.write_text("\n".join(names))
    for given in (names, file, str(file)):
        named = npcov.Model(MODEL, divide=255, class_names=given).predict(IMAGES, limit=5)
        assert named.per_class[3].name == "thing 3"
    assert one.path.placement.cluster >= 0
    assert "suites" in dir(report) and "to_dict" in dir(report)
    assert repr(coverage) == "<npcov.Coverage: fashion-1000.npz (100 inputs)>"
    several = graph.cover({"a": (images[0][:50], images[1][:50]), "b": npcov.Data(images[0][50:80])})
    assert several.suites == {"a": 50, "b": 30}
    with pytest.raises(ValueError, match="read-only|assignment"):
        model.predict(IMAGES, limit=5).logits[0, 0] = 1
    kept = model.predict(IMAGES, limit=5).logits
    assert np.isfinite(kept).all()
