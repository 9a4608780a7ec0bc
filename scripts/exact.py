"""Evaluates a classifier, or a program made from one, in double precision, one input at a
time: what both ONNX Runtime and npcov round away from.

Single precision leaves two right programs different answers, and where a model cancels
(a variance as the difference of two means, logits near zero) they differ by a lot. The
distance of each from the same sums in float64 tells whose fault a difference is.

Every tensor of floats is float64, whatever the file says; integers stay integers. The
operators are those that the models in question need, each as its definition reads; any
other raises `Unsupported`.
"""

import math

import numpy as np
import onnx
from numpy.lib.stride_tricks import sliding_window_view
from onnx import numpy_helper


class Unsupported(Exception):
    """A node that is not evaluated here."""


class Exact:
    def __init__(self, path, *outputs):
        """`outputs` name the tensors to compute."""
        graph = onnx.load(path).graph
        self.outputs = outputs
        self.constants = {t.name: double(numpy_helper.to_array(t)) for t in graph.initializer}
        self.inputs = [i.name for i in graph.input if i.name not in self.constants]
        self.nodes = needed(graph.node, outputs)

    def run(self, x):
        """`x` holds preprocessed inputs in the model's layout; the answer has a row for each."""
        return self.run_all(x)[self.outputs[0]]

    def run_all(self, x):
        """The same for all outputs, by name."""
        rows = [self.evaluate(row[None]) for row in x]
        return {name: np.stack([row[name].reshape(-1) for row in rows]) for name in self.outputs}

    def evaluate(self, *inputs):
        """All outputs by name, for arrays that are the inputs in the file's order."""
        given = dict(zip(self.inputs, map(double, inputs)))
        values = {**self.constants, **given, "": None}
        for node in self.nodes:
            operator = OPERATORS.get(node.op_type)
            if operator is None or node.domain not in ("", "ai.onnx"):
                raise Unsupported(node.op_type)
            attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
            inputs = [values[name] for name in node.input]
            try:
                values[node.output[0]] = np.asarray(operator(*inputs, **attributes))
            except TypeError as unknown:  # An attribute or input that it has no parameter for.
                raise Unsupported(f"{node.op_type}: {unknown}") from unknown
        return {name: values[name] for name in self.outputs}


# A number of single precision and the next one differ by a relative 6e-8 to 1.2e-7.
TOLERANCE, CAP, NUDGE, NUDGES = 1e-4, 1e-3, 1e-7, 32


class Tally:
    """Rows of two runtimes that agree, and what float64 says of those that do not.

    Relevance is steep where a rule divides by a sum close to zero, and jumps where an argmax changes: two right
    programs can be apart. How far is measured, not assumed: inputs and weights are changed by a relative 1e-7, one unit
    in the last place of single precision, and the same program is evaluated in float64. What that does to the result no
    program in single precision can promise to keep. So a row above 1e-4 passes only if npcov and ONNX Runtime are each
    no farther from float64 than the change that was measured, or than 1e-4; and never if npcov is farther than 1e-3.
    Every such row is printed.
    """

    def __init__(self):
        self.rows = self.above = self.failed = self.beyond = 0

    def judge(self, what, program, inputs, ours, theirs):
        """Arrays by name, each of one input; says how far they are apart."""
        self.rows += 1
        apart = distance(ours, theirs)
        if apart <= TOLERANCE:
            return apart
        self.above += 1
        try:
            # Of a program for several inputs, the first one.
            exact = Exact(program, *theirs)
            result = first(exact.evaluate(*inputs), theirs)
            change = conditioning(exact, inputs, result)
        except Unsupported as unknown:
            self.failed += 1
            self.beyond += 1
            print(f"    {what}: apart {apart:.1e}; not evaluated in float64: {unknown}  FAILED")
            return apart
        npcov, onnx_runtime = distance(ours, result), distance(theirs, result)
        good = max(npcov, onnx_runtime) <= max(change, TOLERANCE) and npcov <= CAP
        self.failed += not good
        self.beyond += npcov > CAP
        verdict = "" if good else "  not explained by rounding"
        print(f"    {what}: apart {apart:.1e}; from float64: npcov {npcov:.1e}, ONNX Runtime {onnx_runtime:.1e}; "
              f"a change of {NUDGE:.0e} makes {change:.1e}, condition {change / NUDGE:.0f}{verdict}")
        return apart

    def __str__(self):
        return f"{self.rows} rows, {self.above} above {TOLERANCE:.0e}, {self.failed} of them not explained by rounding"


def conditioning(exact, inputs, result):
    """How far the result moves when inputs and weights move by NUDGE: the largest of several random changes."""
    random = np.random.default_rng(0)

    def nudged(x):
        # Whole numbers are counts, zeros and quantised weights, which nobody rounds.
        moves = np.issubdtype(x.dtype, np.floating) & (x != np.round(x))
        return np.where(moves, x * (1 + NUDGE * random.choice([-1, 1], x.shape)), x) if np.any(moves) else x

    constants, worst = exact.constants, 0.0
    for _ in range(NUDGES):
        exact.constants = {name: nudged(value) for name, value in constants.items()}
        moved = exact.evaluate(*(nudged(double(x)) for x in inputs))
        worst = max(worst, distance(first(moved, result), result))
    exact.constants = constants
    return worst


def first(found, expected):
    """Of each array as much as there is of the other one: a program for several inputs has more rows."""
    return {name: found[name].ravel()[: expected[name].size] for name in expected}


def distance(found, expected):
    """The largest distance of an array, as a part of its largest number."""

    def of(name):
        a, b = (np.asarray(side[name], np.float64).ravel() for side in (found, expected))
        apart = np.abs(a - b).max(initial=0)
        return 0.0 if apart == 0 else float(np.nan_to_num(apart / max(np.abs(b).max(), 1e-30), nan=np.inf))

    return max(of(name) for name in expected)


def double(x):
    return x.astype(np.float64) if np.issubdtype(x.dtype, np.floating) else x


def needed(nodes, outputs):
    """The nodes that `outputs` depend on, in graph order."""
    wanted, kept = set(outputs), []
    for node in reversed(nodes):
        if wanted.intersection(node.output):
            wanted.update(node.input)
            kept.append(node)
    return kept[::-1]


# Operators: inputs by position, attributes by name.


def arg_max(x, axis=0, keepdims=1, select_last_index=0):
    if select_last_index:
        raise Unsupported("the last of several largest")
    return np.argmax(x, axis=axis, keepdims=bool(keepdims))


def average_pool(x, kernel_shape, ceil_mode=0, count_include_pad=0, **window):
    if ceil_mode:
        raise Unsupported("AveragePool with ceil_mode")
    taps = windows(x, kernel_shape, **window)
    counted = windows(np.ones_like(x), kernel_shape, fill=float(count_include_pad), **window)
    axes = tuple(range(x.ndim, taps.ndim))
    return taps.sum(axes) / counted.sum(axes)


def batch_normalization(x, scale, bias, mean, variance, epsilon=1e-5, momentum=0.9, training_mode=0):
    if training_mode:
        raise Unsupported("BatchNormalization in training")
    scale, bias, mean, variance = (
        p.reshape(1, -1, *[1] * (x.ndim - 2)) for p in (scale, bias, mean, variance)
    )
    return scale * (x - mean) / np.sqrt(variance + epsilon) + bias


def cast(x, to):
    kind = onnx.helper.tensor_dtype_to_np_dtype(to)
    return x.astype(np.float64 if np.issubdtype(kind, np.floating) else kind)


def clip(x, low=None, high=None, min=-np.inf, max=np.inf):
    # Limits were attributes before opset 11 and are inputs since.
    return np.clip(x, min if low is None else low, max if high is None else high)


def conv(x, w, bias=None, group=1, **window):
    taps = windows(x, w.shape[2:], **window)
    n, _, *extent = taps.shape[: x.ndim]
    # [n, group, positions, products] times [group, products, channels of the group].
    taps = np.moveaxis(taps.reshape(n, group, -1, *taps.shape[2:]), 2, x.ndim)
    taps = taps.reshape(n, group, int(np.prod(extent)), -1)
    weights = w.reshape(group, len(w) // group, -1).transpose(0, 2, 1)
    y = (taps @ weights).transpose(0, 1, 3, 2).reshape(n, len(w), *extent)
    return y if bias is None else y + bias.reshape(1, -1, *[1] * len(extent))


def conv_transpose(
    x, w, bias=None, group=1, strides=None, pads=None, dilations=None, output_padding=None, **given
):
    if bias is not None or given.keys() - {"kernel_shape"}:
        raise Unsupported(f"ConvTranspose with {given}")
    rank, kernel = x.ndim - 2, w.shape[2:]
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    pads, more = pads or [0] * rank * 2, output_padding or [0] * rank
    span = [d * (k - 1) for k, d in zip(kernel, dilations)]
    size = [(n - 1) * s + e + 1 + m for n, s, e, m in zip(x.shape[2:], strides, span, more)]
    parts = x.reshape(len(x), group, -1, int(np.prod(x.shape[2:])))
    weights = w.reshape(group, w.shape[0] // group, w.shape[1], -1)
    y = np.zeros((len(x), group * w.shape[1], *size))
    for i, tap in enumerate(np.ndindex(*kernel)):
        sent = np.einsum("ngcp,gck->ngkp", parts, weights[..., i])
        reached = [
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, s, n in zip(tap, dilations, strides, x.shape[2:])
        ]
        y[(..., *reached)] += sent.reshape(len(x), -1, *x.shape[2:])
    inside = [slice(a, n - b) for a, b, n in zip(pads[:rank], pads[rank:], size)]
    return y[(..., *inside)]


def div(a, b):
    return a / b if a.dtype == np.float64 else np.trunc(a / b).astype(a.dtype)


def gelu(x, approximate=b"none"):
    if approximate != b"none":
        raise Unsupported("Gelu with an approximation")
    return x / 2 * (1 + np.vectorize(math.erf)(x / np.sqrt(2)))


def gemm(a, b, c=0.0, alpha=1.0, beta=1.0, transA=0, transB=0):
    return alpha * (a.T if transA else a) @ (b.T if transB else b) + beta * c


def max_pool(x, kernel_shape, ceil_mode=0, **window):
    if ceil_mode:
        raise Unsupported("MaxPool with ceil_mode")
    taps = windows(x, kernel_shape, fill=-np.inf, **window)
    return taps.max(tuple(range(x.ndim, taps.ndim)))


def pad(x, pads, value=0.0, axes=None, mode=b"constant"):
    if mode != b"constant" or axes is not None:
        raise Unsupported(f"Pad with {mode=}, {axes=}")
    padding = list(zip(pads[: x.ndim].tolist(), pads[x.ndim :].tolist()))
    return np.pad(x, padding, constant_values=value)


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def over_space(f):
    return lambda x: f(x, axis=tuple(range(2, x.ndim)), keepdims=True)


def reduce(f):
    def operator(x, axes_input=None, axes=None, keepdims=1, noop_with_empty_axes=0):
        # Axes were an attribute before opset 13 (18 for some) and are an input since.
        axes = axes if axes_input is None else axes_input
        if axes is None or len(axes) == 0:
            return x if noop_with_empty_axes else f(x, axis=None, keepdims=bool(keepdims))
        return f(x, axis=tuple(int(a) for a in axes), keepdims=bool(keepdims))

    return operator


def reshape(x, shape, allowzero=0):
    kept = [x.shape[i] if s == 0 and not allowzero else int(s) for i, s in enumerate(shape)]
    return x.reshape(kept)


def slice_(x, starts, ends, axes=None, steps=None):
    cuts = [slice(None)] * x.ndim
    axes = range(len(starts)) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    for start, end, axis, step in zip(starts, ends, axes, steps):
        cuts[axis] = slice(int(start), int(end), int(step))
    return x[tuple(cuts)]


def squeeze(x, axes_input=None, axes=None):
    axes = axes if axes_input is None else axes_input
    return np.squeeze(x, None if axes is None else tuple(int(a) for a in axes))


def unsqueeze(x, axes_input=None, axes=None):
    return np.expand_dims(x, tuple(int(a) for a in (axes if axes_input is None else axes_input)))


def windows(
    x, kernel, strides=None, pads=None, dilations=None, fill=0.0, auto_pad=b"NOTSET", **given
):
    """What every position of a window sees: axes of `x`, then axes of the window."""
    if auto_pad != b"NOTSET" or given.keys() - {"kernel_shape", "storage_order"}:
        raise Unsupported(f"a window with {auto_pad=}, {given}")
    rank = len(kernel)
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    pads = pads or [0] * rank * 2
    padding = [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:])]
    extent = [d * (k - 1) + 1 for k, d in zip(kernel, dilations)]
    seen = sliding_window_view(np.pad(x, padding, constant_values=fill), extent, range(2, 2 + rank))
    every = [slice(None, None, step) for step in (1, 1, *strides, *dilations)]
    return seen[tuple(every)]


OPERATORS = {
    "Abs": np.abs,
    "Add": np.add,
    "And": np.logical_and,
    "ArgMax": arg_max,
    "AveragePool": average_pool,
    "BatchNormalization": batch_normalization,
    "Cast": cast,
    "Clip": clip,
    "Concat": lambda *parts, axis: np.concatenate(parts, axis),
    "Constant": lambda value: double(numpy_helper.to_array(value)),
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "Div": div,
    "Elu": lambda x, alpha=1.0: np.where(x < 0, alpha * (np.exp(x) - 1), x),
    "Equal": np.equal,
    "Erf": np.vectorize(math.erf, otypes=[np.float64]),
    "Exp": np.exp,
    "Expand": lambda x, shape: x * np.ones(shape, x.dtype),
    "Flatten": lambda x, axis=1: x.reshape(math.prod(x.shape[:axis]), -1),
    "Floor": np.floor,
    "Gather": lambda x, places, axis=0: np.take(x, places, axis),
    "Gelu": gelu,
    "Gemm": gemm,
    "GlobalAveragePool": over_space(np.mean),
    "GlobalMaxPool": over_space(np.max),
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "HardSigmoid": lambda x, alpha=0.2, beta=0.5: np.clip(alpha * x + beta, 0, 1),
    "HardSwish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "Identity": lambda x: x,
    "IsNaN": np.isnan,
    "LeakyRelu": lambda x, alpha=0.01: np.where(x < 0, alpha * x, x),
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Log": np.log,
    "MatMul": np.matmul,
    "Max": lambda *parts: np.maximum.reduce(np.broadcast_arrays(*parts)),
    "MaxPool": max_pool,
    "Min": lambda *parts: np.minimum.reduce(np.broadcast_arrays(*parts)),
    "Mul": np.multiply,
    "Neg": np.negative,
    "Not": np.logical_not,
    "Or": np.logical_or,
    "Pad": pad,
    "Pow": np.power,
    "Reciprocal": lambda x: 1 / x,
    "ReduceMax": reduce(np.max),
    "ReduceMean": reduce(np.mean),
    "ReduceMin": reduce(np.min),
    "ReduceSum": reduce(np.sum),
    "Relu": lambda x: np.maximum(x, 0),
    "Reshape": reshape,
    "Round": np.round,
    "Shape": lambda x: np.array(x.shape, np.int64),
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Sign": np.sign,
    "Slice": slice_,
    "Softmax": softmax,
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "Sqrt": np.sqrt,
    "Squeeze": squeeze,
    "Sub": np.subtract,
    "Tanh": np.tanh,
    "Tile": np.tile,
    "Transpose": lambda x, perm=None: x.transpose(perm),
    "Unsqueeze": unsqueeze,
    "Where": np.where,
}
