"""How much less memory for computing some of it twice? msf-CNN's own networks at its published factors.

    python -m benchmarks.bench_recompute [--write] [--effort 150000] [--live-only] [NAME ...]

Published: the peak of msf-CNN's own model in bytes of int8, so elements, its scratch included, input and
output left out (repository TinyPART/msf-CNN, msf_CNN_eval_models/result.json). Ours: the most elements
of rows alive at one time; the same with the kernels' scratch; and the arena that holds both. The image is
streamed from the caller. Multiply-accumulates are counted exactly, layer by layer, of the network that runs. Every
plan is checked, run, and compared with onnxruntime on the network as it was.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

import runtime
from benchmarks.chains import CHAINS, Chain
from benchmarks.pages import ROOT, write_between
from csdfgen.backends.registry import choose_backend
from csdfgen.model.options import PlanOptions
from csdfgen.planning.planner import plan_fixed_heights
from csdfgen.planning.recompute import EFFORT, MeasuredTiles, search_regions
from csdfgen.reading.loader import load
from csdfgen.rewriting.fuse import fuse
from runtime.verify import check_outputs

PUBLISHED: Mapping[str, Sequence[tuple[float, int]]] = {
    "mbv2_w0.35_chain": (
        (1.02, 83_065),
        (1.10, 67_905),
        (1.30, 21_288),
        (1.38, 15_340),
        (1.56, 13_926),
        (1.68, 7_887),
    ),
    "mcunetv2_vww_5fps_chain": (
        (1.02, 38_576),
        (1.04, 32_792),
        (1.11, 26_128),
        (1.30, 17_760),
        (1.35, 13_376),
        (1.96, 12_000),
    ),
    "mcunet_320kb_chain": (
        (1.04, 190_096),
        (1.25, 186_032),
        (1.37, 156_672),
        (1.45, 94_184),
        (2.02, 62_880),
        (2.69, 42_643),
    ),
}
"""Network -> (factor of multiply-accumulates, bytes)."""

PAGE = ROOT / "docs" / "tradeoffs.md"
MARKER = "recompute"
ITEM = 4
"""Bytes of an element here."""


@dataclass(frozen=True)
class Point:
    """A published point and ours beside it, in elements: peak and arena with scratch; equal: outputs
    are onnxruntime's (None: not run).
    """

    factor: float
    published: int
    found: MeasuredTiles
    peak: int
    arena: int
    equal: bool | None


def points(
    chain: Chain, factors: Iterable[tuple[float, int]], effort: int, run: bool
) -> Iterator[Point]:
    """Ours at each factor; the best that was found for a smaller factor counts too."""
    model = chain.build()
    network = load(model)
    joined = fuse(network)
    best: MeasuredTiles | None = None
    for factor, published in factors:
        tiles, *_ = search_regions(joined, factor, effort)
        if best is None or tiles.peak_live < best.peak_live:
            best = tiles
        options = PlanOptions(rows="1", tiles=best.tiles, recompute=factor)
        made, equal = plan_fixed_heights(network, options, choose_backend(options)), None
        if run:
            rng = np.random.default_rng(0)
            x = {t.name: rng.uniform(-1, 1, t.shape).astype(t.dtype) for t in network.inputs}
            found = check_outputs(model, made, x, runtime.compile(made)(x))
            equal = all(one.ok for one in found)
        peak, arena = (made.figures[name] // ITEM for name in ("peak_live", "arena"))
        yield Point(factor, published, best, peak, arena, equal)


def line(chain: Chain, point: Point) -> str:
    """A row of the table."""
    live = point.found.peak_live // ITEM
    wrong = {True: "", False: " DIFFERENT", None: " (not run)"}[point.equal]
    return (
        f"| {chain.name}, {point.factor:.2f} | {point.published:,} | {live:,}, {point.peak:,}, {point.arena:,}{wrong} "
        f"| {point.found.macs / chain.macs:.4f} | {point.published / point.arena:.2f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CHAINS)}")
    parser.add_argument(
        "--effort", type=int, default=EFFORT, help="firings followed while trying, a point"
    )
    parser.add_argument(
        "--at", type=float, nargs="*", help="factors; all that are published by default"
    )
    parser.add_argument("--live-only", action="store_true", help="do not run the networks")
    parser.add_argument("--write", action="store_true", help=f"the table of {PAGE.name}")
    given = parser.parse_args()
    lines = [
        "| network, allowed factor | msf-CNN | rows, with scratch, arena | factor reached | arena times less |",
        "|---|---:|---:|---:|---:|",
    ]
    print("\n".join(lines))
    for name in given.names or CHAINS:
        chain = CHAINS[name]
        asked = [p for p in PUBLISHED[name] if given.at is None or p[0] in given.at]
        for point in points(chain, asked, given.effort, not given.live_only):
            lines.append(line(chain, point))
            print(lines[-1], flush=True)
    if given.write:
        write_between(PAGE, MARKER, lines)


if __name__ == "__main__":
    main()
