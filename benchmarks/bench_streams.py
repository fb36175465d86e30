"""How much memory do streams take, compared with plans of tall images at the same slab heights? `make bench-streams`.

    python -m benchmarks.bench_streams [NETWORK ...] [--write]

NETWORK: of tests/named_streams.py. The image is as tall as four receptive fields of the network, and gives its rows on as well.
"rings" are what a ring for each buffer takes. `--write` renews docs/streams.md. Exit 1 if a stream takes more than rings.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import process_time

import csdfgen
from benchmarks.pages import ROOT, machine, write_between
from csdfgen.model.network import Network
from csdfgen.phases.streaming import read_rows
from csdfgen.planning.stream_file import to_json
from csdfgen.planning.streams import StreamPlan
from tests.named_streams import STREAMS, Named

PAGE = ROOT / "docs" / "streams.md"
MARKER = "streams"

Row = Mapping[str, float]


def receptive_rows(network: Network) -> int:
    """Rows of the first input that a row in the middle of the outputs depends on."""
    needed = {
        name: (tensor.rows // 2, tensor.rows // 2 + 1)
        for name, tensor in network.tensors.items()
        if name in network.output_tensors
    }
    for layer in reversed(network.layers):
        asked = [needed[one.name] for one in layer.outputs if one.name in needed]
        if asked:
            low, high = min(a for a, _ in asked), max(b for _, b in asked)
            read = zip(read_rows(layer, low), read_rows(layer, high - 1), strict=True)
            operands = [one for one in layer.inputs if one is not None]
            for operand, (first, last) in zip(operands, read, strict=True):
                if first is not None and last is not None:
                    old = needed.get(operand.name, (first[0], last[1]))
                    needed[operand.name] = min(old[0], first[0]), max(old[1], last[1])
    low, high = needed[network.inputs[0].name]
    return high - low


def measure_rings(stream: StreamPlan) -> int:
    """Bytes of a ring for each buffer, with the scratch that is largest."""
    plan = stream.at(stream.least)
    pairs = zip(plan.rolling, plan.lifetimes.each, strict=True)
    rows = [one.capacity * buffer.row_bytes for buffer, one in pairs]
    return sum(rows) + max(stream.loop.scratch.values(), default=0)


def measure(net: Named) -> Row:
    """The figures of a network."""
    model, start = net.make(64, net.width), process_time()
    stream = csdfgen.plan_stream(model, backend="native")
    seconds, facts = process_time() - start, stream.facts()
    field = receptive_rows(csdfgen.load(net.make(2_048, net.width)))
    rows = -(-4 * max(field, stream.period) // net.step) * net.step
    image = csdfgen.load(net.make(rows, net.width))
    heights = stream.options.rows
    unrolled = csdfgen.plan(image, policy="best", rows=heights, result="streamed", backend="native")
    names = "period", "turn", "latency", "peak_live", "lower_bound", "arena"
    return {name: facts[name] for name in names} | {
        "unrolled": unrolled.planned_bytes,
        "rings": measure_rings(stream),
        "seconds": seconds,
        "file": len(json.dumps(to_json(stream))),
    }


def lines(found: Mapping[str, Row]) -> list[str]:
    """The table of the page."""
    head = (
        "period",
        "turn",
        "latency",
        "peak",
        "bound",
        "arena",
        "unrolled",
        "ratio",
        "rings",
        "planned in",
        "plan",
    )
    table = [f"| network | {' | '.join(head)} |", f"|---|{'---:|' * len(head)}"]
    for name, one in found.items():
        sizes = [f"{one[key]:,}" for key in ("peak_live", "lower_bound", "arena", "unrolled")]
        cells = *(f"{one[key]:,}" for key in ("period", "turn", "latency")), *sizes
        ends = f"{one['arena'] / one['unrolled']:.3f}", f"{one['rings']:,}"
        table.append(
            f"| {name} | {' | '.join((*cells, *ends))} | {one['seconds']:.1f} s | {one['file'] / 1000:.0f} kB |"
        )
    busy = ", beside other work" if os.getloadavg()[0] > 1.5 else ""
    return [*table, "", f"Seconds of the processor{busy}, on {machine()}."]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="streams and tall images: memory")
    parser.add_argument("networks", nargs="*", default=list(STREAMS))
    parser.add_argument("--write", action="store_true", help=f"renew {Path('docs') / PAGE.name}")
    asked = parser.parse_args(arguments)
    unknown = sorted({*asked.networks} - STREAMS.keys())
    if unknown:
        parser.error(f"no network '{unknown[0]}'; there are {', '.join(STREAMS)}")
    found = {}
    for name in asked.networks:
        found[name] = measure(STREAMS[name])
        print(lines(found)[-3], flush=True)
    if asked.write:
        write_between(PAGE, MARKER, lines(found))
    return int(any(one["arena"] > one["rings"] for one in found.values()))


if __name__ == "__main__":
    sys.exit(main())
