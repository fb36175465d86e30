"""How does csdfgen do on networks that it was not made for? `make bench-networks ARGS="FOLDER"`.

    python -m benchmarks.bench_networks MODEL.onnx ... [--write]

Each model in a process of its own: outputs of both backends are compared with onnxruntime's, frames of native code are
timed in turn with those of onnxruntime and, where it is installed, openvino in float32 (thread time of one thread,
medians), and plans at default options are compared with whole layers. `--write` renews docs/networks.md.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from math import exp, log
from pathlib import Path

import numpy as np
import onnx

import csdfgen
import runtime
from benchmarks.bench_speed import interleaved
from benchmarks.pages import ROOT, machine, write_between
from benchmarks.rivals import rivals
from runtime.reference import Reference
from runtime.verify import check_outputs

PAGE = ROOT / "docs" / "networks.md"
MARKER = "networks"
REPEATS = 9
SECONDS = 900
"""After which a network is given up."""

MIB = 2**20


@dataclass(frozen=True)
class Measured:
    """One network: seconds of planning (process time) and of a frame (thread time, medians), bytes of the arena and the
    outputs, and of whole layers; how often values differ from onnxruntime's by more than the tolerance, by backend.
    """

    network: str
    planning: float
    native: float
    onnxruntime: float
    openvino: float | None
    planned: int
    whole: int
    wrong: dict[str, int]


def measure(path: Path) -> Measured:
    """Plan, compare and time one model. Raises CsdfgenError."""
    network = csdfgen.load(path)
    start = time.process_time()
    plan = csdfgen.plan(network, backend="native")
    planning = time.process_time() - start
    rng = np.random.default_rng(0)
    x = {t.name: rng.uniform(-1, 1, t.shape).astype(t.dtype) for t in network.inputs}
    plans = {"native": plan, "numpy": csdfgen.plan(network, backend="numpy")}
    wrong = {}
    for backend, one in plans.items():
        outputs = dict(runtime.run(one, x))
        wrong[backend] = sum(not c.ok for c in check_outputs(path, one, x, outputs))
    reference, frame = Reference(path, network), runtime.compile(plan)
    runs = {"native": lambda: frame(x), "onnxruntime": lambda: reference(x)}
    runs |= dict(rivals(onnx.load(path), x, reference(x), ("openvino",)))
    times = {kind: statistics.median(one) for kind, one in interleaved(runs, REPEATS).items()}
    figures = plan.figures
    return Measured(
        path.stem,
        planning,
        times["native"],
        times["onnxruntime"],
        times.get("openvino"),
        plan.planned_bytes + figures["outputs"],
        figures["whole_layer_live"],
        wrong,
    )


def measured(path: Path) -> Measured | str:
    """The same in a process of its own; what it says last where it fails."""
    asked = [sys.executable, "-m", "benchmarks.bench_networks", "--one", str(path)]
    try:
        ended = subprocess.run(asked, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"no end in {SECONDS} s"
    if ended.returncode:
        return ([*ended.stderr.strip().splitlines(), ""])[-1 if ended.stderr.strip() else 0][:200]
    return Measured(**json.loads(ended.stdout.splitlines()[-1]))


def table(found: list[Measured], refused: dict[str, str]) -> list[str]:
    """The lines of the page."""
    lines = [
        "| network | native, ms | onnxruntime, ms | openvino, ms | MiB | whole layers, MiB | factor |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for one in found:
        faults = ", ".join(f"{backend}: {n} differ" for backend, n in one.wrong.items() if n)
        rival = f"{1e3 * one.openvino:.2f}" if one.openvino else ""
        lines.append(
            f"| {one.network}{f' ({faults})' if faults else ''} | {1e3 * one.native:.2f} | {1e3 * one.onnxruntime:.2f} "
            f"| {rival} | {one.planned / MIB:.3f} | {one.whole / MIB:.3f} | {one.whole / one.planned:.2f} |"
        )
    lines += [f"| {name}: {reason} | | | | | | |" for name, reason in refused.items()]
    if found:
        lines += ["", summary(found, len(found) + len(refused))]
    return [
        *lines,
        "",
        f"Thread time of one thread, medians of {REPEATS}; {machine('onnxruntime', 'openvino')}.",
    ]


def summary(found: list[Measured], count: int) -> str:
    """The means in a sentence."""
    right = sum(not any(one.wrong.values()) for one in found)
    ratios = [one.native / one.onnxruntime for one in found]
    less = [one.whole / one.planned for one in found]
    rival = [one.native / one.openvino for one in found if one.openvino]
    seconds = sorted(one.planning for one in found)
    beside = f", of openvino's {_mean(rival):.2f} ({len(rival)} networks)" if rival else ""
    return (
        f"{right} of {count} networks have onnxruntime's outputs in both backends. Time: {_mean(ratios):.2f} of onnxruntime's "
        f"(geometric mean; worst {max(ratios):.2f}){beside}. Memory: {_mean(less):.2f} times less than whole layers "
        f"(geometric mean; least {min(less):.2f}). Planning: median {statistics.median(seconds):.1f} s, most {seconds[-1]:.1f} s."
    )


def _mean(values: list[float]) -> float:
    return exp(sum(map(log, values)) / len(values))


def main() -> None:
    """Measure the models that are named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", type=Path, help="ONNX files, or folders of them")
    parser.add_argument("--one", action="store_true", help="print the figures of one model as JSON")
    parser.add_argument("--write", action="store_true", help="renew docs/networks.md")
    given = parser.parse_args()
    if given.one:
        print(json.dumps(asdict(measure(given.models[0]))))
        return
    paths = [
        p for one in given.models for p in (sorted(one.glob("*.onnx")) if one.is_dir() else [one])
    ]
    found, refused = list[Measured](), dict[str, str]()
    for path in paths:
        one = measured(path)
        if isinstance(one, str):
            refused[path.stem] = one
        else:
            found.append(one)
        print(
            table(found[-1:], {} if not isinstance(one, str) else {path.stem: one})[2], flush=True
        )
    lines = table(found, refused)
    print(*lines[len(found) + len(refused) + 2 :], sep="\n")
    if given.write:
        write_between(PAGE, MARKER, lines)


if __name__ == "__main__":
    main()
