"""Does everything work on the GPU of this machine, and how fast is it? `make check-gpu`, in at most eight minutes.

    python -m benchmarks.check_gpu [--seconds N] [--parts kernels samples networks mapping] [-o FILE.json] [--page FILE.md]

kernels: each compiles for the device. samples: layers of every operator, compared with numpy. networks: 20 of the zoo in
float32, float16 and int8: outputs compared with native code, allocated bytes with planned ones, copied bytes with those of
inputs and outputs; frame times beside onnxruntime's CUDA provider and PyTorch (eager and compiled, torchvision's network of the
same name, random weights), where these are installed. mapping: networks on the processor and the device together.

Each part has a share of the time, and is a process of its own: one that a faulty kernel ends is started again behind the check
that it was in. The JSON is written after every check, so that a run that is cut off leaves what it found.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx

import csdfgen
import runtime
from benchmarks.pages import machine
from csdfgen.backends.cuda.devices import bindings, find_device, unwrap_result
from csdfgen.backends.cuda.driver import Cuda, compile_kernel
from csdfgen.backends.device.elements import list_kernels
from csdfgen.backends.device.memory import ALIGNMENT
from csdfgen.backends.device.shapes import FILES, Blocks
from csdfgen.backends.device.sources import assemble_source
from csdfgen.backends.registry import choose_backend, load_backend
from csdfgen.errors import CsdfgenError
from csdfgen.goals.choice import choose_plan, run_options
from csdfgen.goals.mapping import planning_options, predict
from csdfgen.model.network import Network
from csdfgen.planning.mapped import MappedPlan, plan_mapped
from csdfgen.precision.quantize import quantize_to_halves
from runtime.bound import add_guards
from runtime.images import random_inputs
from runtime.mapped import MappedProgram
from runtime.reference import compare
from zoo_models import ZOO

__all__ = ["PARTS", "Check", "format_page", "list_checks", "main", "run_part"]

Figures = dict[str, float | str]
Work = Callable[[], Figures]

NETWORKS = (
    "lenet5", "resnet8", "ds_cnn", "mobilenet_v1_x0_25", "squeezenet1_1", "mobilenet_v2", "resnet18", "shufflenet_v2",
    "mnasnet", "efficientnet_b0", "mobilenet_v3_large", "regnet_x_400mf", "googlenet", "resnet50", "densenet121", "alexnet",
    "tiny_yolo_v2", "unet", "super_resolution", "emotion_ferplus",
)  # fmt: skip
FORMATS = "float32", "float16", "int8"
MAPPED = "resnet8", "squeezenet1_1", "resnet18"

PARTS: Mapping[str, float] = {"kernels": 0.2, "samples": 0.2, "networks": 0.5, "mapping": 0.1}
"""Parts, and the share of the time that each has; what one leaves goes to those behind it."""

TORCHVISION = {"shufflenet_v2": "shufflenet_v2_x1_0", "mnasnet": "mnasnet1_0"}
"""Networks that are called otherwise there."""

LOST = "ILLEGAL_ADDRESS", "LAUNCH_FAILED", "ILLEGAL_INSTRUCTION", "MISALIGNED_ADDRESS"
"""Errors of CUDA behind which a process can do nothing more on the device."""

MOST_FRAMES, SECONDS_OF_FRAMES = 200, 0.5
"""Frames that are timed at most, and in about which time."""


@dataclass(frozen=True, slots=True)
class Check:
    """What came of a check. ok: None if it was left out. said: why it failed, or was left out."""

    part: str
    name: str
    ok: bool | None
    said: str = ""
    figures: Figures = field(default_factory=dict)
    seconds: float = 0.0


# What is checked ----------------------------------------------------------------------------------


def list_checks(part: str) -> list[tuple[str, Work]]:
    """The checks of a part by name."""
    makers = {"kernels": _kernels, "samples": _samples, "networks": _networks, "mapping": _mapping}
    return makers[part]()


def _kernels() -> list[tuple[str, Work]]:
    """Kernels by files, some loops at a time."""
    loops = list(list_kernels())
    groups = {name: [name] for name in FILES}
    groups |= {f"loops from {loops[k]} on": loops[k : k + 50] for k in range(0, len(loops), 50)}
    return [(name, partial(_compile, some)) for name, some in groups.items()]


def _compile(kernels: Sequence[str]) -> Figures:
    capability, blocks = find_device().capability, Blocks.of("GPU", 1)

    def compiled(kernel: str) -> int:
        return len(compile_kernel(assemble_source(kernel, blocks), capability))

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return {"kernels": len(kernels), "bytes": sum(pool.map(compiled, kernels))}


def _samples() -> list[tuple[str, Work]]:
    """One layer of each operator, then a second one, and so on."""
    from tests.op_samples import SAMPLES

    turns, ranked = Counter[str](), []
    for number, sample in enumerate(SAMPLES):
        turns[sample.op_type] += 1
        ranked.append((turns[sample.op_type], number))
    some = [(f"{SAMPLES[k].op_type} {k}", k) for _, k in sorted(ranked)]
    return [(name, partial(_sample, k, SAMPLES[k])) for name, k in some]


def _sample(number: int, sample: Any) -> Figures:
    """A layer on slabs in memory that is scattered, on the device and by numpy."""
    from tests.op_harness import heights
    from tests.property.test_native import LAYOUTS, close
    from tests.scattered import declared, run_scattered

    layer, feeds, layout = sample.layer(), sample.feeds(), LAYOUTS[number % len(LAYOUTS)]
    height, device = heights(layer)[0], load_backend("cuda")
    wanted = run_scattered(layer, feeds, height, layout, None)
    sizes = declared(layer, height, layout, None, device)
    found = run_scattered(layer, feeds, height, layout, None, sizes, device)
    for got, want in zip(found, wanted, strict=True):
        close(got, want)
    return {}


def _networks() -> list[tuple[str, Work]]:
    pairs = [(name, form) for form in FORMATS for name in NETWORKS]
    return [(" ".join(pair), partial(_network, *pair)) for pair in pairs]


@cache
def _model(name: str, form: str) -> onnx.ModelProto:
    """A network of the zoo in a format."""
    model = ZOO[name].build()
    if form == "float16":
        return quantize_to_halves(model, "float16")
    if form == "int8":
        return csdfgen.quantize(model, random_inputs(csdfgen.load(model), 0)).model
    return model


def _network(name: str, form: str) -> Figures:
    model = _model(name, form)
    network = csdfgen.load(model)
    x = random_inputs(network, 1)
    native = runtime.compile(csdfgen.plan(network, backend="native"))
    plan = csdfgen.plan(network, backend="cuda", count="activations")
    with _allocations() as allocated:
        session = runtime.compile(plan)
    found = _compared(session(x), native(x))
    before = session.driven
    session(x)
    assert before is not None and session.driven is not None
    driven = session.driven.since(before)
    planned = sum(-(-size // ALIGNMENT) * ALIGNMENT for size in add_guards(plan.pools).values())
    assert allocated["memory of the plan,"] == planned, f"{allocated} allocated, {planned} planned"
    crossing = sum(array.nbytes for array in (*x.values(), *session(x).values()))
    assert driven.copied <= crossing, f"{driven.copied} bytes copied, {crossing} needed"
    figures: Figures = {
        "planned_bytes": plan.planned_bytes, "device_bytes": sum(allocated.values()), "copied_bytes": driven.copied,
        "launches": driven.launches, "largest_error": found, "frame_ms": _time(lambda: session(x)),
        "native_ms": _time(lambda: native(x)),
    }  # fmt: skip
    return figures | dict(_rivals(name, form, model, x))


def _compared(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> float:
    """The largest difference. Raises AssertionError for outputs that differ by more than is allowed."""
    some = [compare(name, np.asarray(y), np.asarray(wanted[name])) for name, y in found.items()]
    wrong = [f"'{one.name}': {one.wrong} of {one.values} differ" for one in some if not one.ok]
    assert not wrong, "; ".join(wrong)
    return max(one.max_abs_error for one in some)


@contextmanager
def _allocations() -> Iterator[dict[str, int]]:
    """Bytes on the device that are allocated meanwhile, by what they are for."""
    found: dict[str, int] = {}
    buffer = Cuda.buffer

    def counted(self: Cuda, size: int, what: str, *, constant: bool = False) -> Any:
        found[what] = found.get(what, 0) + size
        return buffer(self, size, what, constant=constant)

    with patch.object(Cuda, "buffer", counted):
        yield found


def _time(run: Callable[[], object]) -> float:
    """Milliseconds of a frame: the median."""
    times: list[float] = []
    run()
    end = time.perf_counter() + SECONDS_OF_FRAMES
    while not times or (len(times) < MOST_FRAMES and time.perf_counter() < end):
        start = time.perf_counter()
        run()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


# Others -------------------------------------------------------------------------------------------


Rival = tuple[Callable[[], object], Callable[[], int]]
"""Runs a frame; bytes of the device that it has taken."""


def _rivals(
    name: str, form: str, model: onnx.ModelProto, x: Mapping[str, np.ndarray]
) -> Iterator[tuple[str, float | str]]:
    """Milliseconds of a frame, and bytes of the device, of what is installed; what stops one is said and is no failure."""
    makers: dict[str, Callable[[], Rival | None]] = {
        "onnxruntime": partial(_onnxruntime, model, x),
        "torch_eager": partial(_torch, name, form, False, x),
        "torch_compiled": partial(_torch, name, form, True, x),
    }
    for title, make in makers.items():
        try:
            if (made := make()) is not None:
                yield f"{title}_ms", _time(made[0])
                yield f"{title}_bytes", made[1]()
        except Exception as error:
            yield f"{title}_failed", f"{type(error).__name__}: {error}".splitlines()[0][:200]


def _onnxruntime(model: onnx.ModelProto, x: Mapping[str, np.ndarray]) -> Rival | None:
    """A frame by onnxruntime's CUDA provider, with sums of 24 bits as ours."""
    import onnxruntime

    provider = "CUDAExecutionProvider"
    if provider not in onnxruntime.get_available_providers():
        return None
    driver = bindings("driver")
    free = unwrap_result(driver.cuMemGetInfo())[0]
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=[(provider, {"use_tf32": "0"})]
    )
    if provider not in session.get_providers():
        raise RuntimeError("the CUDA provider does not start")
    frame = partial(session.run, None, dict(x))
    return frame, lambda: int(free - unwrap_result(driver.cuMemGetInfo())[0])


def _torch(name: str, form: str, compiled: bool, x: Mapping[str, np.ndarray]) -> Rival | None:
    """A frame of torchvision's network of this name, from and to arrays of the host, with sums of 24 bits as ours."""
    if form == "int8" or not (find_spec("torch") and find_spec("torchvision")):
        return None
    torch, models = import_module("torch"), import_module("torchvision.models")
    make = getattr(models, TORCHVISION.get(name, name), None)
    if make is None or not torch.cuda.is_available():
        return None
    kind = torch.float16 if form == "float16" else torch.float32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    network = make(weights=None).eval().to("cuda", kind)
    network = torch.compile(network, mode="reduce-overhead") if compiled else network
    (image,) = x.values()

    def frame() -> object:
        with torch.inference_mode():
            return network(torch.from_numpy(image).to("cuda", kind)).cpu()

    return frame, torch.cuda.max_memory_reserved


# Processors together ------------------------------------------------------------------------------


def _mapping() -> list[tuple[str, Work]]:
    return [
        (f"{name}, {'throughput' if pipelined else 'latency'}", partial(_mapped, name, pipelined))
        for name in MAPPED
        for pipelined in (False, True)
    ]


def _mapped(name: str, pipelined: bool) -> Figures:
    """The first half of a network on the device, the second on the processor."""
    network = csdfgen.load(_model(name, "float32"))
    x = random_inputs(network, 1)
    plan = _plan_halves(network, pipelined)
    program = MappedProgram(plan)
    touched = [*program.touched_bytes(x).values()]
    assert touched == plan.arenas(), f"{touched} bytes of arenas are used, {plan.arenas()} planned"
    predicted = predict(plan, program.time_turns(x))
    frames = program.run([x] * (20 + plan.lag), same=True)
    largest = _compared(
        frames.outputs[-1], runtime.compile(csdfgen.plan(network, backend="native"))(x)
    )
    measured = 1e3 * frames.period(plan.lag)
    return {
        "largest_error": largest, "period_ms": measured, "predicted_ms": 1e3 * predicted.period,
        "crossing_bytes": plan.copied_bytes,
    }  # fmt: skip


def _plan_halves(network: Network, pipelined: bool) -> MappedPlan:
    processors = "cuda", "native"
    half = len(network.layers) // 2
    mapping = {layer.name: int(at >= half) for at, layer in enumerate(network.layers)}
    options = [run_options({"result": "stored", **planning_options(one)}) for one in processors]
    return plan_mapped(
        network, processors, mapping, lambda part, number: choose_plan(part, options[number]), pipelined=pipelined,
        streamed=[choose_backend(one).shares_memory for one in options],
    )  # fmt: skip


# Running ------------------------------------------------------------------------------------------


def run_part(part: str, seconds: float, first: int = 0) -> Iterator[Check]:
    """The checks of a part from the first on; those for which no time is left are left out."""
    end = time.monotonic() + seconds
    for name, work in list_checks(part)[first:]:
        start = time.monotonic()
        if start >= end:
            yield Check(part, name, None, "no time was left")
            continue
        try:
            figures, said = work(), ""
        except Exception as error:  # whatever fails is a result
            figures, said = {}, f"{type(error).__name__}: {error}"[:500]
        yield Check(part, name, not said, said, figures, time.monotonic() - start)
        if any(word in said for word in LOST):
            return


def _run_apart(part: str, seconds: float, save: Callable[[Check], None]) -> None:
    """The checks of a part in processes: one that ends early failed in the check behind its last line."""
    names, done, end = [name for name, _ in list_checks(part)], 0, time.monotonic() + seconds
    while done < len(names):
        left = max(0.0, end - time.monotonic())
        command = [
            sys.executable,
            "-m",
            "benchmarks.check_gpu",
            "--one",
            part,
            "--first",
            str(done),
            "--seconds",
            str(left),
        ]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        before, lost = done, False
        for line in child.stdout:
            if line.startswith("{"):
                check = Check(**json.loads(line))
                lost = any(word in check.said for word in LOST)
                save(check)
                done += 1
        if child.wait() and not lost and done < len(names):
            save(Check(part, names[done], False, f"the process ended with {child.returncode}"))
            done += 1
        elif done == before:
            break


def format_page(about: Mapping[str, Any], checks: Sequence[Check]) -> Iterator[str]:
    """The results as a page."""
    yield "# GPU\n\nOn this page you can see what `make check-gpu` found on a GPU.\n"
    yield f"{about['device']}; {about['machine']}.\n"
    yield "| part | checks | passed | failed | left out |\n|---|---:|---:|---:|---:|"
    for part in PARTS:
        yield f"| {part} | {' | '.join(map(str, _count(part, checks)))} |"
    for part in ("networks", "mapping"):
        yield from _format_table([one for one in checks if one.part == part and one.ok])
    failed = [f"- {one.part}, {one.name}: {one.said}" for one in checks if one.ok is False]
    yield from ["\nWhat failed:\n", *failed] if failed else []


def _count(part: str, checks: Sequence[Check]) -> tuple[int, ...]:
    """Checks of a part; those that passed, failed, and were left out."""
    some = [one.ok for one in checks if one.part == part]
    return len(some), *map(some.count, (True, False, None))


def _format_table(checks: Sequence[Check]) -> Iterator[str]:
    """Figures of checks that passed, a column for each that one of them has."""
    names = list(dict.fromkeys(name for one in checks for name in one.figures))
    if names:
        yield f"\n| | {' | '.join(name.replace('_', ' ') for name in names)} |"
        yield f"|---|{'---:|' * len(names)}"
    for one in checks:
        values = (one.figures.get(name, "") for name in names)
        cells = (f"{value:.3g}" if isinstance(value, float) else f"{value}" for value in values)
        yield f"| {one.name} | {' | '.join(cells)} |"


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.check_gpu", description=__doc__)
    parser.add_argument("--seconds", type=float, default=460, help="the time in all")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("-o", "--output", type=Path, default=Path("out/check_gpu.json"))
    parser.add_argument("--page", type=Path, default=Path("out/check_gpu.md"))
    parser.add_argument("--one", choices=PARTS, help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def _run_all(options: argparse.Namespace) -> int:
    """All parts, and their results in files."""
    device, checks = find_device(), list[Check]()
    about = {
        "device": f"{device.name}, {device.version}",
        "machine": machine("onnxruntime", "torch"),
    }
    for path in (options.output, options.page):
        path.parent.mkdir(parents=True, exist_ok=True)

    def save(check: Check) -> None:
        checks.append(check)
        found = {**about, "checks": [asdict(one) for one in checks]}
        options.output.write_text(json.dumps(found, indent=1) + "\n")
        options.page.write_text("\n".join(format_page(about, checks)) + "\n")
        if check.ok is False:
            print(f"{check.part}, {check.name}: {check.said}", flush=True)

    end, shares = time.monotonic() + options.seconds, sum(PARTS[part] for part in options.parts)
    for part in options.parts:
        left = max(0.0, end - time.monotonic())
        _run_apart(part, left * PARTS[part] / shares, save)
        shares -= PARTS[part]
        count, *others = _count(part, checks)
        print("{}: {} checks, {} passed, {} failed, {} left out".format(part, count, *others))
    return int(any(one.ok is False for one in checks))


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parsed(arguments)
    try:
        if not options.one:
            return _run_all(options)
        for check in run_part(options.one, options.seconds, options.first):
            print(json.dumps(asdict(check)), flush=True)
    except (CsdfgenError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
