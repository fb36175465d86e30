"""How much memory does the process need that runs a model file? `make bench-process`.

    python -m benchmarks.bench_process [NETWORK ...] [--goal G] [--repeats 3] [--csv FILE] [--write]

NETWORK: as of benchmarks.bench_memory ("zoo:NAME", "centerface 480x640", a model file), or "int8 zoo:NAME". Each is written as
one ONNX file; each side loads it in a process of its own, computes one frame, and tells the most memory that was ever
resident (VmHWM). A second process imports the same modules and nothing else: what the first grew beyond it is what the
model costs, weights, planner and packing included. Medians. onnxruntime counts in the better of its two settings, with
and without arena. `--write` renews the first table of docs/memory.md, its CSV, and README's summary.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from statistics import geometric_mean, median

import numpy as np
import onnx

import csdfgen
from benchmarks.bench_memory import NAMES as FRAMES
from benchmarks.bench_memory import available
from benchmarks.memory_frame import model_of
from benchmarks.pages import ROOT, machine, write_between
from csdfgen.errors import CsdfgenError
from csdfgen.files import write_bytes
from tests.networks import feeds

PAGE = ROOT / "docs" / "memory.md"
README = ROOT / "README.md"
CSV = ROOT / "docs" / "process.csv"
MARKER = "process"
PEAK = ROOT / "benchmarks" / "process_peak.py"
MIB = 2**20

NAMES = (
    *FRAMES, "zoo:mobilenet_v2", "zoo:resnet18", "zoo:tiny_yolo_v2", "zoo:unet", "zoo:resnet8", "int8 zoo:squeezenet1_1",
)  # fmt: skip
SIDES = ("ours", "compiled", "onnxruntime", "onnxruntime-arena", "openvino")


@dataclass(frozen=True, slots=True)
class Process:
    """Bytes by which processes grow beyond their imports for one model; None where a side was not there. parameters: of
    the model. ours: from the file; compiled: of a program that `csdfgen compile` made of it. libraries, libraries_compiled,
    libraries_onnxruntime: what the interpreter and the imports of each take.
    """

    network: str
    parameters: int
    ours: int
    compiled: int
    libraries: int
    onnxruntime: int
    onnxruntime_arena: int
    openvino: int | None
    libraries_compiled: int
    libraries_onnxruntime: int

    @property
    def ratio(self) -> float:
        """Ours over the best setting of onnxruntime."""
        return self.ours / min(self.onnxruntime, self.onnxruntime_arena)

    @property
    def of_compiled(self) -> float:
        """A compiled program over the same."""
        return self.compiled / min(self.onnxruntime, self.onnxruntime_arena)


def told(*arguments: str) -> dict[str, object]:
    """What a process of its own says of itself."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, str(PEAK), *arguments], env=environment, cwd=ROOT, capture_output=True, text=True
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)}: {done.stderr.strip()[-2000:]}")
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def grown(side: str, folder: Path, repeats: int, options: Mapping[str, str]) -> tuple[int, int]:
    """(bytes beyond the imports, bytes of the imports), medians."""
    name = "model.csdfgen" if side == "compiled" else "model.onnx"
    files = (str(folder / name), str(folder / "inputs.npz"), json.dumps(options))
    peaks, bases = [], []
    for _ in range(repeats):
        run = told(side, *files)
        (folder / "modules.json").write_text(json.dumps(run["modules"]))
        peaks.append(int(str(run["peak"])))
        bases.append(int(str(told("imports", str(folder / "modules.json"))["peak"])))
    return int(median(peaks) - median(bases)), int(median(bases))


def measured(name: str, repeats: int, options: Mapping[str, str]) -> Process:
    """All sides of a network."""
    kind, _, rest = name.partition(" ")
    model = model_of(rest if kind == "int8" else name)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        x = feeds(model)
        if kind == "int8":
            model = csdfgen.quantize(model, [x]).model
        onnx.save(model, path / "model.onnx")
        np.savez(path / "inputs.npz", **x)  # type: ignore[arg-type]
        parameters = csdfgen.load(model).parameter_bytes
        del model
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        command = [sys.executable, "-m", "csdfgen", "compile", "model.onnx", "-o", "model.csdfgen"]
        subprocess.run([*command, *words], cwd=path, check=True, capture_output=True)
        sides = [side for side in SIDES if side != "openvino" or find_spec("openvino")]
        found = {side: grown(side, path, repeats, options) for side in sides}
    (ours, libraries), (compiled, opened) = found["ours"], found["compiled"]
    (bare, theirs), (with_arena, _) = found["onnxruntime"], found["onnxruntime-arena"]
    openvino = found["openvino"][0] if "openvino" in found else None
    grew = (parameters, ours, compiled, libraries, bare, with_arena, openvino)
    return Process(name, *grew, opened, theirs)


def _mib(size: int | None) -> str:
    return "" if size is None else f"{size / MIB:.1f}"


def _shared(rows: Sequence[Process]) -> str:
    """What imports take, in the median of the networks."""
    ours, opened, theirs = (
        _mib(int(median(sizes)))
        for sizes in zip(
            *((r.libraries, r.libraries_compiled, r.libraries_onnxruntime) for r in rows),
            strict=True,
        )
    )
    return f"{ours} MiB for csdfgen, {opened} for a compiled program, {theirs} for onnxruntime"


def table(rows: Sequence[Process], conditions: str) -> list[str]:
    """The section of docs/memory.md."""
    lines = [
        "| network | parameters | csdfgen | compiled | onnxruntime, arena off | arena on | openvino | csdfgen of the best of "
        "onnxruntime | compiled |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        sizes = (
            row.parameters,
            row.ours,
            row.compiled,
            row.onnxruntime,
            row.onnxruntime_arena,
            row.openvino,
        )
        lines.append(
            f"| {row.network} | {' | '.join(map(_mib, sizes))} | {row.ratio:.2f} | {row.of_compiled:.2f} |"
        )
    means = " | ".join(f"**{geometric_mean(found):.2f}**" for found in ratios_of(rows))
    lines.append(f"| **geometric mean** | | | | | | | {means} |")
    return [*lines, "", conditions]


def summary(rows: Sequence[Process]) -> list[str]:
    """README's sentence."""
    from_model, from_program = ratios_of(rows)
    return [
        f"- From an ONNX file to the first frame: **{geometric_mean(from_model):.2f} of onnxruntime's** best setting (geometric "
        f"mean of {len(rows)} networks; {min(from_model):.2f} to {max(from_model):.2f}).",
        f"- From a compiled program (`csdfgen compile`): **{geometric_mean(from_program):.2f}** ({min(from_program):.2f} to "
        f"{max(from_program):.2f}).",
        f"- On top of both come the interpreter and the libraries: {_shared(rows)}.",
    ]


def ratios_of(rows: Sequence[Process]) -> tuple[list[float], list[float]]:
    """Ours from the model file, and from compiled programs."""
    return [row.ratio for row in rows], [row.of_compiled for row in rows]


def to_csv(rows: Sequence[Process]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, [one.name for one in fields(Process)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(asdict, rows))
    return out.getvalue()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bench_process",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NETWORK")
    parser.add_argument("--goal", help="of csdfgen.plan")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--csv", type=Path, metavar="FILE")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    if options.write and (options.names or options.goal):
        parser.error("--write is for the networks of the page, at their defaults")
    names, missing = available(options.names or NAMES)
    for line in missing:
        print(line, file=sys.stderr)
    rows = []
    for name in names:
        try:
            row = measured(name, options.repeats, {"goal": options.goal} if options.goal else {})
        except CsdfgenError as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        rows.append(row)
        print(
            f"{name}: {_mib(row.ours)} MiB, compiled {_mib(row.compiled)} (imports {_mib(row.libraries)}, parameters "
            f"{_mib(row.parameters)}) | onnxruntime {_mib(row.onnxruntime)}, arena on {_mib(row.onnxruntime_arena)} | "
            f"openvino {_mib(row.openvino)} | ratio {row.ratio:.2f}, compiled {row.of_compiled:.2f}",
            flush=True,
        )
    if len(rows) > 1:
        print("geometric means", *(f"{geometric_mean(one):.3f}" for one in ratios_of(rows)))
    if options.csv:
        options.csv.write_text(to_csv(rows))
    if options.write:
        conditions = (
            "Growth of the peak resident set beyond a process with the same imports, MiB = 2^20 bytes, from an ONNX file "
            f"until the first frame, one thread, medians of {options.repeats}. {machine('onnxruntime', 'openvino')}. The "
            f"interpreter and the libraries come on top: {_shared(rows)}."
        )
        write_between(PAGE, MARKER, table(rows, conditions))
        write_between(README, MARKER, summary(rows))
        write_bytes(CSV, to_csv(rows).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
