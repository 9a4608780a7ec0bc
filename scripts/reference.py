"""Runs a classifier in ONNX Runtime the way npcov describes it.

npcov reports *logits*: what goes into a trailing Softmax (also one that is
written out), LogSoftmax or (for a single output) Sigmoid. `Reference` finds
that tensor in the ONNX file, makes it an output and runs the model on any
number of inputs, one at a time when the file fixes the batch at one.
"""

from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime

SHAPE_ONLY = {"Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Cast"}
FINAL_ACTIVATIONS = {"Softmax", "LogSoftmax", "Sigmoid"}
ACTIVATIONS = {
    "Relu", "LeakyRelu", "PRelu", "Elu", "Selu", "Celu", "ThresholdedRelu", "Sigmoid",
    "HardSigmoid", "HardSwish", "Tanh", "Erf", "Gelu", "Softplus", "Softsign", "Mish", "Clip",
}  # fmt: skip


@dataclass
class Answer:
    """What ONNX Runtime computed, first axis the inputs."""

    output: np.ndarray
    """The first graph output."""
    logits: np.ndarray
    """What went into the final activation; `output` where there is none."""
    activations: list | None
    """Channel means after every Relu when that is the only hidden activation and f32."""


class Reference:
    def __init__(self, path, threads=2, optimise=True):
        # Loading through onnx resolves external data relative to the file.
        model = onnx.load(path)
        graph = model.graph
        producers = {name: node for node in graph.node for name in node.output}
        self.output = graph.output[0].name
        self.logits = final_logits(self.output, producers)
        self.relus = hidden_relus(model, self.logits)

        extra = [self.logits, *(self.relus or [])]
        for name in dict.fromkeys(extra):
            if name != self.output:
                graph.output.append(onnx.ValueInfoProto(name=name))

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        if not optimise:
            level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
            options.graph_optimization_level = level
        self.session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        self.input = self.session.get_inputs()[0]

    @property
    def fixed_batch(self):
        """Whether the file says how many inputs there are in a batch: one."""
        return self.input.shape[0] == 1

    def prepared(self, x):
        """Preprocessed inputs in the layout and type of the model's."""
        x = fit(x, self.input.shape)
        kind = {"tensor(int32)": np.int32, "tensor(int64)": np.int64}
        return np.ascontiguousarray(x, dtype=kind.get(self.input.type, np.float32))

    def run(self, x):
        """`x` holds preprocessed inputs; its layout is fitted to the model's."""
        x = self.prepared(x)
        names = list(dict.fromkeys([self.output, self.logits, *(self.relus or [])]))
        parts = {name: [] for name in names}
        step = 1 if self.fixed_batch else 50
        halved = False
        for start in range(0, len(x), step):
            batch = x[start : start + step]
            for name, value in zip(names, self.session.run(names, {self.input.name: batch})):
                # Asking for an f16 tensor rounds it; the model itself runs in f32.
                halved |= value.dtype == np.float16
                # A file for one input may have dropped the batch axis on the way.
                dropped = self.fixed_batch and (value.ndim < 2 or value.shape[0] != 1)
                value = value[None] if dropped else value
                if name in (self.output, self.logits):
                    value = value.reshape(len(batch), -1)
                else:
                    value = value.mean(axis=tuple(range(2, value.ndim)), dtype=np.float64)
                parts[name].append(value)
        joined = {name: np.concatenate(values) for name, values in parts.items()}
        relus = None if self.relus is None or halved else [joined[name] for name in self.relus]
        return Answer(joined[self.output], joined[self.logits], relus)


def final_logits(output, producers):
    """The name of the tensor before the final activation, `output` if there is none."""
    name = output
    while name in producers:
        node = producers[name]
        if node.op_type in FINAL_ACTIVATIONS:
            return node.input[0]
        if node.op_type == "Div":
            return written_out_softmax(node, producers) or output
        if node.op_type not in SHAPE_ONLY:
            return output
        name = node.input[0]
    return output


def written_out_softmax(node, producers):
    """The operand z of exp(z - max z) / sum, or None."""
    for kind in ("Exp", "Sub"):
        node = producers.get(node.input[0])
        if node is None or node.op_type != kind:
            return None
    return node.input[0]


def hidden_relus(model, logits):
    """Outputs of all Relu nodes in graph order, or None when other activations occur
    or a model-local function may hide some."""
    if model.functions:
        return None
    relus = []
    for node in model.graph.node:
        if node.op_type == "Relu":
            relus.append(node.output[0])
        elif node.op_type in ACTIVATIONS and logits not in node.input:
            return None
    return relus


def fit(x, shape):
    """Brings (N,H,W), NCHW or NHWC images to the model's input shape (flat, NCHW, NHWC)."""
    rest = [size if isinstance(size, int) and size > 0 else None for size in shape[1:]]
    if len(rest) == x.ndim - 1 and all(r in (None, s) for r, s in zip(rest, x.shape[1:])):
        return x
    if len(rest) == 1:
        return x.reshape(len(x), -1)
    if x.ndim == 3:
        x = x[:, None]
    if rest == [x.shape[2], x.shape[3], x.shape[1]]:
        return x.transpose(0, 2, 3, 1)
    if len(rest) == 3 and all(r in (None, s) for r, s in zip(rest, x.shape[1:])):
        return x
    raise ValueError(f"inputs of shape {x.shape[1:]} do not fit a model for {shape[1:]}")


def predict(logits):
    """Classes: the largest logit, or the sign of a single one."""
    return (logits[:, 0] > 0).astype(int) if logits.shape[1] == 1 else logits.argmax(1)
