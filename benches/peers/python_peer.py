#!/usr/bin/env python3
"""Times the forward pass of ONNX Runtime and PyTorch.

    python_peer.py onnxruntime|torch FOLDER/NETWORK.onnx INPUTS THREADS REPEATS BATCH:MODE...

For every repeat of every `BATCH:MODE` one line with the setting and the
seconds that all inputs took is printed. Mode `inner` gives all threads to one
batch at a time, mode `outer` gives every thread its own batches.
"""

import itertools
import sys
import threading
import time
from pathlib import Path

import numpy as np


def main():
    peer, model, inputs, threads, repeats, *settings = sys.argv[1:]
    inputs, threads, repeats = int(inputs), int(threads), int(repeats)
    prepare = {"onnxruntime": onnxruntime_forward, "torch": torch_forward}[peer]
    for setting in settings:
        batch, mode = setting.split(":")
        outer, inner = (threads, 1) if mode == "outer" else (1, threads)
        forward = prepare(model, int(batch), inner)
        for _ in range(repeats):
            print(setting, measure(forward, inputs // int(batch), outer), flush=True)


def measure(forward, batches, workers):
    """Seconds for `batches` calls shared by `workers` threads."""
    ticket = itertools.count()

    def work():
        while next(ticket) < batches:
            forward()

    others = [threading.Thread(target=work) for _ in range(workers - 1)]
    start = time.perf_counter()
    for other in others:
        other.start()
    work()
    for other in others:
        other.join()
    return time.perf_counter() - start


def onnxruntime_forward(model, batch, threads):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    (image,) = session.get_inputs()
    x = np.random.default_rng(0).random((batch, *image.shape[1:]), np.float32)
    return lambda: session.run(None, {image.name: x})


def torch_forward(model, batch, threads):
    import networks
    import torch

    torch.set_num_threads(threads)
    name = Path(model).stem
    network = networks.fold_batch_norm(networks.make(name))
    x = torch.rand(batch, *networks.NETWORKS[name][1])

    def forward():
        with torch.inference_mode():
            return network(x)

    return forward


if __name__ == "__main__":
    main()
