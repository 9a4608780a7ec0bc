"""Python and the command line give the same numbers, bit for bit, for every verb, and read each other's files."""

from __future__ import annotations

import inspect
import pickle
import re
import subprocess
import sys
import sysconfig
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import FIXTURES, IMAGES, MODEL, CommandLine

import npcov
import npcov._options


def arrays(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as held:
        return {name: held[name] for name in held.files}


def same_bits(found: Any, expected: dict[str, np.ndarray]) -> None:
    assert set(found) == set(expected)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype and found[name].shape == array.shape, name
        assert found[name].tobytes() == array.tobytes(), name


def without(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key not in names}


@pytest.mark.parametrize("name", sorted(path.name for path in FIXTURES.glob("*.onnx")))
def test_inspect(name: str, cli: CommandLine) -> None:
    expected = cli.json("inspect", FIXTURES / name)
    assert npcov.inspect(FIXTURES / name).to_dict() == expected
    if name != "mlp-external.onnx":  # Its weights are in another file.
        in_memory = npcov.inspect((FIXTURES / name).read_bytes()).to_dict()
        assert without(in_memory, "file") == without(expected, "file")


def test_the_command_is_in_the_wheel(cli: CommandLine) -> None:
    expected = cli.run("inspect", MODEL)
    installed = Path(sysconfig.get_path("scripts"), "npcov")
    for command in ([str(installed)], [sys.executable, "-m", "npcov"]):
        found = subprocess.run([*command, "inspect", MODEL], capture_output=True, text=True)
        assert (found.returncode, found.stdout) == (0, expected.stdout)
        wrong = subprocess.run([*command, "inspect", "nowhere.onnx"], capture_output=True, text=True)
        assert wrong.returncode == 2 and "nowhere.onnx" in wrong.stderr


def test_predict(cli: CommandLine, model: npcov.Model, images: Any) -> None:
    words = ("predict", MODEL, "--data", IMAGES, "--divide", 255, "--limit", 100)
    expected = cli.json(*words, "-o", "out.npz")
    found = model.predict(IMAGES, activations=True, limit=100)
    assert found.to_dict() == expected
    same_bits(found.arrays, arrays(cli.folder / "out.npz"))
    assert str(found) == cli.run(*words).stdout
    # The same from arrays, with other threads, and to a file.
    x, y = images
    found = model.predict(x[:100], y[:100], threads=1, output=cli.folder / "python.npz")
    assert without(found.to_dict(), "data") == without(expected, "data")
    same_bits(arrays(cli.folder / "python.npz"), arrays(cli.folder / "out.npz"))


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        ({}, ()),
        ({"alpha": 0.9, "input_relevance": True}, ("--alpha", 0.9, "--input-relevance")),
        ({"rule": {"first": "flat"}, "preset": "epsilon-plus"}, ("--rule", "first=flat", "--preset", "epsilon-plus")),
        ({"attribution": "gradient-input", "class": 3}, ("--attribution", "gradient-input", "--class", 3)),
    ],
)
def test_explain(options: dict[str, Any], flags: tuple[object, ...], cli: CommandLine) -> None:
    lenet = FIXTURES / "lenet.onnx"
    words = ("explain", lenet, "--data", IMAGES, "--divide", 255, *flags)
    expected = cli.json(*words, "--limit", 20, "-o", "out.npz")
    model = npcov.Model(lenet, divide=255)
    found = model.explain(IMAGES, limit=20, **options)
    assert found.to_dict() == expected
    same_bits(found.arrays, arrays(cli.folder / "out.npz"))
    one = model.explain(IMAGES, index=7, **options)
    expected = cli.json(*words, "--index", 7, "--heatmap", "map.png", "-o", "one.npz")
    assert without(one.to_dict(), "heatmap") == without(expected, "heatmap")
    same_bits(one.arrays, arrays(cli.folder / "one.npz"))
    assert one.heatmap == (cli.folder / "map.png").read_bytes()


def test_batch_norm_is_an_option_of_verbs_too(cli: CommandLine) -> None:
    resnet = FIXTURES / "resnet8.onnx"
    shape = npcov.Model(resnet).input_shape
    x = np.random.default_rng(0).random((3, *shape), np.float32)
    np.savez(cli.folder / "x.npz", x=x)
    words = ("explain", resnet, "--data", "x.npz", "--batch-norm", "fold")
    expected = cli.json(*words, "-o", "out.npz")
    found = npcov.Model(resnet).explain(x, batch_norm="fold")
    assert without(found.to_dict(), "data") == without(expected, "data")
    same_bits(found.arrays, arrays(cli.folder / "out.npz"))


def test_tune(cli: CommandLine, model: npcov.Model) -> None:
    words = ("--sample", 60, "--clusters", "1,2", "--alphas", "0.8,0.9", "--betas", 0.8)
    expected = cli.json("tune", MODEL, "--data", IMAGES, "--divide", 255, *words)
    found = model.tune(IMAGES, sample=60, clusters=[1, 2], alphas=[0.8, 0.9], betas=[0.8])
    assert found.to_dict() == expected
    assert found.chosen.alpha in (0.8, 0.9)


def test_build_and_cover(cli: CommandLine, images: Any, model: npcov.Model) -> None:
    flags = ("--clusters", 3, "--alpha", 0.9, "--criteria", "snpc,anpc,nc,kmnc:sections=10")
    options = {"clusters": 3, "alpha": 0.9, "criteria": ["snpc", "anpc", "nc", "kmnc:sections=10"]}
    words = ("build", MODEL, "--data", IMAGES, "--divide", 255, "--limit", 200, *flags)
    expected = cli.json(*words, "-o", "cli.npcov")
    built = model.build(IMAGES, limit=200, output=cli.folder / "python.npcov", **options)
    found = built.inspect().to_dict()
    assert without(found, "file") == without(expected, "file")
    assert (cli.folder / "python.npcov").read_bytes() == (cli.folder / "cli.npcov").read_bytes()
    # From arrays in memory: the same but for the name of the data.
    x, y = images
    in_memory = model.build(npcov.Data(x, y, name=IMAGES), limit=200, **options)
    assert in_memory.id == built.id
    in_memory.save(cli.folder / "saved.npcov")
    assert (cli.folder / "saved.npcov").read_bytes() == (cli.folder / "cli.npcov").read_bytes()

    words = ("cover", "python.npcov", "--data", IMAGES, "--name", "test", "--shard", "2/4")
    expected = cli.json(*words, "-o", "cli-state.npcov")
    graph = npcov.DecisionGraph(cli.folder / "cli.npcov")
    assert npcov.inspect(cli.folder / "cli.npcov").to_dict() == cli.json("inspect", cli.folder / "cli.npcov")
    coverage = graph.cover(IMAGES, name="test", shard="2/4", output=cli.folder / "state.npcov")
    assert coverage.report().to_dict() == cli.json("report", "cli-state.npcov")
    assert coverage.report().to_dict()["suites"] == expected["suites"]
    assert (cli.folder / "state.npcov").read_bytes() == (cli.folder / "cli-state.npcov").read_bytes()
    assert graph.cover(x, y, name="test", shard="2/4") == npcov.Coverage(cli.folder / "state.npcov")
    inspected = npcov.inspect(cli.folder / "state.npcov")
    assert inspected.to_dict() == cli.json("inspect", "state.npcov")
    assert str(inspected) == cli.run("inspect", "state.npcov").stdout
    expected = cli.run("report", "state.npcov", "--format", "markdown").stdout
    assert coverage.report().markdown == expected
    assert coverage.report().junit == cli.run("report", "state.npcov", "--format", "junit").stdout
    cli.json(*words, "-o", "again.npcov", "--inputs", "inputs.npz")
    same_bits(coverage.inputs(), arrays(cli.folder / "inputs.npz"))

    words = ("explain", "cli.npcov", "--data", IMAGES, "--index", 5, "--no-heatmap", "-o", "out.npz")
    expected = cli.json(*words)
    explained = graph.explain(IMAGES, index=5)
    assert explained.to_dict() == expected
    same_bits(explained.arrays, arrays(cli.folder / "out.npz"))


def test_processes_select_together(graph: npcov.DecisionGraph, tmp_path: Path) -> None:
    alone, joined = tmp_path / "alone.npz", tmp_path / "joined.npz"
    whole = graph.select(IMAGES, by="additional:snpc", count=50, output=alone)
    for part in ["1/2", "2/2"]:
        assert graph.select(IMAGES, by="additional:snpc", count=50, output=joined, shard=part).part == part
    assert graph.select(IMAGES, by="additional:snpc", count=50, output=joined, join=True).index.tolist() == whole.index.tolist()
    assert joined.read_bytes() == alone.read_bytes()
    with pytest.raises(npcov.OptionError, match="need `output`"):
        graph.select(IMAGES, by="additional:snpc", count=50, shard="1/2")


def test_gaps_merge_check_select_minimize(
    cli: CommandLine, graph: npcov.DecisionGraph, images: Any
) -> None:
    graph.save(cli.folder / "g.npcov")
    x, y = images
    shirts = (y < 5) & (np.arange(1000) < 500)
    np.savez(cli.folder / "suite.npz", x=x[shirts], y=y[shirts])
    suite = str(cli.folder / "suite.npz")
    cli.json("cover", "g.npcov", "--data", suite, "--name", "half", "-o", "s.npcov")
    coverage = graph.cover(x[shirts], y[shirts], name="half")
    assert coverage == npcov.Coverage(cli.folder / "s.npcov")

    words = ("gaps", "g.npcov", "s.npcov", "--pool", IMAGES, "--count", 3)
    expected = cli.json(*words, "-o", "add.npz", "--picture", "gaps.png", "--data", suite)
    found = coverage.gaps(IMAGES, count=3, output=cli.folder / "python-add.npz", show=[npcov.Data(IMAGES), npcov.Data(suite)])
    assert found and len(found.gaps) >= 4
    shown = str(found.to_dict()).replace("python-add.npz", "add.npz").replace(f"{cli.folder}/", "")
    assert shown == str(expected).replace(f"{cli.folder}/", "")
    same_bits(arrays(cli.folder / "python-add.npz"), arrays(cli.folder / "add.npz"))
    assert found.picture is not None and found.picture == (cli.folder / "gaps.png").read_bytes()

    words = ("check", "s.npcov", "--fail-under", "snpc=0.9*random", "--fail-on-thin")
    expected = cli.json(*words, code=1)
    check = coverage.check(fail_under={"snpc": "0.9*random"}, fail_on_thin=True)
    assert not check and check.to_dict() == expected
    assert str(check) == cli.run(*words).stdout
    assert check.junit == cli.run(*words, "--format", "junit").stdout
    expected = cli.json("check", "s.npcov", "--against", "s.npcov")
    assert coverage.check(against=coverage).to_dict() == expected
    shares = cli.json("report", "s.npcov", "--class-shares", "balanced")
    assert coverage.report(class_shares="balanced").to_dict() == shares

    parts = [graph.cover(suite, name="half", shard=f"{i}/3") for i in (1, 2, 3)]
    for i, part in enumerate(parts):
        part.save(cli.folder / f"part-{i}.npcov")
    merged = cli.json("merge", *(f"part-{i}.npcov" for i in range(3)), "--name", "all", "-o", "m.npcov")
    together = npcov.merge(*parts, name="all")
    together.save(cli.folder / "python-m.npcov")
    assert (cli.folder / "python-m.npcov").read_bytes() == (cli.folder / "m.npcov").read_bytes()
    assert together.report().to_dict()["suites"] == merged["suites"]
    assert parts[0] | parts[1] | parts[2] == coverage

    words = ("select", "g.npcov", "--data", IMAGES, "--limit", 200, "--count", 9, "--by", "additional:snpc")
    expected = cli.json(*words, "--given", "s.npcov", "-o", "sel.npz")
    chosen = graph.select(IMAGES, by="additional:snpc", limit=200, count=9, given=coverage)
    assert without(chosen.to_dict(), "file") == without(expected, "file")
    assert chosen.index.tolist() == arrays(cli.folder / "sel.npz")["index"].tolist()

    words = ("minimize", "g.npcov", "--data", suite, "--criteria", "snpc,kmnc")
    expected = cli.json(*words, "-o", "small.npz")
    small = graph.minimize(suite, criteria=["snpc", "kmnc"], output=cli.folder / "python-small.npz")
    assert without(small.to_dict(), "file") == without(expected, "file")
    same_bits(arrays(cli.folder / "python-small.npz"), arrays(cli.folder / "small.npz"))


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        ({"epsilon": 0.05}, ("--epsilon", 0.05)),
        ({"method": "cw", "steps": 10, "rounds": 2}, ("--method", "cw", "--steps", 10, "--rounds", 2)),
        ({"lambda": 10, "layer": -1, "steps": 5}, ("--lambda", 10, "--layer", -1, "--steps", 5)),
    ],
)
def test_attack(
    options: dict[str, Any], flags: tuple[object, ...], cli: CommandLine, model: npcov.Model
) -> None:
    words = ("attack", MODEL, "--data", IMAGES, "--divide", 255, "--limit", 20, *flags)
    expected = cli.json(*words, "-o", "cli.npz")
    found = model.attack(IMAGES, limit=20, **options)
    assert found.to_dict() == expected
    same_bits(found.arrays, arrays(cli.folder / "cli.npz"))
    model.attack(IMAGES, limit=20, output=cli.folder / "python.npz", **options)
    assert (cli.folder / "python.npz").read_bytes() == (cli.folder / "cli.npz").read_bytes()


@pytest.mark.parametrize("program", ["trace", "explain", "mask", "gradient"])
def test_compile(program: str, cli: CommandLine) -> None:
    lenet = FIXTURES / "lenet.onnx"
    expected = cli.json("compile", lenet, "--program", program, "--batch", 4, "-o", "cli.onnx")
    found = npcov.Model(lenet).compile(cli.folder / "python.onnx", program=program, batch=4)
    assert without(found.to_dict(), "file") == without(expected, "file")
    assert (cli.folder / "python.onnx").read_bytes() == (cli.folder / "cli.onnx").read_bytes()


def test_mutate(cli: CommandLine, model: npcov.Model, images: Any) -> None:
    x, y = images
    for name, rows in (("a.npz", slice(0, 80)), ("b.npz", slice(80, 160)), ("judge.npz", slice(200, 400))):
        np.savez(cli.folder / name, x=x[rows], y=y[rows])
    graph = model.build(x[:200], y[:200], output=cli.folder / "g.npcov")
    flags = ("--operators", "neb,nai", "--mutants", 3, "--judge", "judge.npz", "--graph", cli.folder / "g.npcov")
    options: dict[str, Any] = {"operators": ["neb", "nai"], "mutants": 3, "paths": "inside", "graph": graph}
    found = []
    for name in ("a", "b"):
        words = ("mutate", MODEL, "--data", f"{name}.npz", "--divide", 255, *flags, "--paths", "inside")
        expected = cli.json(*words, "-o", f"{name}.json", "--predictions", f"{name}-cli.npz")
        written = {"output": cli.folder / f"{name}-python.json", "predictions": cli.folder / f"{name}-python.npz"}
        # Files are called in the state as they were given.
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(cli.folder)
            killed = model.mutate(f"{name}.npz", judge="judge.npz", **options, **written)
        assert killed.to_dict() == expected
        assert str(killed) == cli.run(*words).stdout
        assert (cli.folder / f"{name}-python.json").read_bytes() == (cli.folder / f"{name}.json").read_bytes()
        same_bits(arrays(cli.folder / f"{name}-python.npz"), arrays(cli.folder / f"{name}-cli.npz"))
        found.append(killed)
    assert 0 < found[0].score <= 1 and found[0].counted > 0

    expected = cli.json("merge", "a.json", "b.json", "-o", "all.json")
    npcov.merge(*found, output=cli.folder / "written.json")
    assert (cli.folder / "written.json").read_bytes() == (cli.folder / "all.json").read_bytes()
    files = (cli.folder / "a.json", cli.folder / "b.json")
    for united in (found[0] | found[1], npcov.merge(*found), npcov.merge(*files), npcov.merge(found[0], files[1])):
        united.save(cli.folder / "python.json")
        assert united.to_dict() == expected
        assert (cli.folder / "python.json").read_bytes() == (cli.folder / "all.json").read_bytes()
    assert pickle.loads(pickle.dumps(found[0])).merge(found[1]).to_dict() == expected
    with pytest.raises(npcov.ArtefactError, match="cannot be merged: their mutants were judged by different data"):
        found[0].merge(model.mutate(x[:20], y[:20], operators=["neb"], mutants=1))
    with pytest.raises(npcov.OptionError, match="graph"):
        model.mutate(x[:20], y[:20], paths="inside")
    with pytest.raises(TypeError, match="`name` is for coverage"):
        npcov.merge(*found, name="all")  # type: ignore[call-overload]


VERBS = "inspect predict explain tune build cover merge report check gaps select minimize attack mutate compile export".split()


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_has_its_name(
    verb: str,
    cli: CommandLine,
    model: npcov.Model,
    graph: npcov.DecisionGraph,
    images: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An option of the command line is an argument or an option of Python, or an error says what to give instead."""
    monkeypatch.chdir(cli.folder)
    x, y = images[0][:8], images[1][:8]
    coverage = graph.cover(x, y)
    called: dict[str, Any] = {
        "inspect": (npcov.inspect, MODEL),
        "predict": (model.predict, x, y),
        "explain": (model.explain, x),
        "tune": (model.tune, x, y),
        "build": (model.build, x, y),
        "cover": (graph.cover, x, y),
        "merge": (npcov.merge, coverage),
        "report": (coverage.report,),
        "check": (coverage.check,),
        "gaps": (graph.gaps, coverage),
        "select": (graph.select, x, y),
        "minimize": (graph.minimize, x, y),
        "attack": (model.attack, x, y),
        "mutate": (model.mutate, x, y),
        "export": (graph.export, cli.folder / "paths"),
        "compile": (model.compile, cli.folder / "out.onnx"),
    }
    function, *arguments = called[verb]
    named = inspect.signature(function).parameters
    said = cli.run(verb, "--help").stdout
    flags = set(re.findall(r"^ +(?:-\w, )?--([a-z-]+)", said, re.MULTILINE)) - {"help", "quiet", "config", "format"}
    assert "output" in flags or verb in ("inspect", "tune", "check", "report")
    table = npcov._options.table(verb)
    for flag in sorted(flags):
        name = flag.replace("-", "_")
        if name in named:
            continue
        # A whole number is what most of them take. Those that do not say so, in the words of the command line.
        given = {name: 1 if table[flag][0] else True, **({"by": "random"} if verb == "select" else {})}
        if verb in ("build", "select", "tune") and name in ("shard", "join"):
            given[name] = "1/2" if name == "shard" else True
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                function(*arguments, **given)
        except TypeError as error:
            instead = re.fullmatch(rf"`{name}` is no option here: (.+)", str(error))
            assert instead, (flag, str(error))
            own = re.match(r"`(\w+)` is an argument of its own", instead[1])
            assert own is None or own[1] in named, (flag, str(error))
        except npcov.NpcovError as error:
            assert f"`npcov {verb}` has" not in str(error), (flag, str(error))
            # What it needs beside it can be given.
            needed = re.findall(r"--([a-z-]+)", str(error).partition("arguments were not provided")[2])
            otherwise = {name for name in needed if name in npcov._options._OTHERWISE}
            assert not otherwise - set(named), (flag, str(error))


def test_every_verb_is_there(cli: CommandLine) -> None:
    said = cli.run("--help").stdout.split("Commands:")[1].split("Options:")[0]
    verbs = re.findall(r"^  ([a-z]+) ", said, re.MULTILINE)
    # What is about files, shells, stories and papers is the command line's alone.
    alone = {"demo", "init", "lab", "completions", "man", "help"}
    assert set(verbs) - set(VERBS) == alone


def test_parts_of_a_graph(cli: CommandLine, model: npcov.Model, images: Any) -> None:
    """Parts that Python and the command line make are one graph, whoever joins them."""
    x, y = images
    # Four shards of 512 inputs.
    x, y = np.concatenate([x, x[::-1]])[:1800], np.concatenate([y, y[::-1]])[:1800]
    np.savez(cli.folder / "train.npz", x=x, y=y)
    np.savez(cli.folder / "apart.npz", x=x[:100], y=y[:100])
    words = ("build", MODEL, "--data", "train.npz", "--divide", 255, "--criteria", "snpc,nc")
    words = (*words, "--calibration", "apart.npz")
    expected = cli.json(*words, "-o", "whole.npcov")
    data = npcov.Data(x, y, name="train.npz")

    def build(file: str, **options: Any) -> Any:
        apart = npcov.Data(x[:100], y[:100])
        return model.build(data, calibration=apart, criteria=["snpc", "nc"], output=cli.folder / file, **options)

    part = build("python.npcov", shard="1/3")
    said = cli.json(*words, "--shard", "1/3", "-o", "cli.npcov")
    assert without(part.to_dict(), "folder") == without(said, "folder") and part.end == 512
    assert str(part).splitlines()[1:] == cli.run(*words, "--shard", "1/3", "-o", "cli.npcov").stdout.splitlines()[1:]
    with pytest.raises(npcov.ArtefactError) as missing:
        build("python.npcov", join=True)
    wrong = cli.run(*words, "--join", "-o", "cli.npcov")
    assert wrong.returncode == 2
    assert missing.value.message.replace(f"{cli.folder}/", "").replace("python.npcov", "cli.npcov") in wrong.stderr
    cli.json(*words, "--shard", "2/3", "-o", "python.npcov")
    build("cli.npcov", shard="2/3")
    for file in ("python.npcov", "cli.npcov"):
        build(file, shard="3/3")
    graph = build("python.npcov", join=True)
    assert without(cli.json(*words, "--join", "-o", "cli.npcov"), "file") == without(expected, "file")
    assert without(graph.inspect().to_dict(), "file") == without(expected, "file")
    for file in ("python.npcov", "cli.npcov"):
        assert (cli.folder / file).read_bytes() == (cli.folder / "whole.npcov").read_bytes(), file
        assert not (cli.folder / f"{file}.parts").exists()
    for options in ({"shard": "1/3"}, {"join": True}):
        with pytest.raises((TypeError, npcov.OptionError), match="`output`"):
            model.build(data, **options)
    for wrong_part in ("4/3", "half", "1/3/5"):
        with pytest.raises(npcov.OptionError, match="shard"):
            build("python.npcov", shard=wrong_part)
    with pytest.raises(npcov.OptionError, match="join"):
        build("python.npcov", shard="1/3", join=True)


def test_calibration(cli: CommandLine, model: npcov.Model, images: Any) -> None:
    x, y = images
    np.savez(cli.folder / "apart.npz", x=x[600:800], y=y[600:800])
    words = ("build", MODEL, "--data", IMAGES, "--divide", 255, "--limit", 200, "--calibration", "apart.npz")
    cli.json(*words, "-o", "cli.npcov")
    apart = npcov.Data(x[600:800], y[600:800])
    model.build(IMAGES, limit=200, calibration=apart, output=cli.folder / "python.npcov")
    assert (cli.folder / "python.npcov").read_bytes() == (cli.folder / "cli.npcov").read_bytes()
    # A table with a column `y` that is no label.
    prices, train, test = (str(FIXTURES / name) for name in ("prices.onnx", "prices.csv", "prices-test.csv"))
    words = ("build", prices, "--data", train, "--label-column", "price", "--bins", 4, "--calibration", test)
    cli.json(*words, "-o", "cli.npcov")
    tables = npcov.Model(prices, label_column="price", bins=4)
    tables.build(train, calibration=test, output=cli.folder / "python.npcov")
    assert (cli.folder / "python.npcov").read_bytes() == (cli.folder / "cli.npcov").read_bytes()


def test_tables_and_numbers(cli: CommandLine) -> None:
    prices, train, test = (str(FIXTURES / name) for name in ("prices.onnx", "prices.csv", "prices-test.csv"))
    label = ("--label-column", "price")
    expected = cli.json("predict", prices, "--data", test, *label, "-o", "out.npz")
    model = npcov.Model(prices, label_column="price")
    found = model.predict(test, activations=True)
    assert found.to_dict() == expected
    written = arrays(cli.folder / "out.npz")
    assert len(written.pop("class_names")) == 11
    same_bits(found.arrays, written)
    # The same numbers in memory.
    table = np.genfromtxt(test, delimiter=",", names=True)
    columns = [name for name in table.dtype.names or () if name != "price"]
    x, y = np.stack([table[name] for name in columns], axis=1), table["price"]
    in_memory = npcov.Model(prices).predict(x, y + 0.5)
    assert in_memory.logits.tobytes() == found.logits.tobytes()
    assert without(npcov.Model(prices).predict(x, y).to_dict(), "data") == without(expected, "data")

    words = ("build", prices, "--data", train, *label, "--task", "regression", "--bins", 4, "-o", "cli.npcov")
    cli.json(*words)
    built = npcov.Model(prices, label_column="price", task="regression", bins=4)
    graph = built.build(train, output=cli.folder / "python.npcov")
    assert (cli.folder / "python.npcov").read_bytes() == (cli.folder / "cli.npcov").read_bytes()
    cli.json("cover", "cli.npcov", "--data", test, *label, "--name", "t", "-o", "cli-state.npcov")
    opened = npcov.DecisionGraph(cli.folder / "cli.npcov", label_column="price")
    for measured in (graph.cover(test, name="t"), opened.cover(test, name="t")):
        measured.save(cli.folder / "state.npcov")
        assert (cli.folder / "state.npcov").read_bytes() == (cli.folder / "cli-state.npcov").read_bytes()


def test_several_inputs(cli: CommandLine, images: Any) -> None:
    x, y = images
    two = FIXTURES / "two-inputs.onnx"
    mask = np.tile(np.arange(10, dtype=np.int64) % 2, (50, 1))
    np.savez(cli.folder / "named.npz", image=x[:50], mask=mask, y=y[:50])
    named = str(cli.folder / "named.npz")
    words = (two, "--data", named, "--divide", 255)
    expected = cli.json("predict", *words, "-o", "out.npz")
    model = npcov.Model(two, divide=255)
    found = model.predict(named, activations=True)
    assert found.to_dict() == expected
    same_bits(found.arrays, arrays(cli.folder / "out.npz"))
    for data in (
        {"image": x[:50], "mask": mask},
        iter([{"image": x[:20], "mask": mask[:20]}, {"image": x[20:50], "mask": mask[20:50]}]),
    ):
        assert model.predict(data, y[:50]).logits.tobytes() == found.logits.tobytes()
    with pytest.raises(npcov.DataError, match="batches differ"):
        model.predict(iter([{"image": x[:20], "mask": mask[:20]}, {"image": x[20:50]}]))
    expected = cli.json("explain", *words, "--index", 1, "--no-heatmap")
    assert model.explain(named, index=1).to_dict() == expected
    fixed = cli.json("predict", two, "--data", IMAGES, "--divide", 255, "--input", "mask=1", "--limit", 20)
    assert npcov.Model(two, divide=255, input={"mask": 1}).predict(IMAGES, limit=20).to_dict() == fixed


def test_words(cli: CommandLine) -> None:
    bert, tokens = FIXTURES / "attention" / "bert.onnx", str(FIXTURES / "attention" / "bert.npz")
    words = cli.folder / "words.txt"
    words.write_text("\n".join(f"word{i}" for i in range(200)))
    expected = cli.json("explain", bert, "--data", tokens, "--index", 2, "--vocabulary", words)
    found = npcov.Model(bert).explain(tokens, index=2, vocabulary=words)
    assert found.to_dict() == expected and found.tokens[0].word.startswith("word")


def test_pages(cli: CommandLine) -> None:
    """Pages are the same files, from data in memory and on disk."""
    data = str(FIXTURES / "report" / "bumps.npz")
    model = npcov.Model(FIXTURES / "report" / "bumps.onnx")
    graph = model.build(data, output=cli.folder / "graph.npcov")
    coverage = graph.cover(data, name="suite", limit=60, output=cli.folder / "state.npcov")
    words = ("report", "state.npcov", "--html", "cli", "--single-file", "cli.html", "--data", data, "--pool", data)
    expected = cli.json(*words)
    found = coverage.report(html=cli.folder / "python", single_file=cli.folder / "python.html", pool=data)
    assert found.to_dict() == expected
    assert (cli.folder / "python.html").read_bytes() == (cli.folder / "cli.html").read_bytes()
    pages = sorted(path.relative_to(cli.folder / "cli") for path in (cli.folder / "cli").rglob("*") if path.is_file())
    assert len(pages) > 5
    for page in pages:
        assert (cli.folder / "python" / page).read_bytes() == (cli.folder / "cli" / page).read_bytes(), page
    with pytest.raises(npcov.OptionError):
        coverage.report(single_file=data)
