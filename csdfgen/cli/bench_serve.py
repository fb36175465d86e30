"""`csdfgen bench-serve`: all policies against the real server, in one run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from csdfgen.cli.command import Command
from csdfgen.cli.options import JSON, Loaded, NetworkArgument, check_picture, refuse_graph
from csdfgen.cli.terminal import csv_text, say, say_json, show_progress
from csdfgen.errors import InputError
from csdfgen.files import check_writable, write_bytes
from csdfgen.model.options import declare

if TYPE_CHECKING:
    from csdfgen.serving.bench import Point


_TRAFFIC = "Traffic"


@dataclass(frozen=True, kw_only=True)
class BenchServe(Command):
    """Send requests to the server in an open loop over loopback, for every policy, and compare with the simulator.

    Load 1 is the rate of the server without batching, measured in the same run.
    """

    examples = (
        "csdfgen bench-serve model.onnx --csv out.csv --svg out.svg",
        "csdfgen bench-serve zoo:alexnet --loads 0.6,0.9 --rates 20,40,60,80 --several 10,25,50 --requests 1000",
    )

    model: NetworkArgument
    policies: str = declare(
        "Policies, separated by semicolons.",
        "serial;window:m=8;greedy;lbci-paper;lbci;adaptive",
        "P;P...",
    )
    loads: str = declare(
        "Offered load as multiples of load 1; '' for none.", "0.3,0.6,0.9", "X,X...", _TRAFFIC
    )
    rates: str = declare("Requests per second; paper 001 has 20,40,60,80.", "", "N,N...", _TRAFFIC)
    several: str = declare(
        "Requests of 1 to N images every 100 ms; paper 001 has 10,25,50.", "", "N,N...", _TRAFFIC
    )
    requests: int = declare("Requests per point.", 1000, "N", _TRAFFIC, low=1, high=1_000_000)
    deadline: str | None = declare("The deadline of a request: 500ms.", None, "TIME", _TRAFFIC)
    max_batch: int = declare("The largest batch.", 8, "N", low=1, high=4096)
    stages: int = declare("Maximum number of pipeline stages.", 4, "N", low=1, high=16)
    seed: int = declare("Seed of arrivals and values.", 0, "N", low=0)
    csv: Path | None = declare("Write all points as CSV.", None, "FILE")
    svg: Path | None = declare("Draw latency against load, one line per policy.", None, "FILE.svg")
    loaded: Loaded
    as_json: bool = declare("Print one JSON object instead of text.", False, names=JSON)

    def run(self) -> None:
        """Measure, print, and write what is asked for. Raises CsdfgenError."""
        from csdfgen.cli.models import load_network
        from csdfgen.model.units import parse_time
        from csdfgen.serving.bench import measure_policies
        from csdfgen.serving.policies import parse_policy
        from csdfgen.serving.programs import Programs, measure_times
        from csdfgen.serving.service import plan

        refuse_graph(self.model, ", which cannot be served; give the model")
        check_picture("--svg", self.svg)
        for path in filter(None, (self.csv, self.svg)):
            check_writable(path)
        names = [name.strip() for name in self.policies.split(";")]
        for name in names:
            parse_policy(name)
        loads, rates = _numbers("loads", self.loads), _numbers("rates", self.rates)
        several = [int(one) for one in _numbers("several", self.several)]
        if not (loads or rates or several):
            raise InputError("no traffic is given; give --loads, --rates or --several")
        wanted = math.inf if self.deadline is None else parse_time(self.deadline, "deadline")
        asked = self.loaded.read()
        with show_progress() as progress:
            progress("planning and measuring")
            network = load_network(self.model, asked)
            service = plan(network, max_batch=self.max_batch, stages=self.stages)
            times = measure_times(Programs(service))
            capacity, points = measure_policies(
                self.model, network, times, names, loads=loads, rates=rates, several=several, count=self.requests,
                deadline=wanted, seed=self.seed, progress=progress,
                options=["--stages", str(self.stages), *chain(*asked.typed())],
                show=(lambda *found: None) if self.as_json else partial(_show, network.name),
            )  # fmt: skip
        rows = [_facts(point) for point in points]
        if self.csv is not None:
            write_bytes(self.csv, csv_text([list(rows[0]), *(list(row.values()) for row in rows)]))
        if self.svg is not None:
            write_bytes(self.svg, _picture(network.name, capacity, points))
        if self.as_json:
            say_json({"model": self.model, "images_per_second_at_load_1": capacity, "points": rows})


def _numbers(name: str, text: str) -> list[float]:
    """Numbers above 0 between commas. Raises InputError."""
    try:
        found = [float(one) for one in text.split(",") if one.strip()]
    except ValueError:
        found = [0.0]
    if not all(0 < one < 1e6 for one in found):
        raise InputError(f"--{name} {text[:60]}: numbers above 0 between commas are needed")
    return found


def _facts(point: Point) -> dict[str, object]:
    seen, again = point.served, point.simulated
    return {
        "policy": point.policy, "traffic": point.traffic, "requests_per_second": point.rate, "load": point.load,
        "requests": seen.requests, "answered": seen.answered, "refused": seen.refused, "in_time": seen.in_time,
        "mean_ms": _ms(seen.mean), **{f"p{at}_ms": _ms(v) for at, v in seen.percentiles.items()},
        "answers_per_second": seen.rate, "simulated_mean_ms": _ms(again.mean),
        "simulated_p99_ms": _ms(again.percentiles[99]), "simulated_in_time": again.in_time,
    }  # fmt: skip


def _ms(seconds: float) -> float | None:
    return None if math.isnan(seconds) else 1e3 * seconds


_COLUMNS = {
    "mean ms": 8, "p50": 8, "p99": 8, "simulated mean": 14, "p99 ": 8, "in time": 7, "refused": 7, "answers/s": 9
}  # fmt: skip
"""The columns of numbers, with their widths."""


def _show(model: str, capacity: float, points: Sequence[Point]) -> None:
    """Print the last point below those before it."""
    one = points[-1]
    if len(points) == 1:
        say(f"{model}: load 1 is {capacity:.1f} images a second\n")
        say(_line("traffic", "policy", _COLUMNS))
    seen, again = one.served, one.simulated
    times = (
        seen.mean,
        seen.percentiles[50],
        seen.percentiles[99],
        again.mean,
        again.percentiles[99],
    )
    shown = [f"{1e3 * value:.1f}" for value in times]
    shown += [f"{100 * seen.in_time_of_all:.1f} %", f"{seen.refused:,}", f"{seen.rate:.1f}"]
    say(_line(one.traffic, one.policy, shown))


def _line(traffic: str, policy: str, cells: Iterable[str]) -> str:
    wide = "  ".join(f"{one:>{width}}" for one, width in zip(cells, _COLUMNS.values(), strict=True))
    return f"{traffic:<14}  {policy:<20}  {wide}"


def _picture(model: str, capacity: float, points: list[Point]) -> bytes:
    """Mean, median and 99th percentile against load, a line a policy."""
    from csdfgen.charts.fronts import Line, Panel, sweep_chart

    names = dict.fromkeys(point.policy for point in points)
    panels = []
    for title, at in (("mean", 0), ("50 % of answers", 50), ("99 % of answers", 99)):
        lines = tuple(
            Line(name, tuple(sorted(_dot(one, at) for one in points if one.policy == name)))
            for name in names
        )
        panels.append(Panel(title, lines, ("load", "latency, ms")))
    facts = f"measured over loopback; load 1 is {capacity:.1f} images a second, one at a time"
    return sweep_chart(f"{model}: latency under load", facts, panels)


def _dot(point: Point, at: int) -> tuple[float, float]:
    """Load, and a percentile of the latency in ms, or its mean for 0."""
    seen = point.served
    return point.load, 1e3 * (seen.percentiles[at] if at else seen.mean)
