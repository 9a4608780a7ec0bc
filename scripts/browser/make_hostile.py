"""A model, training data and a suite whose layers, classes and inputs have names that would like to be more than names.

    python make_hostile.py fixtures/lenet.onnx fixtures/fashion-1000.npz FOLDER

`names.json` has what a reader should find on the pages, and `suite.txt` what the suite is to be called.
"""

import json
import pathlib
import sys

import numpy as np
import onnx

SCRIPT = "<script>window.hacked = 1; alert(1)</script>"
FILE = "<img src=x onerror=alert(1)>.npz"
NAMES = [
    SCRIPT,
    '"><img src=x onerror="window.hacked=1">',
    "' onmouseover='window.hacked=1' x='",
    "</title></table></script><b>bold</b>",
    "javascript:window.hacked=1",
    "שלום عربي right to left",
    "bell \x07 escape \x1b[31m override \u202e back",
    "&lt;b&gt; &amp; ]]> --> ${x} {{x}}",
    "long " + "name " * 2000,
    "",
]


def shown(name: str) -> str:
    """A name as pages show it: what a terminal or a browser would obey is spelt out, what is long is cut."""
    for obeyed in "\x07\x1b\u202e":
        name = name.replace(obeyed, f"\\u{{{ord(obeyed):x}}}")
    return name[:60]


def main() -> None:
    model_file, source, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    model = onnx.load(model_file)
    for i, node in enumerate(model.graph.node):
        if node.op_type == "Relu":
            node.name = NAMES[i % 5]
    onnx.save(model, folder / "model.onnx")
    data = np.load(source)
    x, y = data[data.files[0]], data[data.files[1]].astype(np.int64)
    classes = np.array(NAMES)
    samples = np.array([f"{i} {NAMES[i % 8]}" for i in range(len(x))])
    half = len(x) // 2
    np.savez_compressed(folder / FILE, x=x[:half], y=y[:half], class_names=classes, name=samples[:half])
    np.savez_compressed(folder / "tests.npz", x=x[half:], y=y[half:], class_names=classes, name=samples[half:])
    (folder / "suite.txt").write_text(NAMES[1])
    (folder / "names.json").write_text(json.dumps([shown(name) for name in NAMES if name] + [FILE, "long " + "name " * 1999]))


if __name__ == "__main__":
    main()
