"""How small is an int8 network's arena, beside its float arena and beside published rivals? `make
bench-int8-memory`.

    python -m benchmarks.bench_int8_memory [NAME ...] [--only rivals|zoo] [--goal G ...] [--format F ...]
                                           [--run] [--missing] [--write]
    python -m benchmarks.bench_int8_memory --proof

Sizes do not depend on scales, so that networks are quantized without calibration: every tensor from -1 to
1, by what `csdfgen quantize` writes with (csdfgen/precision/). `--proof` calibrates three networks for real
and compares their arenas. Input and output are int8 as well, as rivals count them. The arena holds all: rows,
the workspace of native kernels, and an image that is resident. Nothing is computed twice.

Results are kept in docs/int8-memory.csv; those of the networks that are named are renewed, the tables of
docs/memory.md are written from all of them. `--run` executes a frame, which must touch the arena to the
byte. Exit 1 if a bar is missed, or a frame touches other bytes.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from math import exp, log

import numpy as np
import onnx

import csdfgen
import runtime
from benchmarks.chains import CHAINS
from benchmarks.pages import ROOT, write_between
from csdfgen.errors import CsdfgenError
from csdfgen.precision.ends import remove_end_conversions
from csdfgen.precision.prepare import prepare_model
from csdfgen.precision.writer import convert_to_int8
from csdfgen.reading.zoo import build
from zoo_models import ZOO

__all__ = ["RIVALS", "Rival", "Row", "mean_ratio", "structural"]

PAGE = ROOT / "docs" / "memory.md"
CSV = ROOT / "docs" / "int8-memory.csv"
GOALS = ("memory", "balanced")
FORMATS = ("float32", "int8")
LARGEST_RATIO = 0.30
"""Of float's arena, geometric mean over the zoo."""

RESIDUALS = "+residuals"
"""Behind the name of a chain: with the additions of the network that it was made from."""

PROVED = ("resnet8", "mobilenet_v1_x0_25", "squeezenet1_1@64x64")


@dataclass(frozen=True, slots=True)
class Rival:
    """What is published for a network in int8. factor: multiply-accumulates against the network's own;
    image: "resident", "streamed", or "" for a network that is alike, but not the same. bar: bytes that
    ours may take, 0 for none.
    """

    network: str
    who: str
    nbytes: int
    image: str
    factor: float = 1.0
    bar: int = 0
    note: str = ""


KIB = 1024

RIVALS = (
    Rival("mobilenet_v2", "Vela, Size", 353 * KIB, "resident", bar=200 * KIB),
    Rival("squeezenet1_1", "Vela, Size", 425 * KIB, "resident", bar=175 * KIB),
    Rival("resnet18", "Vela, Size", 413 * KIB, "resident", bar=210 * KIB),
    Rival("resnet50", "Vela, Size", 1764 * KIB, "resident", bar=375 * KIB),
    Rival("mobilenet_v2", "MCUNetV2", 172_000, "streamed", 1.10, 115 * KIB),
    Rival("mobilenet_v2", "whole layers, by MCUNetV2", 1_372_000, "resident"),
    Rival("resnet50", "whole layers, ours", 0, "streamed", bar=360 * KIB),
    Rival("mbv2_w0.35_chain", "msf-CNN", 83_065, "streamed", 1.02, 45_000),
    Rival("mbv2_w0.35_chain", "msf-CNN", 67_905, "streamed", 1.10),
    Rival("mbv2_w0.35_chain", "msf-CNN", 21_288, "streamed", 1.30),
    Rival("mbv2_w0.35_chain", "msf-CNN, least", 7_887, "streamed", 1.68),
    Rival("mbv2_w0.35_chain", "MCUNetV2's heuristic, by msf-CNN", 32_076, "streamed", 1.59),
    Rival("mbv2_w0.35_chain", "whole layers, by msf-CNN", 194_400, "streamed"),
    Rival("mcunetv2_vww_5fps_chain", "msf-CNN", 38_576, "streamed", 1.02, 34_000),
    Rival("mcunetv2_vww_5fps_chain", "msf-CNN", 26_128, "streamed", 1.11),
    Rival("mcunetv2_vww_5fps_chain", "msf-CNN, least", 12_000, "streamed", 1.96),
    Rival("mcunetv2_vww_5fps_chain", "MCUNetV2's heuristic, by msf-CNN", 24_000, "streamed", 1.56),
    Rival("mcunetv2_vww_5fps_chain", "whole layers, by msf-CNN", 96_000, "streamed"),
    Rival("mcunet_320kb_chain", "msf-CNN", 190_096, "streamed", 1.04, 130_000),
    Rival("mcunet_320kb_chain", "msf-CNN", 156_672, "streamed", 1.37),
    Rival("mcunet_320kb_chain", "msf-CNN", 94_184, "streamed", 1.45),
    Rival("mcunet_320kb_chain", "msf-CNN, least", 42_643, "streamed", 2.69),
    Rival("mcunet_320kb_chain", "MCUNetV2's heuristic, by msf-CNN", 90_307, "streamed", 3.25),
    Rival("mcunet_320kb_chain", "whole layers, by msf-CNN", 309_760, "streamed"),
    Rival("mbv2_w0.35_chain+residuals", "TinyEngine", 295_000, "resident", note="with a head"),
    Rival("mbv2_w0.35_chain+residuals", "X-CUBE-AI 7.3", 296_000, "resident", note="with a head"),
    Rival("mcunet_320kb_chain+residuals", "TinyEngine, STM32F746", 293_000, "resident", note="with a head"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """A plan. format: "float32" or "int8"; bytes: the arena, with the workspace in it; whole_layers:
    whole_layer_live of the same network; outputs: beside the arena.
    """

    network: str
    format: str
    image: str
    goal: str
    arena: int
    workspace: int
    peak_live: int
    lower_bound: int
    outputs: int
    whole_layers: int

    @property
    def key(self) -> tuple[str, ...]:
        return self.network, self.format, self.image, self.goal


# Networks ---------------------------------------------------------------------------------------


def float_model(name: str) -> onnx.ModelProto:
    """A chain, or a network of the zoo, at its published size unless the name has another."""
    chain = CHAINS.get(name.removesuffix(RESIDUALS))
    if chain is not None:
        return chain.build(residuals=name.endswith(RESIDUALS))
    return build(f"zoo:{name}")


def structural(model: onnx.ModelProto) -> onnx.ModelProto:
    """A float model in int8 throughout, every tensor from -1 to 1: as large as with any other ranges."""
    return remove_end_conversions(convert_to_int8(prepare_model(model), {}))[0]


def rows_of(
    name: str, images: Iterable[str], goals: Iterable[str], formats: Iterable[str], run: bool
) -> Iterator[Row]:
    """Plans of a network. Raises CsdfgenError."""
    source = float_model(name)
    for format_ in formats:
        network = csdfgen.load(source if format_ == "float32" else structural(source))
        for image in images:
            for goal in goals:
                plan = csdfgen.plan(network, image=image, goal=goal, backend="native")
                if run:
                    _run(name, plan)
                told = plan.figures
                yield Row(
                    name, format_, image, goal, told["arena"], told["workspace"], told["peak_live"],
                    told.get("lower_bound", 0), told["outputs"], told["whole_layer_live"],
                )  # fmt: skip


def _run(name: str, plan: csdfgen.Plan) -> None:
    """A frame of seeded values. Raises CsdfgenError where it touches other bytes than planned."""
    rng = np.random.default_rng(0)
    x = {
        tensor.name: rng.integers(-100, 100, plan.network.whole_shape(tensor)).astype(tensor.dtype)
        for tensor in plan.network.inputs
    }
    _, measured = runtime.compile(plan).measure(x)
    if measured.touched_bytes != plan.planned_bytes:
        raise CsdfgenError(
            f"a frame touches {measured.touched_bytes:,} bytes of the arena, planned are {plan.planned_bytes:,}",
            where=name,
        )


# Tables -----------------------------------------------------------------------------------------


def read_rows() -> dict[tuple[str, ...], Row]:
    """What was measured before."""
    if not CSV.exists():
        return {}
    with CSV.open(newline="") as file:
        found = [
            Row(
                **{
                    f.name: row[f.name] if f.type == "str" else int(row[f.name])
                    for f in fields(Row)
                }
            )
            for row in csv.DictReader(file)
        ]
    return {row.key: row for row in found}


def write_rows(rows: Iterable[Row]) -> None:
    with CSV.open("w", newline="") as file:
        writer = csv.DictWriter(file, [f.name for f in fields(Row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)


def mean_ratio(pairs: Sequence[tuple[int, int]]) -> float:
    """Geometric mean of first over second.

    >>> round(mean_ratio([(1, 4), (1, 1)]), 6)
    0.5
    """
    return exp(sum(log(a / b) for a, b in pairs) / len(pairs))


def zoo_pairs(rows: dict[tuple[str, ...], Row], goal: str) -> dict[str, tuple[Row, Row]]:
    """Network of the zoo -> (int8, float), image streamed."""
    keys = {name: [(name, f, "streamed", goal) for f in ("int8", "float32")] for name in ZOO}
    return {name: (rows[a], rows[b]) for name, (a, b) in keys.items() if a in rows and b in rows}


def zoo_table(rows: dict[tuple[str, ...], Row]) -> list[str]:
    """Arenas in int8 compared with float32, a line for each goal; the arena of every network is in the CSV."""
    lines = ["| goal | networks | int8 / float32, geometric mean | range |", "|---|---:|---:|---|"]
    for goal in GOALS:
        arenas = {name: (a.arena, b.arena) for name, (a, b) in zoo_pairs(rows, goal).items()}
        if arenas:
            least, most = (
                f(arenas, key=lambda name: arenas[name][0] / arenas[name][1]) for f in (min, max)
            )
            ends = (f"{arenas[name][0] / arenas[name][1]:.3f} ({name})" for name in (least, most))
            mean = mean_ratio(list(arenas.values()))
            lines.append(f"| {goal} | {len(arenas)} | **{mean:.3f}** | {' to '.join(ends)} |")
    return lines


def rival_table(rows: dict[tuple[str, ...], Row]) -> list[str]:
    """Published figures compared with ours, KiB; ours by goal "memory", without recomputation."""
    lines = [
        "| network, image | csdfgen, KiB (workspace) | others, KiB (multiply-accumulates): factor |",
        "|---|---:|---|",
    ]
    cells: dict[tuple[str, str], list[str]] = {}
    for rival in RIVALS:
        ours = rows.get((rival.network, "int8", rival.image or "streamed", "memory"))
        if ours is None:
            continue
        nbytes = rival.nbytes or ours.whole_layers
        factor = f" ({rival.factor:.2f}): {nbytes / ours.arena:.2f}" if rival.image else ""
        note = f", {rival.note}" if rival.note else ""
        key = (
            f"{rival.network}, {rival.image or 'streamed'}",
            f"{ours.arena / KIB:,.1f} ({ours.workspace / KIB:,.1f})",
        )
        cells.setdefault(key, []).append(f"{rival.who}{note} {nbytes / KIB:,.1f}{factor}")
    lines += [f"| {name} | {own} | {'; '.join(others)} |" for (name, own), others in cells.items()]
    return lines


def missed(rows: dict[tuple[str, ...], Row]) -> list[str]:
    """Bars that ours does not keep, each in a line."""
    found = []
    for rival in RIVALS:
        ours = rows.get((rival.network, "int8", rival.image, "memory"))
        if rival.bar and ours is not None and ours.arena > rival.bar:
            found.append(
                f"{rival.network}, {rival.image}: {ours.arena:,} bytes, at most {rival.bar:,} are allowed "
                f"(workspace {ours.workspace:,}, peak {ours.peak_live:,}, bound {ours.lower_bound:,})"
            )
    for goal in GOALS:
        arenas = [(a.arena, b.arena) for a, b in zoo_pairs(rows, goal).values()]
        if arenas and mean_ratio(arenas) > LARGEST_RATIO:
            found.append(
                f"zoo, {goal}: {mean_ratio(arenas):.3f} of float, at most {LARGEST_RATIO:.2f}"
            )
    return found


# Proof ------------------------------------------------------------------------------------------


def proof() -> list[str]:
    """Arenas of three networks with calibrated ranges, beside those without: must be equal."""
    lines = ["| network | goal | calibrated | from -1 to 1 |", "|---|---|---:|---:|"]
    for name in PROVED:
        source = float_model(name)
        entry = source.graph.input[0]
        shape = [d.dim_value for d in entry.type.tensor_type.shape.dim]
        rng = np.random.default_rng(5)
        pictures = rng.uniform(-1, 1, (2, *shape[1:])).astype(np.float32)
        calibrated = remove_end_conversions(csdfgen.quantize(source, pictures).model)[0]
        for goal in GOALS:
            sizes = [
                csdfgen.plan(csdfgen.load(model), goal=goal, backend="native").figures["arena"]
                for model in (calibrated, structural(source))
            ]
            lines.append(f"| {name} | {goal} | {sizes[0]:,} | {sizes[1]:,} |")
            if sizes[0] != sizes[1]:
                lines[-1] += " DIFFERENT"
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="of the zoo, or a chain")
    parser.add_argument("--only", choices=("rivals", "zoo"), help="half of the work")
    parser.add_argument("--goal", choices=GOALS, nargs="*", default=GOALS, help="of the zoo")
    parser.add_argument("--format", choices=FORMATS, nargs="*", default=FORMATS, help="of the zoo")
    parser.add_argument(
        "--run",
        action="store_true",
        help="execute a frame of every int8 plan of the rivals' networks",
    )
    parser.add_argument(
        "--proof", action="store_true", help="calibrate three networks, and compare"
    )
    parser.add_argument("--missing", action="store_true", help="only what the CSV file has not")
    parser.add_argument(
        "--write", action="store_true", help=f"tables of {PAGE.name}, and {CSV.name}"
    )
    given = parser.parse_args()
    if given.proof:
        lines = proof()
        print("\n".join(lines))
        sys.exit(any("DIFFERENT" in line for line in lines))
    rows, fresh = read_rows(), dict[tuple[str, ...], Row]()
    rivals = dict.fromkeys(rival.network for rival in RIVALS)
    for name in given.names or [*rivals, *(one for one in ZOO if one not in rivals)]:
        jobs = []
        if name in rivals and given.only != "zoo":
            images = dict.fromkeys(r.image for r in RIVALS if r.network == name and r.image)
            jobs += [(image, "memory", "int8", given.run) for image in images]
        if name in ZOO and given.only != "rivals":
            jobs += [("streamed", goal, f, False) for goal in given.goal for f in given.format]
        for image, goal, format_, run in dict.fromkeys(jobs):
            if given.missing and (name, format_, image, goal) in rows:
                continue
            try:
                for row in rows_of(name, (image,), (goal,), (format_,), run):
                    fresh[row.key] = row
                    print(*asdict(row).values(), flush=True)
            except CsdfgenError as error:
                print(f"{name}, {format_}, {image}, {goal}: {error}", file=sys.stderr, flush=True)
        rows |= fresh
        if given.write:  # what others have written meanwhile stays
            rows = {**read_rows(), **fresh}
            write_rows(sorted(rows.values(), key=lambda row: row.key))
    tables = [*rival_table(rows), "", *zoo_table(rows)]
    print("\n".join(tables))
    if given.write:
        write_between(PAGE, "int8", tables)
    wrong = missed(rows)
    print("\n".join(wrong), file=sys.stderr)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
