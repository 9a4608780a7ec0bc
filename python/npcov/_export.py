"""Models of other frameworks as ONNX."""

from __future__ import annotations

import io
import os
import tempfile
import warnings
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

    Nodes are named after the modules that they come from, and so are path layers.
    """
    import torch

    if example is None:
        raise TypeError("a torch.nn.Module needs `example`, a batch of inputs that it is exported with")
    example = torch.as_tensor(example)
    if example.ndim < 2:
        raise ModelError(
            f"`example` has shape {tuple(example.shape)}, and no batch axis", "`example[None]` adds one"
        )
    device = next((p.device for p in module.parameters()), example.device)
    training = module.training
    module.eval()
    buffer = io.BytesIO()
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                module,
                (example[:1].to(device),),
                buffer,
                input_names=["x"],
                output_names=["logits"],
                dynamic_axes={"x": {0: "batch"}, "logits": {0: "batch"}},
                opset_version=17,
                dynamo=False,
            )
    except (RuntimeError, ValueError, torch.onnx.errors.OnnxExporterError) as error:
        raise ModelError(
            f"PyTorch cannot export the module: {error}",
            "`torch.onnx.export` with other settings may; give npcov the file that it writes",
        ) from error
    finally:
        module.train(training)
    return buffer.getvalue()


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
