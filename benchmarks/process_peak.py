"""How far does a process grow until the first frame of a model file is computed? Asked in a process of its own (Linux).

    python benchmarks/process_peak.py ours|compiled|onnxruntime|onnxruntime-arena|openvino FILE INPUTS.npz [OPTIONS]
    python benchmarks/process_peak.py imports MODULES.json

Prints one JSON object: the most bytes resident, those that are anonymous in the end, and the modules that were loaded.
`imports` loads these modules and nothing else: the share of libraries. A script, not a module of a package, so that
nothing is loaded but what a user's program loads. OPTIONS: of csdfgen.plan, as JSON.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from contextlib import suppress
from typing import Any

_LARGE = ("numpy", "onnx", "onnxruntime", "openvino", "csdfgen", "runtime", "scipy", "networkx")


def ours(path: str, x: dict[str, Any], options: dict[str, Any]) -> None:
    """One frame of csdfgen."""
    import csdfgen
    import runtime

    runtime.compile(csdfgen.plan(csdfgen.load(path), **options))(x)


def compiled(path: str, x: dict[str, Any]) -> None:
    """One frame of a compiled program."""
    import runtime

    runtime.open(path)(x)


def onnxruntimes(path: str, x: dict[str, Any], arena: bool) -> None:
    """One frame of onnxruntime, with or without its arena."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = options.enable_mem_pattern = arena
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    session.run(None, x)


def openvinos(path: str, x: dict[str, Any]) -> None:
    """One frame of openvino."""
    import openvino  # type: ignore[import-not-found,unused-ignore]

    hints = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    openvino.Core().compile_model(path, "CPU", hints).create_infer_request().infer(x)


def status(field: str) -> int:
    """Bytes of this process, by the name in /proc/self/status."""
    with open("/proc/self/status") as file:  # noqa: PTH123 - pathlib is one more module
        return int(re.findall(rf"{field}:\s+(\d+) kB", file.read())[0]) * 1024


def main(side: str, path: str, inputs: str = "", options: str = "{}") -> None:
    if side == "imports":
        with open(path) as file:  # noqa: PTH123
            for name in json.load(file):
                with suppress(Exception):
                    importlib.import_module(name)
    else:
        import numpy as np

        with np.load(inputs) as arrays:
            x = {name: arrays[name] for name in arrays.files}
        if side == "ours":
            ours(path, x, json.loads(options))
        elif side in ("compiled", "openvino"):
            {"compiled": compiled, "openvino": openvinos}[side](path, x)
        else:
            onnxruntimes(path, x, side.endswith("arena"))
    modules = [name for name in [*sys.modules] if name.partition(".")[0] in _LARGE]
    told = {"peak": status("VmHWM"), "anonymous": status("RssAnon"), "modules": modules}
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
