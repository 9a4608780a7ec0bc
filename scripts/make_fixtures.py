#!/usr/bin/env python3
"""Makes everything in fixtures/ from seed 0 (`make fixtures`).

    scripts/make_fixtures.py [--data data/fashion-mnist] [--output fixtures]

Trains a few small networks on Fashion-MNIST (some minutes on two cores) and
exports them the ways they reach us: both PyTorch exporters, Keras, graphs
built by hand after what other tools write. `expected.json` records what ONNX
Runtime says about each file. Needs requirements-fixtures.txt and
`scripts/get_data.py`.
"""

import argparse
import gzip
import json
import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["KERAS_BACKEND"] = "tensorflow"

import fixture_models as models
import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from reference import Reference, predict

FOOTWEAR = (5, 7, 9)  # sandal, sneaker, ankle boot


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("data/fashion-mnist"))
    parser.add_argument("--output", type=Path, default=Path("fixtures"))
    parser.add_argument("--epochs", type=int, default=2)
    options = parser.parse_args()
    output = options.output
    output.mkdir(exist_ok=True)

    pixels = read_idx(options.data / "train-images-idx3-ubyte.gz")
    labels = read_idx(options.data / "train-labels-idx1-ubyte.gz").astype(np.int64)
    test_pixels = read_idx(options.data / "t10k-images-idx3-ubyte.gz")[:1000]
    test_labels = read_idx(options.data / "t10k-labels-idx1-ubyte.gz")[:1000]
    np.savez_compressed(output / "fashion-1000.npz", x=test_pixels, y=test_labels)

    torch.set_num_threads(2)
    images = torch.tensor(pixels)[:, None].float() / 255
    classes = torch.tensor(labels)
    footwear = torch.isin(classes, torch.tensor(FOOTWEAR))

    def trained(make, target=classes, count=None):
        torch.manual_seed(0)
        network = models.train(make(), images[:count], target[:count], options.epochs)
        print(f"trained {type(network).__name__}", flush=True)
        return network

    lenet = trained(models.LeNet)
    resnet8 = trained(models.ResNet8)
    mobilenet = trained(models.MobileNet)
    vit = trained(models.VisionTransformer)
    perceptron = trained(lambda: models.Perceptron(24, 10))
    lstm = trained(lambda: models.Rows(torch.nn.LSTM, 24), count=12800)
    gru = trained(lambda: models.Rows(torch.nn.GRU, 16, both=True), count=12800)
    binary = trained(lambda: models.Perceptron(8, 1), footwear)

    script_export(lenet, output / "lenet.onnx")
    dynamo_export(lenet, output / "lenet-dynamo.onnx")
    script_export(torch.nn.Sequential(lenet, torch.nn.Softmax(1)), output / "lenet-softmax.onnx")
    for style in ("flatten", "squeeze"):
        one = models.LeNetBatchOne(lenet, style).eval()
        script_export(one, output / f"lenet-batch1-{style}.onnx", dynamic=False)
    half_weights(output / "lenet.onnx", output / "lenet-f16-weights.onnx")
    half_everywhere(output / "lenet.onnx", output / "lenet-f16.onnx")
    channels_last(lenet, output / "lenet.onnx", output / "lenet-nhwc.onnx")

    script_export(resnet8, output / "resnet8.onnx", keep_batch_norm=True)
    dynamo_export(resnet8, output / "resnet8-dynamo.onnx")
    script_export(mobilenet, output / "mobilenet.onnx", opset=14)
    dynamo_export(mobilenet, output / "mobilenet-dynamo.onnx")

    script_export(vit, output / "vit.onnx", opset=14)
    dynamo_export(vit, output / "vit-dynamo.onnx", opset=20)
    vit.expand = False
    script_export(vit, output / "vit-batch1.onnx", opset=14, dynamic=False)

    script_export(lstm, output / "lstm.onnx")
    dynamo_export(gru, output / "gru.onnx")

    matlab_style(perceptron, pixels, output / "mlp-matlab.onnx")
    external_data(perceptron, output / "mlp-external.onnx")
    local_function(perceptron, output / "mlp-function.onnx")
    script_export(torch.nn.Sequential(binary, torch.nn.Sigmoid()), output / "binary-sigmoid.onnx")
    keras_export(pixels, labels, options.epochs, output / "keras.onnx")

    expected = {
        file.stem: expect(file, test_pixels, test_labels) for file in sorted(output.glob("*.onnx"))
    }
    (output / "expected.json").write_text(json_lines(expected))


def read_idx(path):
    """An IDX file of bytes: two zeros, type 8, the rank, big-endian sizes, data."""
    content = gzip.decompress(path.read_bytes())
    rank = content[3]
    shape = np.frombuffer(content, ">u4", rank, 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * rank).reshape(shape)


# Exporters


def script_export(network, path, opset=13, keep_batch_norm=False, dynamic=True):
    """PyTorch's exporter by tracing TorchScript."""
    torch.onnx.export(
        network,
        (torch.zeros(1, 1, 28, 28),),
        path,
        dynamo=False,
        opset_version=opset,
        input_names=["image"],
        output_names=["output"],
        dynamic_axes={"image": {0: "batch"}, "output": {0: "batch"}} if dynamic else None,
        # The exporter folds batch norm into convolutions unless it believes
        # that training goes on.
        training=(
            torch.onnx.TrainingMode.PRESERVE if keep_batch_norm else torch.onnx.TrainingMode.EVAL
        ),
        do_constant_folding=not keep_batch_norm,
    )
    save(onnx.load(path), path)


def dynamo_export(network, path, opset=18):
    """PyTorch's exporter by torch.export."""
    torch.onnx.export(
        network,
        (torch.zeros(2, 1, 28, 28),),
        path,
        dynamo=True,
        opset_version=opset,
        input_names=["image"],
        output_names=["output"],
        dynamic_shapes=({0: torch.export.Dim("batch")},),
        external_data=False,
        verbose=False,
    )
    save(onnx.load(path), path)


def keras_export(pixels, labels, epochs, path):
    """A functional Keras model (NHWC, softmax at the end) by Keras' own ONNX export."""
    import keras
    from keras import layers

    keras.utils.set_random_seed(0)
    inputs = x = keras.Input((28, 28, 1))
    x = layers.Conv2D(12, 3, strides=2, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    x = skip = layers.ReLU()(x)
    x = layers.SeparableConv2D(12, 3, padding="same", activation="relu")(x)
    x = layers.Add()([x, skip])
    x = layers.MaxPooling2D(3, strides=2, padding="same")(x)
    x = layers.Conv2D(16, 3, activation="relu")(x)
    x = layers.Flatten()(x)
    x = layers.Dropout(0.1)(x)
    x = layers.Dense(32, activation="relu")(x)
    model = keras.Model(inputs, layers.Dense(10, activation="softmax")(x))
    model.compile("adam", "sparse_categorical_crossentropy")
    images = pixels[..., None].astype(np.float32) / 255
    model.fit(images, labels, batch_size=128, epochs=epochs, verbose=0)
    print("trained Keras", flush=True)
    model.export(path, format="onnx", verbose=False)
    save(onnx.load(path), path)


# Graphs in the manner of other tools


def dense_weights(network):
    """Weights (inputs x outputs) and biases of the dense layers, as numpy arrays."""
    for layer in network:
        if isinstance(layer, torch.nn.Linear):
            yield layer.weight.detach().numpy().T.copy(), layer.bias.detach().numpy()


def matlab_style(network, pixels, path):
    """Flat input, centring by Sub, MatMul + Add, opset 9, and initialisers that are
    listed as graph inputs, as IR version 3 asked for."""
    (w1, b1), (w2, b2) = dense_weights(network)
    mean = (pixels.astype(np.float64) / 255).mean(0).reshape(1, 784).astype(np.float32)
    tensors = {
        "input_Mean": mean,
        "fc_1_W": w1,
        # Centring takes mean * W away from every input; the bias gives it back.
        "fc_1_B": (b1 + mean @ w1).reshape(1, -1),
        "fc_2_W": w2,
        "fc_2_B": b2.reshape(1, -1),
    }
    nodes = [
        helper.make_node("Sub", ["input", "input_Mean"], ["input_Sub"], name="input_Sub"),
        helper.make_node("MatMul", ["input_Sub", "fc_1_W"], ["fc_1_MatMul"], name="fc_1_MatMul"),
        helper.make_node("Add", ["fc_1_MatMul", "fc_1_B"], ["fc_1"], name="fc_1"),
        helper.make_node("Relu", ["fc_1"], ["relu_1"], name="relu_1"),
        helper.make_node("MatMul", ["relu_1", "fc_2_W"], ["fc_2_MatMul"], name="fc_2_MatMul"),
        helper.make_node("Add", ["fc_2_MatMul", "fc_2_B"], ["fc_2"], name="fc_2"),
        helper.make_node("Softmax", ["fc_2"], ["softmax"], name="softmax", axis=1),
    ]
    inputs = [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["BatchSize", 784])]
    inputs += [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape)
        for name, value in tensors.items()
    ]
    outputs = [helper.make_tensor_value_info("softmax", TensorProto.FLOAT, ["BatchSize", 10])]
    save(build(nodes, inputs, outputs, tensors, opset=9, ir=3), path)


def external_data(network, path):
    """Gemm with the weights in a second file."""
    (w1, b1), (w2, b2) = dense_weights(network)
    nodes = [
        helper.make_node("Flatten", ["image"], ["flat"]),
        helper.make_node("Gemm", ["flat", "w1", "b1"], ["hidden"]),
        helper.make_node("Relu", ["hidden"], ["active"]),
        helper.make_node("Gemm", ["active", "w2", "b2"], ["output"]),
    ]
    model = build(
        nodes, [image_info()], [output_info()], {"w1": w1, "b1": b1, "w2": w2, "b2": b2}, opset=13
    )
    data = f"{path.stem}.bin"
    (path.parent / data).unlink(missing_ok=True)
    onnx.save(model, path, save_as_external_data=True, location=data, size_threshold=64)
    (path.parent / data).chmod(0o644)


def local_function(network, path):
    """The dense layers as calls of a function that the file defines."""
    (w1, b1), (w2, b2) = dense_weights(network)
    domain = "example.layers"
    dense = helper.make_function(
        domain,
        "Dense",
        ["x", "w", "b"],
        ["y"],
        [
            helper.make_node("MatMul", ["x", "w"], ["product"]),
            helper.make_node("Add", ["product", "b"], ["y"]),
        ],
        [helper.make_opsetid("", 17)],
    )
    active = helper.make_function(
        domain,
        "ActiveDense",
        ["x", "w", "b"],
        ["y"],
        [
            helper.make_node("Dense", ["x", "w", "b"], ["product"], domain=domain),
            helper.make_node("Relu", ["product"], ["y"]),
        ],
        [helper.make_opsetid("", 17), helper.make_opsetid(domain, 1)],
    )
    nodes = [
        helper.make_node("Flatten", ["image"], ["flat"]),
        helper.make_node("ActiveDense", ["flat", "w1", "b1"], ["hidden"], domain=domain),
        helper.make_node("Dense", ["hidden", "w2", "b2"], ["output"], domain=domain),
    ]
    tensors = {"w1": w1, "b1": b1, "w2": w2, "b2": b2}
    model = build(nodes, [image_info()], [output_info()], tensors, opset=17)
    model.opset_import.append(helper.make_opsetid(domain, 1))
    model.functions.extend([dense, active])
    save(model, path)


def channels_last(network, source, path):
    """NHWC outside, NCHW inside: a Transpose in front, one before Flatten, whose order of
    features the first dense layer then has to follow. (Keras' export does the same, but
    for a single channel its optimiser replaces the first Transpose by a Reshape.)"""
    model = onnx.load(source)
    graph = model.graph
    graph.input[0].CopyFrom(
        helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 28, 28, 1])
    )
    weight = network[7].weight.detach()
    followed = weight.reshape(64, 12, 5, 5).permute(0, 2, 3, 1).reshape(64, 300).contiguous()
    for tensor in graph.initializer:
        if tuple(tensor.dims) == (64, 300):
            tensor.CopyFrom(numpy_helper.from_array(followed.numpy(), tensor.name))
    nodes = [helper.make_node("Transpose", ["image"], ["image.nchw"], perm=[0, 3, 1, 2])]
    for node in graph.node:
        node.input[:] = ["image.nchw" if name == "image" else name for name in node.input]
        if node.op_type == "Flatten":
            features, moved = node.input[0], f"{node.input[0]}.nhwc"
            nodes.append(helper.make_node("Transpose", [features], [moved], perm=[0, 2, 3, 1]))
            node.input[0] = moved
        nodes.append(node)
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(nodes)
    del graph.value_info[:]
    save(model, path)


def half_weights(source, path):
    """Weights stored as f16, each followed by a Cast: half the file, f32 arithmetic."""
    model = onnx.load(source)
    casts = []
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            name = tensor.name
            half = numpy_helper.to_array(tensor).astype(np.float16)
            tensor.CopyFrom(numpy_helper.from_array(half, f"{name}.f16"))
            casts.append(helper.make_node("Cast", [tensor.name], [name], to=TensorProto.FLOAT))
    nodes = casts + list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    save(model, path)


def half_everywhere(source, path):
    """f16 throughout, with a Cast after the input and one before the output."""
    model = onnx.load(source)
    graph = model.graph
    for tensor in graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            half = numpy_helper.to_array(tensor).astype(np.float16)
            tensor.CopyFrom(numpy_helper.from_array(half, tensor.name))
    for node in graph.node:
        node.input[:] = ["image.f16" if name == "image" else name for name in node.input]
        node.output[:] = ["output.f16" if name == "output" else name for name in node.output]
    front = helper.make_node("Cast", ["image"], ["image.f16"], to=TensorProto.FLOAT16)
    back = helper.make_node("Cast", ["output.f16"], ["output"], to=TensorProto.FLOAT)
    nodes = [front, *graph.node, back]
    del graph.node[:]
    graph.node.extend(nodes)
    del graph.value_info[:]
    save(model, path)


def image_info():
    return helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 28, 28])


def output_info():
    return helper.make_tensor_value_info("output", TensorProto.FLOAT, ["batch", 10])


def build(nodes, inputs, outputs, tensors, opset, ir=8):
    graph = helper.make_graph(
        nodes,
        "graph",
        inputs,
        outputs,
        [numpy_helper.from_array(np.ascontiguousarray(v), k) for k, v in tensors.items()],
    )
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=ir)


def save(model, path):
    """Writes the model without what varies from machine to machine: exporters record
    the call stack of every node, with file names."""
    for part in [model, model.graph, *model.functions]:
        part.ClearField("doc_string")
        part.ClearField("metadata_props")
        for item in [*part.node, *part.value_info] if part is not model else []:
            item.ClearField("doc_string")
            item.ClearField("metadata_props")
    for item in [*model.graph.input, *model.graph.output, *model.graph.initializer]:
        item.ClearField("doc_string")
        item.ClearField("metadata_props")
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString(deterministic=True))


# What ONNX Runtime says


def expect(path, pixels, labels):
    """Accuracy on the 1,000 images and the logits of the first three."""
    if path.stem == "binary-sigmoid":
        labels = np.isin(labels, FOOTWEAR)
    logits = Reference(path).run(pixels.astype(np.float32) / 255).logits
    correct = int((predict(logits) == labels).sum())
    print(f"{path.name}: {path.stat().st_size} bytes, {correct} of {len(labels)} correct")
    first = [[float(f"{value:.7g}") for value in row] for row in logits[:3]]
    return {"correct": correct, "inputs": len(labels), "first_logits": first}


def json_lines(expected):
    """JSON with one model a line, so that a change shows as the lines it concerns."""
    lines = (f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in expected.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    main()
