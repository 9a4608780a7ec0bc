"""What people do in notebooks by mistake: each error says what to do, and nothing wrong is computed silently."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import FIXTURES, IMAGES, MODEL, CommandLine
from test_frameworks import needs

import npcov

NAMES = ["T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot"]


@pytest.fixture(scope="module")
def lenet() -> npcov.Model:
    return npcov.Model(FIXTURES / "lenet.onnx", divide=255)


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (np.zeros((28, 28), np.uint8), "x[None]"),
        (np.zeros((1, 28, 28), np.uint8)[0], "x[None]"),
        (np.zeros(784, np.uint8), "x[None]"),
        ([np.zeros((28, 28)), np.zeros((20, 20))], "different shapes: (28, 28) and (20, 20)"),
        ([np.zeros((50, 28, 28)), np.zeros((30, 28, 28))], "iter(batches)"),
        (np.zeros((3, 28, 28, 3), np.uint8), "[28, 28, 3], the model wants [1, 28, 28]"),
        (None, "`NoneType` is no data"),
    ],
)
def test_shapes(x: Any, words: str, lenet: npcov.Model) -> None:
    with pytest.raises(npcov.DataError) as error:
        lenet.predict(x)
    assert words in str(error.value)


def test_axes_in_another_order(lenet: npcov.Model, images: Any) -> None:
    x = images[0][:20]
    expected = lenet.predict(x).logits.tobytes()
    assert lenet.predict(x[:, None]).logits.tobytes() == expected
    assert lenet.predict(x[..., None]).logits.tobytes() == expected, "channels last are moved"


def test_a_batch_of_one_is_no_mistake(lenet: npcov.Model, images: Any) -> None:
    assert lenet.predict(images[0][:1]).logits.shape == (1, 10)
    assert lenet.predict(images[0][0][None]).logits.shape == (1, 10)
    assert lenet.predict(images[0][:1].reshape(1, 784)).logits.shape == (1, 10)


def test_numbers_up_to_255(images: Any) -> None:
    with pytest.warns(npcov.NpcovWarning, match="--divide 255"):
        npcov.Model(FIXTURES / "lenet.onnx").predict(images[0][:50].astype(np.float64))


def test_labels(lenet: npcov.Model, images: Any) -> None:
    x, y = images[0][:200], images[1][:200]
    texts = [NAMES[label] for label in y]
    expected = lenet.predict(x, y).accuracy
    with pytest.warns(npcov.NpcovWarning, match="alphabetical order from `T-shirt`, class 0, to `trouser`, class 9") as heard:
        lenet.predict(x, texts)
    assert heard[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        named = npcov.Model(FIXTURES / "lenet.onnx", divide=255, class_names=NAMES)
        assert named.predict(x, texts).accuracy == expected
        assert lenet.predict(x, [str(label) for label in y]).accuracy == expected
        assert lenet.predict(x, np.eye(10)[y]).accuracy == expected
    with pytest.raises(npcov.DataError, match="has no `hat`"):
        named.predict(x, ["hat", *texts[1:]])
    with pytest.raises(npcov.DataError, match="label of sample 1 is missing"):
        lenet.predict(x[:3], [0, float("nan"), 1])
    with pytest.raises(npcov.DataError, match="class numbers from 0"):
        lenet.predict(x, y + 1)
    # Rows of numbers are what a regression gives; that is said.
    with pytest.warns(npcov.NpcovWarning, match="labels are no classes"):
        lenet.predict(x, np.eye(10)[y] * 0.9 + 0.01)


def test_pictures(lenet: npcov.Model, images: Any) -> None:
    image = needs("PIL.Image")
    pictures = [image.fromarray(pixels) for pixels in images[0][:10]]
    assert lenet.predict(pictures).logits.tobytes() == lenet.predict(images[0][:10]).logits.tobytes()
    with pytest.raises(npcov.DataError, match="different shapes"):
        lenet.predict([pictures[0], pictures[1].resize((20, 20))])
    with pytest.raises(npcov.DataError, match=r"\[image\]"):
        lenet.predict(pictures[0])


def test_frames_with_holes() -> None:
    pandas, polars = needs("pandas"), needs("polars")
    prices = npcov.Model(FIXTURES / "prices.onnx")
    frame = pandas.read_csv(FIXTURES / "prices.csv")
    columns = [name for name in frame if name != "price"]
    whole = prices.predict(frame[columns][10:20], frame["price"][10:20])
    assert whole.inputs == 10
    holes = frame.copy()
    holes.loc[3, "depth"] = float("nan")
    masked = frame.assign(depth=frame["depth"].astype("Float64"))
    masked.loc[3, "depth"] = pandas.NA
    for broken in (holes, masked, polars.from_pandas(masked)):
        with pytest.raises(npcov.DataError, match="column `depth`, row 3: there is no value"):
            prices.predict(broken[columns])
    with pytest.raises(npcov.DataError, match="column `depth`, row 3"):
        prices.predict(frame[columns], holes["depth"])
    with pytest.raises(npcov.DataError, match="encode them"):
        prices.predict(frame[columns].assign(cut="good"))


def nothing(batch: Any) -> None:
    batch = batch / 255


def test_functions_that_return_nothing(images: Any) -> None:
    with pytest.raises(npcov.DataError, match="`nothing` returns None"):
        npcov.Model(MODEL, preprocess=nothing).predict(images[0][:10])


def test_positions_from_the_end(lenet: npcov.Model, images: Any) -> None:
    x = images[0][:10]
    last = lenet.explain(x, index=-1)
    assert last.to_dict() == lenet.explain(x, index=9).to_dict()
    with pytest.raises(npcov.DataError, match="10 inputs"):
        lenet.explain(x, index=-11)


def test_files_in_the_place_of_coverage(graph: npcov.DecisionGraph, tmp_path: Path) -> None:
    state = tmp_path / "s.npcov"
    coverage = graph.cover(IMAGES, limit=100, name="s", output=state)
    assert graph.gaps(state).to_dict() == coverage.gaps().to_dict()
    assert npcov.merge(state) == coverage
    assert coverage.check(against=state)
    assert graph.select(IMAGES, by="additional:snpc", count=3, given=state).index.shape == (3,)
    with pytest.raises(TypeError, match="not `int`"):
        graph.gaps(3)  # type: ignore[arg-type]


def test_datasets_of_samples(lenet: npcov.Model, images: Any) -> None:
    x, y = images[0][:30], images[1][:30]
    expected = lenet.predict(x, y)
    for data in ([(image, int(label)) for image, label in zip(x, y)], [(x[:20], y[:20]), (x[20:], y[20:])]):
        found = lenet.predict(data)
        assert found.logits.tobytes() == expected.logits.tobytes() and found.accuracy == expected.accuracy


def test_torch_modules() -> None:
    torch = needs("torch")
    needs("onnx")

    class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, wrap: Any) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 4, 3)
            self.norm = torch.nn.BatchNorm2d(4)
            self.drop = torch.nn.Dropout(0.9)
            self.out = torch.nn.Linear(4, 5)
            self.wrap = wrap

        def forward(self, x: Any) -> Any:
            found = self.drop(torch.relu(self.norm(self.conv(x)))).mean((2, 3))
            return self.wrap(self.out(found), found)

    x = torch.rand(6, 3, 16, 16)
    plain = Net(lambda logits, _: logits).train()
    model = npcov.Model(plain, example=x)
    assert plain.training, "as it was"
    plain.eval()
    with torch.no_grad():
        expected = plain(x).numpy()
    assert np.abs(model.predict(x).logits - expected).max() < 1e-5, "batch norm and dropout do not train"
    # Of several outputs, the first are the logits.
    for wrap in (lambda logits, found: {"logits": logits, "features": found}, lambda logits, found: (logits, found)):
        other = Net(wrap)
        other.load_state_dict(plain.state_dict())
        assert np.abs(npcov.Model(other, example=x).predict(x).logits - expected).max() < 1e-5
    # Channels last, as matplotlib has them.
    last = x.permute(0, 2, 3, 1)
    assert model.predict(last).logits.tobytes() == model.predict(x).logits.tobytes()
    with pytest.raises(npcov.DataError, match="more channels than rows"):
        model.predict(x.transpose(1, 2))
    with pytest.raises(npcov.DataError, match=r"x\[None\]"):
        model.predict(x[0])
    with pytest.raises(TypeError, match="state_dict|is no model"):
        npcov.Model(plain.state_dict())
    dataset = torch.utils.data.TensorDataset(x, torch.arange(6) % 5)
    assert model.predict(dataset).logits.tobytes() == model.predict(x).logits.tobytes()


def test_options_that_a_graph_has_already(graph: npcov.DecisionGraph, images: Any, cli: CommandLine, tmp_path: Path) -> None:
    """A graph is of a model that was opened in one way: to ask for another one is no silent wish."""
    graph.save(tmp_path / "g.npcov")
    for name, value in {"layers": "nonsense", "token": 0, "units": True, "task": "regression", "alpha": 0.5}.items():
        with pytest.raises(npcov.OptionError, match=f"leave `{name}` out"):
            graph.explain(images[0][:5], **{name: value})
        said = cli.run("explain", tmp_path / "g.npcov", "--data", IMAGES, "--limit", 2, f"--{name}={value}".lower())
        assert said.returncode == 2 and f"leave `--{name}` out" in said.stderr, said.stderr
    assert graph.explain(images[0][:5], input_relevance=True, top=2, threads=1).inputs == 5


def test_what_is_noted_is_a_warning(graph: npcov.DecisionGraph, model: npcov.Model, images: Any, tmp_path: Path) -> None:
    bert, tokens = FIXTURES / "attention" / "bert.onnx", str(FIXTURES / "attention" / "bert.npz")
    attention = npcov.Model(bert)
    for verb in (
        lambda: attention.explain(tokens, limit=2),
        lambda: attention.build(tokens, limit=4),
        lambda: attention.compile(tmp_path / "out.onnx"),
    ):
        with pytest.warns(npcov.NpcovWarning, match="the model has attention: relevance by the preset `transformer`"):
            verb()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        attention.explain(tokens, limit=2, preset="epsilon-plus")
    # Coverage of another graph can be compared, which is said.
    x, y = images
    other = model.build(x[:100], y[:100], alpha=0.7).cover(x[:50], y[:50], name="s")
    with pytest.warns(npcov.NpcovWarning, match="graph"):
        graph.cover(x[:50], y[:50], name="s").check(against=other)
