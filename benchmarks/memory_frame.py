"""What does one frame of a network take? Asked in a process of its own, with the hook preloaded.

    python -m benchmarks.memory_frame ours NETWORK OUTPUTS.npz [--rows R] [--goal G]
    python -m benchmarks.memory_frame onnxruntime NETWORK OUTPUTS.npz [--arena]
    python -m benchmarks.memory_frame openvino NETWORK OUTPUTS.npz

Each prints one JSON object, and writes the outputs of its frame. All get the same seeded inputs,
which are theirs to read and are not counted; they compute on one thread.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import csdfgen
import runtime
from benchmarks.heap import HeapError, counted
from csdfgen.errors import CsdfgenError, InputError
from csdfgen.model.network import Network
from csdfgen.reading.zoo import build as build_zoo_model
from csdfgen.reading.zoo import is_zoo_name
from tests.networks import LIGHT, TRAINED, feeds, light, trained

__all__ = ["model_of", "ours"]

Outputs = dict[str, np.ndarray]
Told = dict[str, Any]


def model_of(name: str) -> onnx.ModelProto:
    """A network by its name in the table: a light network of the onnx package, "centerface 480x640"
    (a trained one at a size), "zoo:NAME", or a model file with static shapes.
    """
    kind, _, size = name.partition(" ")
    if name in LIGHT:
        return light(name)
    if kind in TRAINED and size:
        height, width = map(int, size.split("x"))
        return trained(kind, (height, width))
    if is_zoo_name(name):
        return build_zoo_model(name)
    if not Path(name).is_file():
        raise InputError(f"'{name}' is no network of the benchmark, no zoo:NAME and no file")
    return onnx.load(name)


def ours(network: Network, x: Outputs, options: dict[str, Any]) -> tuple[Outputs, Told]:
    """Figures of a plan; heap of its second frame; bytes of the arena that a frame touches."""
    plan = csdfgen.plan(network, **options)
    frame = runtime.compile(plan)
    frame(x)
    outputs, heap = counted(lambda: frame(x))
    _, measured = frame.measure(x)
    told: Told = {
        "figures": dict(plan.figures),
        "planned": plan.planned_bytes,
        "touched": measured.touched_bytes,
        "heap": heap.most,
    }
    return outputs, told


def onnxruntimes(model: onnx.ModelProto, x: Outputs, arena: bool) -> tuple[Outputs, Told]:
    """Heap of onnxruntime's `run()`.

    Without arena every tensor is an allocation: a run after the first counts, the least of three,
    as a thread that onnxruntime starts for itself allocates now and then. With it, blocks that the
    first run got are kept: the most since before the first run counts. Weights are kept out of the
    arena, so that what it holds is all of `run()`.
    """
    import onnxruntime  # here alone, for that thread's sake

    if hasattr(onnxruntime, "disable_telemetry_events"):
        onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = options.enable_mem_pattern = arena
    options.log_severity_level = 4
    options.add_session_config_entry("session.use_device_allocator_for_initializers", "1")
    session = onnxruntime.InferenceSession(
        _with_constant_weights(model), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]

    def run() -> list[Any]:
        return session.run(names, x)

    if arena:
        results, heap = counted(lambda: [run() for _ in range(2)][-1])
    else:
        run()
        results, heap = min((counted(run) for _ in range(3)), key=lambda found: found[1].most)
    return dict(zip(names, results, strict=True)), {"heap": heap.most}


def openvinos(model: onnx.ModelProto, x: Outputs) -> tuple[Outputs, Told]:
    """By how much openvino's process grows from a compiled model through its second `infer()`.

    It sets memory for tensors aside with the weights, when it compiles, so that the heap does not
    tell them apart; what counts is what becomes resident when it is first written.
    """
    try:
        import openvino  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return {}, {"heap": None}
    core = openvino.Core()
    hints = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    compiled = core.compile_model(core.read_model(_with_constant_weights(model)), "CPU", hints)

    def infer() -> Any:
        request = compiled.create_infer_request()
        request.infer(x, share_inputs=True)
        return request.infer(x, share_inputs=True)

    results, grown = _resident_growth(infer)
    names = [output.name for output in model.graph.output]
    return {name: np.asarray(results[name]) for name in names}, {"heap": grown}


def _resident_growth(function: Callable[[], Any]) -> tuple[Any, int]:
    """A function's value, and the most bytes resident meanwhile above those before (Linux)."""
    process = Path("/proc/self")

    def told(field: str) -> int:
        (line,) = re.findall(rf"{field}:\s+(\d+) kB", (process / "status").read_text())
        return int(line) * 1024

    (process / "clear_refs").write_text("5")  # the high-water mark begins at what is resident now
    before = told("VmRSS")
    value = function()
    return value, told("VmHWM") - before


def _with_constant_weights(model: onnx.ModelProto) -> bytes:
    """The model as a file, its weights no longer among the inputs: that keeps others from folding."""
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    model.ir_version = max(model.ir_version, 4)  # before 4 every weight had to be an input
    return model.SerializeToString()


def _tell(options: argparse.Namespace) -> Told:
    model = model_of(options.network)
    x = feeds(model)
    if options.side == "ours":
        # said as the user says it: a goal or heights only where they were asked for
        asked = {"rows": options.rows, "goal": options.goal}
        network = csdfgen.load(model)
        outputs, told = ours(network, x, {key: value for key, value in asked.items() if value})
    elif options.side == "openvino":
        outputs, told = openvinos(model, x)
    else:
        outputs, told = onnxruntimes(model, x, options.arena)
    # arrays of ours that look at the arena are counted with it
    beside = [array for array in outputs.values() if options.side != "ours" or array.base is None]
    told["outputs"] = sum(array.nbytes for array in beside)
    np.savez(options.outputs, **outputs)  # type: ignore[arg-type]
    return told


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory_frame")
    parser.add_argument("side", choices=("ours", "onnxruntime", "openvino"))
    parser.add_argument("network")
    parser.add_argument("outputs")
    parser.add_argument("--rows")
    parser.add_argument("--goal")
    parser.add_argument("--arena", action="store_true")
    try:
        print(json.dumps(_tell(parser.parse_args(arguments))))
    except (CsdfgenError, HeapError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
