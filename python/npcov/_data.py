"""Data of all kinds as samples that npcov reads."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _npcov
from ._progress import warn
from .errors import DataError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Rows of an array that a callable gets at a time.
_ROWS = 256


class Data:
    """Samples with their labels, ready to be read.

    Verbs make one of whatever they are given. Whoever uses the same data several times, or wants to name it, makes it
    once: npcov reads all of it to know it again, and remembers that.

    ``x`` is a numpy array with a row for each sample, a torch tensor, a pandas or polars column or frame, a dict of
    arrays for models with several inputs, the name of a file or folder as ``--data`` takes it, a list of npy or image
    files, or any iterable of batches, each ``x`` or ``(x, y)``, or of samples with their labels, as datasets of PyTorch
    are. Batches are written to a temporary file as they come, so they need not fit into memory; arrays are read where
    they lie.

    >>> import numpy as np
    >>> data = Data(np.zeros((3, 2), np.float32), [0, 1, 1], name="three")
    >>> len(data), data.name
    (3, 'three')
    """

    _samples: _npcov.Samples

    def __init__(
        self,
        x: Any,
        y: Any = None,
        *,
        name: str | None = None,
        class_names: Sequence[str] | None = None,
        names: Sequence[str] | None = None,
        preprocess: Callable[[Any], Any] | None = None,
    ) -> None:
        if isinstance(x, Data):
            raise TypeError("this is Data already")
        files = _files(x)
        # Names of classes that labels gave, by the alphabet.
        self._counted = _counted(y) if class_names is None else None
        # Whether it takes room on the disk as long as it is there.
        self._is_spooled = True
        is_path = isinstance(x, (str, os.PathLike))
        if files is not None and len(files) == 1 and preprocess is None and (is_path or y is None):
            self._is_spooled = False
            if y is not None or class_names is not None or names is not None:
                raise TypeError("a file or folder has labels and names of its own: give `x` alone")
            self._samples = _npcov.Samples.open(files[0])
            return
        words = (
            None if class_names is None else [str(n) for n in class_names],
            None if names is None else [str(n) for n in names],
        )
        name = name or "arrays in memory"
        if files is not None:
            if words[1] is None and not any(path.endswith((".npy", ".npz")) for path in files):
                words = (words[0], files)
            self._samples = _spooled(name, _read(files), y, words, preprocess)
            return
        if isinstance(x, Mapping):
            if preprocess is not None:
                raise TypeError("`preprocess` takes one input, and these are several")
            inputs = [(str(key), array(value)) for key, value in x.items()]
            self._is_spooled = False
            self._samples = _npcov.Samples.arrays(name, inputs, _words(y, words))
            return
        whole = _whole(x)
        if whole is None:
            self._samples = _spooled(name, _iterated(x), y, words, preprocess)
        elif preprocess is not None:
            self._samples = _spooled(name, _chunks(whole), y, words, preprocess)
        else:
            self._is_spooled = False
            self._samples = _npcov.Samples.arrays(name, [("x", whole)], _words(y, words))

    def __len__(self) -> int:
        return len(self._samples)

    @property
    def name(self) -> str:
        """What the whole is called."""
        return self._samples.name

    @property
    def sha256(self) -> str:
        """The digest that artefacts know the data by. Reads all of it, once."""
        return self._samples.digest()

    def __repr__(self) -> str:
        return f"<npcov.Data {self.name!r}: {len(self)} samples>"


def as_data(x: Any, y: Any = None, *, preprocess: Callable[[Any], Any] | None = None) -> Data:
    """Data of whatever there is."""
    if isinstance(x, Data):
        if y is not None:
            raise TypeError("the data has its labels: give no `y` beside it")
        return x
    if isinstance(x, tuple) and len(x) == 2 and y is None and _whole(x[0]) is not None:
        x, y = x
    return Data(x, y, preprocess=preprocess)


def fitted(x: Any, y: Any, preprocess: Callable[[Any], Any] | None, model: _npcov.Model | _npcov.DecisionGraph) -> Data:
    """Data for a model, after a look at what is easily mistaken."""
    shape = getattr(x, "shape", None)
    if preprocess is None and shape and shape[0] > 1 and _is_sample(tuple(shape), model.input_shape):
        raise DataError(
            f"this is one sample of shape {tuple(shape)}, and no batch of samples", "`x[None]` adds a batch axis"
        )
    data = as_data(x, y, preprocess=preprocess)
    if data._counted and model.class_names is None:
        first, *_, last = data._counted
        message = (
            f"labels are names, and count in alphabetical order from `{first}`, class 0, to `{last}`, class "
            f"{len(data._counted) - 1}; `class_names` says how the model counts"
        )
        warn([message], stacklevel=4)
    return data


def from_the_end(index: int | None, model: _npcov.Model | _npcov.DecisionGraph, data: Data) -> int | None:
    """A position; negative ones count from the end, as everywhere in Python."""
    if index is None or index >= 0:
        return index
    count = model.count(data._samples)
    if index < -count:
        raise DataError(f"no input {index} in `{data.name}`: it has {count} inputs")
    return count + int(index)


def _is_sample(shape: tuple[int, ...], wanted: list[int]) -> bool:
    """Whether a shape is that of one sample, but for axes of length 1; or as many numbers in a row."""
    found, sample = ([int(length) for length in axes if length != 1] for axes in (shape, wanted))
    return found == sample or found == [math.prod(sample)]


def array(x: Any) -> NDArray[Any]:
    """Something like an array as one of numpy, in C order; without a copy where that can be."""
    import numpy as np

    if hasattr(x, "detach") and hasattr(x, "cpu"):
        x = x.detach().cpu()
        if str(x.dtype) == "torch.bfloat16":
            x = x.float()
        x = x.resolve_conj().resolve_neg().contiguous()
    if not isinstance(x, np.ndarray):
        if _is_frame(x):
            x = _of_frame(x)
        elif hasattr(x, "__dlpack__"):
            x = np.from_dlpack(x)
        else:
            try:
                x = np.asarray(x)
            except ValueError:
                x = _stacked(x)
    if x.dtype == object:
        if x.ndim == 0:
            raise DataError(f"`{type(x.item()).__name__}` is no array of numbers")
        x = _stacked(x)
    if x.dtype.kind not in "biuf" or x.dtype.itemsize > 8:
        raise DataError(f"numbers are needed, not `{x.dtype}`")
    return np.require(x, dtype=x.dtype.newbyteorder("="), requirements=["C", "A"])


def _stacked(rows: Iterable[Any]) -> NDArray[Any]:
    """Samples that lie apart as one array."""
    import numpy as np

    found = [np.asarray(row) for row in rows]
    shapes = list(dict.fromkeys(row.shape for row in found))
    if len(shapes) > 1:
        raise DataError(
            f"samples have different shapes: {shapes[0]} and {shapes[1]}",
            "bring them to one shape; if these are batches, `iter(batches)` says so",
        )
    return np.stack(found)


def labels(y: Any) -> _npcov.Labels:
    """Labels as the command line reads them: classes, which are whole numbers or one-hot rows, or else numbers."""
    import numpy as np

    if y is None:
        return None
    found = array(y)
    if found.ndim == 0:
        raise DataError("a single number is no label for each sample")
    if found.dtype.kind == "f" and np.isnan(found).any():
        row = int(np.argwhere(np.isnan(found))[0, 0])
        raise DataError(f"the label of sample {row} is missing: it is NaN", "leave samples without labels out")
    rows = found.reshape(len(found), int(np.prod(found.shape[1:])))
    if rows.shape[1] == 1 and _are_whole(rows):
        return [int(label) for label in rows[:, 0].tolist()]
    if rows.shape[1] > 1 and ((rows == 0) | (rows == 1)).all() and (rows.sum(axis=1) == 1).all():
        return [int(label) for label in rows.argmax(axis=1).tolist()]
    return rows.shape[1], rows.astype(np.float64).ravel().tolist()


def _words(
    y: Any, words: tuple[list[str] | None, list[str] | None]
) -> tuple[_npcov.Labels, list[str] | None, list[str] | None]:
    """Labels, names of classes and names of samples. Labels that are names count as folders of images do."""
    classes, samples = words
    column = None if y is None else _of_texts(y)
    if column is None:
        return labels(y), classes, samples
    if classes is None and all(name.isdecimal() for name in column):
        return labels([int(name) for name in column]), None, samples
    classes = sorted(set(column)) if classes is None else classes
    places = {name: place for place, name in enumerate(classes)}
    unknown = next((name for name in column if name not in places), None)
    if unknown is not None:
        raise DataError(f"the label `{unknown}` is none of the names of classes")
    return [places[name] for name in column], classes, samples


def _counted(y: Any) -> list[str] | None:
    """The classes that labels name, if they name any."""
    texts = None if y is None else _of_texts(y)
    names = sorted(set(texts or ()))
    return names if len(names) > 1 and not all(name.isdecimal() for name in names) else None


def _of_texts(y: Any) -> list[str] | None:
    """Labels that are texts."""
    import numpy as np

    if not (isinstance(y, (np.ndarray, list, tuple)) or _is_frame(y)):
        return None
    found: NDArray[Any] = np.asarray(y)
    if found.ndim != 1 or found.dtype.kind not in "UO" or not all(isinstance(name, str) for name in found):
        return None
    return [str(name) for name in found]


def _are_whole(numbers: NDArray[Any]) -> bool:
    # Floats count whole numbers exactly up to 2^53.
    return numbers.dtype.kind != "f" or bool(((numbers == numbers.round()) & (abs(numbers) <= 2.0**53)).all())


def _files(x: Any) -> list[str] | None:
    """Names of files, where `x` is nothing else."""
    if isinstance(x, (str, os.PathLike)):
        return [os.fspath(x)]
    if isinstance(x, (list, tuple)) and x and all(isinstance(p, (str, os.PathLike)) for p in x):
        return [os.fspath(path) for path in x]
    return None


def _read(files: list[str]) -> Iterator[Any]:
    """The arrays of files: npy and npz ones with all their rows, images with one."""
    import numpy as np

    for path in files:
        if path.endswith(".npy"):
            yield np.load(path, mmap_mode="r", allow_pickle=False)
        elif path.endswith(".npz"):
            with np.load(path, allow_pickle=False) as held:
                yield (held["x"], held["y"]) if "y" in held.files else held["x"]
        else:
            try:
                from PIL import Image
            except ImportError as error:
                raise DataError(
                    f"`{path}`: reading single images needs Pillow",
                    "`pip install pillow`; a folder with one folder a class needs none",
                ) from error
            with Image.open(path) as image:
                yield np.asarray(image.convert("L" if image.mode in ("1", "L") else "RGB"))[None]


def _whole(x: Any) -> NDArray[Any] | None:
    """Everything at once, where it is there at once."""
    import numpy as np

    if isinstance(x, list) and x and all(is_pair(part) for part in x):
        return None
    is_array = isinstance(x, (np.ndarray, list, tuple)) or hasattr(x, "__array__")
    if is_array or hasattr(x, "__dlpack__") or _is_frame(x):
        found = array(x)
        if found.ndim == 0:
            raise DataError("a single number is no dataset: one row for each sample is")
        return found
    if not isinstance(x, Iterable) and not _is_dataset(x):
        hint = "a list of them is: `[image]`" if hasattr(x, "__array_interface__") else None
        raise DataError(f"`{type(x).__name__}` is no data: arrays, files and iterables of batches are", hint)
    return None


def _is_dataset(x: Any) -> bool:
    """Whether it has samples by their numbers, as datasets of PyTorch do."""
    return hasattr(x, "__getitem__") and hasattr(x, "__len__")


def _iterated(x: Any) -> Iterable[Any]:
    """Batches, or samples, one after the other."""
    # A dataset of PyTorch does not say where it ends.
    return (x[i] for i in range(len(x))) if _is_dataset(x) and not isinstance(x, list) else x


def _is_frame(x: Any) -> bool:
    module = type(x).__module__.split(".")[0]
    return module in ("pandas", "polars") and hasattr(x, "to_numpy")


def _of_frame(x: Any) -> NDArray[Any]:
    import numpy as np

    _whole_frame(x)
    found = x.to_numpy()
    if found.dtype == object and found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if found.dtype == object and found.ndim == 2:
        try:
            found = found.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(
                f"columns that are no numbers cannot be read: {error}",
                "choose columns, or encode them as the model's training did",
            ) from error
    result: NDArray[Any] = found
    return result


def _whole_frame(x: Any) -> None:
    """Names the first value of a frame that is missing."""
    columns = [(name, x[name]) for name in x.columns] if hasattr(x, "columns") else [(x.name, x)]
    for name, column in columns:
        missing = column.isna() if hasattr(column, "isna") else column.is_null()
        if missing.any():
            row = int(missing.to_numpy().argmax())
            raise DataError(
                f"column `{name}`, row {row}: there is no value",
                "drop such rows, or fill them as the model's training did",
            )


def _chunks(whole: NDArray[Any]) -> Iterator[NDArray[Any]]:
    for start in range(0, len(whole), _ROWS):
        yield whole[start : start + _ROWS]


def _spooled(
    name: str,
    batches: Iterable[Any],
    y: Any,
    words: tuple[list[str] | None, list[str] | None],
    preprocess: Callable[[Any], Any] | None,
) -> _npcov.Samples:
    """Batches by way of temporary files."""
    spool = Spool()
    try:
        spool.extend(batches, preprocess)
        return spool.finish(name, y, words)
    finally:
        spool.close()


class _Column:
    """A temporary file that takes the rows of one input."""

    def __init__(self, first: NDArray[Any]) -> None:
        self._file = tempfile.NamedTemporaryFile(prefix="npcov-", suffix=".rows", delete=False)
        self._row, self._dtype = first.shape[1:], first.dtype

    def append(self, rows: NDArray[Any]) -> None:
        if rows.shape[1:] != self._row or rows.dtype != self._dtype:
            raise DataError(
                f"batches differ: after rows of shape {self._row} and type {self._dtype} come rows of "
                f"shape {rows.shape[1:]} and type {rows.dtype}"
            )
        if rows.size:
            self._file.write(rows.data.cast("B"))

    def finish(self, name: str, rows: int) -> tuple[str, str, str, list[int]]:
        self._file.flush()
        return name, self._file.name, self._dtype.str, [rows, *self._row]

    def close(self) -> None:
        self._file.close()
        try:
            os.unlink(self._file.name)
        except OSError:
            pass


class Spool:
    """Temporary files that take rows, batch by batch."""

    def __init__(self) -> None:
        self._columns: dict[str, _Column] = {}
        self._labels: list[NDArray[Any]] | None = None
        self.rows = 0

    def extend(self, batches: Iterable[Any], preprocess: Callable[[Any], Any] | None) -> None:
        """Takes batches, each ``x`` or ``(x, y)``; or samples, each with its label."""
        import numpy as np

        for batch in batches:
            x, y = (batch[0], batch[1]) if is_pair(batch) else (batch, None)
            if y is not None and np.ndim(y) == 0 and not isinstance(x, Mapping):
                # A sample of a dataset, with its label.
                x, y = array(x)[None], [y if isinstance(y, str) else array(y).item()]
            self.append(x if preprocess is None else preprocessed(preprocess, x), y)

    def append(self, x: Any, y: Any = None) -> None:
        """Takes a batch; a dict of arrays is one of a model with several inputs."""
        import numpy as np

        inputs = x if isinstance(x, Mapping) else {"x": x}
        found = {str(name): array(values) for name, values in inputs.items()}
        count = _rows_of(found)
        texts = None if y is None else _of_texts(y)
        labels = np.array(texts) if texts else None if y is None else array(y)
        if labels is not None and (labels.ndim == 0 or len(labels) != count):
            raise DataError(f"a batch has {labels.size} labels for {count} samples")
        if not self._columns:
            self._columns = {name: _Column(rows) for name, rows in found.items()}
            self._labels = None if labels is None else []
        if found.keys() != self._columns.keys():
            raise DataError(
                f"batches differ: after inputs {', '.join(self._columns)} come {', '.join(found)}"
            )
        if (labels is None) != (self._labels is None):
            raise DataError("some batches have labels and others have none")
        for name, rows in found.items():
            self._columns[name].append(rows)
        if labels is not None and self._labels is not None:
            self._labels.append(labels.copy())
        self.rows += count

    def finish(
        self,
        name: str,
        y: Any = None,
        words: tuple[list[str] | None, list[str] | None] = (None, None),
    ) -> _npcov.Samples:
        """All rows so far, as samples. More can be taken afterwards."""
        import numpy as np

        if not self._columns:
            raise DataError(f"`{name}` has no inputs: there was no batch")
        if self._labels is not None:
            if y is not None:
                raise TypeError("the batches have labels: give no `y` beside them")
            try:
                y = np.concatenate(self._labels)
            except ValueError as error:
                raise DataError(f"labels of batches differ: {error}") from error
        inputs = [column.finish(input, self.rows) for input, column in self._columns.items()]
        return _npcov.Samples.spooled(name, inputs, _words(y, words))

    def close(self) -> None:
        """Removes the files; samples that were made of them keep them open."""
        for column in self._columns.values():
            column.close()


def _rows_of(inputs: Mapping[str, NDArray[Any]]) -> int:
    counts = {rows.shape[0] if rows.ndim else None for rows in inputs.values()}
    if None in counts:
        raise DataError("a batch is a single number, not one row for each sample")
    if len(counts) != 1:
        raise DataError(f"the inputs of a batch have different numbers of rows: {sorted(map(str, counts))}")
    return int(next(iter(counts)) or 0)


def preprocessed(preprocess: Callable[[Any], Any], x: Any) -> Any:
    """What a user's function makes of a batch."""
    found = preprocess(x)
    if found is None:
        raise DataError(f"`preprocess` gave nothing: `{getattr(preprocess, '__name__', preprocess)}` returns None")
    return found


def is_pair(batch: Any) -> bool:
    """Whether it is inputs with their labels."""
    return isinstance(batch, (tuple, list)) and len(batch) == 2 and _is_batch(batch[0])


def _is_batch(x: Any) -> bool:
    return isinstance(x, Mapping) or hasattr(x, "__dlpack__") or (hasattr(x, "shape") and len(x.shape) >= 1)
