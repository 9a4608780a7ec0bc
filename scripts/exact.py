"""Evaluates a classifier in double precision, one input at a time: what both ONNX Runtime
and npcov round away from.

Single precision leaves two right programs different answers, and where a model cancels
(a variance as the difference of two means, logits near zero) they differ by a lot. The
distance of each from the same sums in float64 tells whose fault a difference is.

Every tensor of floats is float64, whatever the file says; integers stay integers. The
operators are those that the models in question need, each as its definition reads; any
other raises `Unsupported`.
"""

import numpy as np
import onnx
from numpy.lib.stride_tricks import sliding_window_view
from onnx import numpy_helper


class Unsupported(Exception):
    """A node that is not evaluated here."""


class Exact:
    def __init__(self, path, output):
        """`output` names the tensor to compute."""
        graph = onnx.load(path).graph
        self.output = output
        self.constants = {t.name: double(numpy_helper.to_array(t)) for t in graph.initializer}
        self.input = next(i.name for i in graph.input if i.name not in self.constants)
        self.nodes = needed(graph.node, output)

    def run(self, x):
        """`x` holds preprocessed inputs in the model's layout; the answer has a row for each."""
        return np.stack([self.evaluate(row[None]).reshape(-1) for row in x])

    def evaluate(self, x):
        values = {**self.constants, self.input: double(x), "": None}
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
        return values[self.output]


def double(x):
    return x.astype(np.float64) if np.issubdtype(x.dtype, np.floating) else x


def needed(nodes, output):
    """The nodes that `output` depends on, in graph order."""
    wanted, kept = {output}, []
    for node in reversed(nodes):
        if wanted.intersection(node.output):
            wanted.update(node.input)
            kept.append(node)
    return kept[::-1]


# Operators: inputs by position, attributes by name.


def batch_normalization(x, scale, bias, mean, variance, epsilon=1e-5, momentum=0.9):
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


def div(a, b):
    return a / b if a.dtype == np.float64 else np.trunc(a / b).astype(a.dtype)


def max_pool(x, kernel_shape, ceil_mode=0, **window):
    if ceil_mode:
        raise Unsupported("MaxPool with ceil_mode")
    taps = windows(x, kernel_shape, fill=-np.inf, **window)
    return taps.max(tuple(range(x.ndim, taps.ndim)))


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
    "Add": np.add,
    "BatchNormalization": batch_normalization,
    "Cast": cast,
    "Clip": clip,
    "Concat": lambda *parts, axis: np.concatenate(parts, axis),
    "Constant": lambda value: double(numpy_helper.to_array(value)),
    "Conv": conv,
    "Div": div,
    "Equal": np.equal,
    "Exp": np.exp,
    "Expand": lambda x, shape: x * np.ones(shape, x.dtype),
    "GlobalAveragePool": over_space(np.mean),
    "GlobalMaxPool": over_space(np.max),
    "HardSigmoid": lambda x, alpha=0.2, beta=0.5: np.clip(alpha * x + beta, 0, 1),
    "Identity": lambda x: x,
    "MatMul": np.matmul,
    "Max": lambda *parts: np.maximum.reduce(np.broadcast_arrays(*parts)),
    "MaxPool": max_pool,
    "Mul": np.multiply,
    "Reciprocal": lambda x: 1 / x,
    "ReduceMax": reduce(np.max),
    "ReduceSum": reduce(np.sum),
    "Relu": lambda x: np.maximum(x, 0),
    "Reshape": reshape,
    "Shape": lambda x: np.array(x.shape, np.int64),
    "Slice": slice_,
    "Sqrt": np.sqrt,
    "Squeeze": squeeze,
    "Sub": np.subtract,
    "Tanh": np.tanh,
    "Transpose": lambda x, perm=None: x.transpose(perm),
    "Unsqueeze": unsqueeze,
}
