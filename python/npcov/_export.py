"""Models of other frameworks as ONNX."""

from __future__ import annotations

import io
import os
import tempfile
import warnings
from collections.abc import Mapping
from typing import Any

from .errors import ModelError


def is_torch(model: Any) -> bool:
    """Whether it is a module of PyTorch."""
    return any(base.__module__.startswith("torch.nn.") for base in type(model).__mro__)


def is_keras(model: Any) -> bool:
    """Whether it is a model of Keras."""
    return any(base.__module__.split(".")[0] == "keras" for base in type(model).__mro__)


def from_torch(module: Any, example: Any) -> bytes:
    """A module as ONNX, in evaluation mode, with an open batch axis.

    Nodes are named after the modules that they come from, and so are path layers. Where PyTorch's tracer cannot export
    it, its compiler is asked, whose nodes have names of their own.
    """
    import torch

    if example is None:
        raise TypeError("a torch.nn.Module needs `example`, a batch of inputs that it is exported with")
    device = next((p.device for p in module.parameters()), None)
    inputs = {name: _one(value, device) for name, value in _named(example).items()}
    training = module.training
    module.eval()
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            try:
                return _traced(module, inputs, isinstance(example, Mapping))
            except Exception as error:
                try:
                    return _compiled(module, inputs, isinstance(example, Mapping))
                except Exception as other:
                    raise ModelError(
                        f"PyTorch cannot export the module: {error}\nnor by its compiler: {other}",
                        "`torch.onnx.export` with other settings may; give npcov the file that it writes",
                    ) from error
    finally:
        module.train(training)


def _named(example: Any) -> dict[str, Any]:
    """The inputs of an example: one, several in a tuple, or several by name."""
    if isinstance(example, Mapping):
        return {str(name): value for name, value in example.items()}
    if isinstance(example, tuple):
        return {f"x{i}": value for i, value in enumerate(example)}
    return {"x": example}


def _one(value: Any, device: Any) -> Any:
    """A batch of one."""
    import torch

    value = torch.as_tensor(value)
    if value.ndim < 2:
        raise ModelError(
            f"`example` has shape {tuple(value.shape)}, and no batch axis", "`example[None]` adds one"
        )
    return value[:1] if device is None else value[:1].to(device)


def _traced(module: Any, inputs: dict[str, Any], by_name: bool) -> bytes:
    import torch

    buffer = io.BytesIO()
    # A buffer is a place to write to, whatever the annotation says.
    export: Any = torch.onnx.export
    export(
        module,
        () if by_name else tuple(inputs.values()),
        buffer,
        kwargs=inputs if by_name else None,
        input_names=list(inputs),
        output_names=["logits"],
        dynamic_axes={name: {0: "batch"} for name in (*inputs, "logits")},
        opset_version=17,
        dynamo=False,
    )
    return buffer.getvalue()


def _compiled(module: Any, inputs: dict[str, Any], by_name: bool) -> bytes:
    import torch

    # A batch axis of 1 would be taken for a constant.
    inputs = {name: torch.cat([value, value]) for name, value in inputs.items()}
    batch = {0: torch.export.Dim("batch")}
    export: Any = torch.onnx.export
    program = export(
        module,
        () if by_name else tuple(inputs.values()),
        kwargs=inputs if by_name else None,
        input_names=list(inputs),
        output_names=["logits"],
        dynamic_shapes={name: batch for name in inputs} if by_name else tuple(batch for _ in inputs),
        dynamo=True,
        verbose=False,
    )
    return bytes(program.model_proto.SerializeToString())


def from_keras(model: Any, example: Any) -> bytes:
    """A Keras model as ONNX. Keras exports only what was called once, so it is, on an example or on zeros."""
    import numpy as np

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        try:
            if example is None:
                example = np.zeros((1, *model.input_shape[1:]), np.float32)
            model(example[:1])
            model.export(path, format="onnx", verbose=False)
        except Exception as error:
            raise ModelError(
                f"Keras cannot export the model: {error}",
                '`model.export("model.onnx", format="onnx")` says more; tensorflow needs `tf2onnx`',
            ) from error
        with open(path, "rb") as file:
            return file.read()
