#!/usr/bin/env python3
"""Merges the classes of a classifier into groups.

    scripts/train/merge_outputs.py MODEL.onnx -o MERGED.onnx --groups 2,3,4,5,6,7 0,1,8,9

The logit of a group is the largest logit of its classes: the group of the predicted class is
predicted, and how the network came to that class stays what it was. Classes in no group are left
out. The groups above are animals and vehicles of CIFAR-10; `merged.py animals` writes data with
labels that match. Needs onnx.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--groups", nargs="+", type=group, required=True, metavar="CLASS,CLASS,...")
    options = parser.parse_args()
    model = onnx.load(options.model)
    classes = class_count(model.graph, options.model)
    chosen = [c for group in options.groups for c in group]
    if len(set(chosen)) != len(chosen) or not all(0 <= c < classes for c in chosen):
        sys.exit(f"groups need different classes from 0 to {classes - 1}, not {chosen}")
    merge(model.graph, options.groups)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, options.output)


def group(text):
    return [int(c) for c in text.split(",")]


def class_count(graph, path):
    if len(graph.output) != 1:
        sys.exit(f"{path}: {len(graph.output)} outputs instead of one")
    shape = [d.dim_value for d in graph.output[0].type.tensor_type.shape.dim]
    if len(shape) != 2 or shape[1] == 0:
        sys.exit(f"{path}: the output is not (batch, classes)")
    return shape[1]


def merge(graph, groups):
    """Logits, then for each group: its columns, the largest of each row; side by side."""
    logits = graph.output[0]
    largest = []
    for i, group in enumerate(groups):
        columns, kept, name = f"merged_{i}_classes", f"merged_{i}_logits", f"merged_{i}"
        graph.initializer.append(numpy_helper.from_array(np.array(group, np.int64), columns))
        graph.node.append(helper.make_node("Gather", [logits.name, columns], [kept], axis=1))
        # Up to opset 17 the axes of ReduceMax are an attribute.
        graph.node.append(helper.make_node("ReduceMax", [kept], [name], axes=[1], keepdims=1))
        largest.append(name)
    graph.node.append(helper.make_node("Concat", largest, ["merged"], axis=1))
    merged = onnx.ValueInfoProto()
    merged.CopyFrom(logits)
    merged.name = "merged"
    merged.type.tensor_type.shape.dim[1].dim_value = len(groups)
    del graph.output[:]
    graph.output.append(merged)


if __name__ == "__main__":
    main()
