"""What do requests of several images gain in one memory? `make bench-requests`.

Each network is profiled here, on rows and on 1 to 8 images at once. In twice the arena of its plan of one image,
plans are made for the request by every way that finds one, and the fastest of one image by rows alone; in 1.1,
1.5 and 2.5 times what whole layers of one image take and in the least memory of the greedy rule, by the ways of
paper 000 and by ours; and the smallest plan for a latency halfway between the fastest of them and one image after the
other. All of them are timed in turn, each on all images of the request, by the thread's processor time, and with them
the frames of a second profile, by which their times are predicted: this machine is not always as fast. AlexNet in
2.0 MiB is timed beside onnxruntime at 1 to 32 images. The tables go between markers into docs/requests.md.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from math import exp, log
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper
from threadpoolctl import threadpool_limits

import csdfgen
import runtime
from benchmarks.pages import ROOT, machine, write_between
from csdfgen.devices import facts
from csdfgen.devices.files import write_profile
from csdfgen.devices.measure import HEIGHTS, Measurements, Sampler, make_profile, sample_network
from csdfgen.devices.model import estimate
from csdfgen.devices.profile import DeviceProfile
from csdfgen.errors import PlanError
from csdfgen.model.network import Network
from csdfgen.planning.plan import Plan
from csdfgen.reading.zoo import build

PAGE = ROOT / "docs" / "requests.md"

NAMES = ("alexnet", "vgg19", "squeezenet1_1", "mobilenet_v1", "googlenet", "resnet50")

IMAGES = 8
COUNTS = (1, 2, 4, 8)
PRINTED = ("fbs", "greedy", "vbs")
JOINT = "joint"
ARENAS = 2.0
"""Memory, in arenas of the plan of one image."""

WHOLE = (1.1, 1.5, 2.5)
"""Memories, in what whole layers of one image take with all outputs."""
LEAST = "least of `greedy`"
"""The budget that is the least memory in which the greedy rule has a plan."""

SINGLE, ROWS = "one image", "rows alone"

IN_TIME = "in time"
"""What plans are called that are the smallest for a latency."""

ALEXNET, MOST = 16, 2 * 2**20
"""Images of AlexNet's request, and bytes of its arena at most."""

SECONDS = 60.0
"""Of measuring, at least: small networks are over in a moment, and the machine is not always as fast."""

THEIRS = (1, 2, 4, 8, 16, 32)

MIB = 2**20


@dataclass(frozen=True)
class Result:
    """A way of passing a request through a network. budget: "", or the memory in words. seconds: an image,
    predicted and measured, and what the request was allowed, 0 for any; search: s.
    """

    network: str
    budget: str
    way: str
    bytes: int
    predicted: float
    measured: float
    search: float
    latency: float = 0.0

    @property
    def used(self) -> float:
        """Part of the latency that was taken."""
        return IMAGES * self.measured / self.latency


def measured(
    runs: Sequence[tuple[Callable[[np.ndarray], object], int]],
    x: np.ndarray,
    rounds: int,
    beside: Callable[[], object] = lambda: None,
) -> list[float]:
    """Median seconds an image of functions that take turns, in another order each time, by the thread's
    processor time: so many rounds, more where they are over in a moment. runs: functions, and how many images
    a call takes. x: all images; each function gets all of them in its turn, so that none pays more often than
    another for caches that hold what ran before it. beside: called once a round.
    """
    found: list[list[float]] = [[] for _ in runs]
    order, chance = list(range(len(runs))), random.Random(0)
    end = time.monotonic() + SECONDS
    for number in count():
        if number > rounds and time.monotonic() > end:
            break
        chance.shuffle(order)
        for at in order:
            function, images = runs[at]
            start = time.thread_time()
            for first in range(0, len(x), images):
                function(x[first : first + images])
            if number:
                found[at].append((time.thread_time() - start) / len(x))
        if number:
            beside()
    return [statistics.median(one) for one in found]


def profile_of(found: Measurements) -> DeviceProfile:
    """This machine, by the layers of one network."""
    return make_profile([found], "host", "this machine", *facts.machine(), {})


@dataclass(frozen=True)
class Planned:
    """A plan, in which memory and how it was found, in how many seconds; predicted: s of an image, by the profile
    that it was found with; latency: s of the request that it is for, 0 for any.
    """

    budget: str
    way: str
    plan: Plan
    search: float
    predicted: float
    latency: float = 0.0


def planned(
    network: Network,
    profile: DeviceProfile,
    wishes: Mapping[str, Any],
    times_whole: Sequence[float],
) -> Iterator[Planned]:
    """All plans that are compared. profile: the device of the wishes."""
    found: list[float] = []

    def made(budget: str, way: str, latency: float = 0.0, **asked: Any) -> Planned:
        start = time.perf_counter()
        if latency:
            asked["latency"] = latency
        plan = csdfgen.plan(network, **asked, **wishes)
        search = time.perf_counter() - start
        found.append(seconds_of(plan, profile))
        return Planned(budget, way, plan, search, found[-1], latency)

    single = made("", SINGLE)
    yield single
    whole = csdfgen.plan(network, rows="whole", **wishes).planned_bytes
    whole += IMAGES * network.output_bytes
    arena = f"{ARENAS:g} arenas"
    budgets = {arena: round(ARENAS * single.plan.total_bytes)}
    budgets |= {f"{times:g} x whole layers": round(times * whole) for times in times_whole}
    if times_whole:
        budgets[LEAST] = least_of_greedy(network, whole, wishes)
    for name, memory in budgets.items():
        for way in (*([ROWS] if name == arena else []), *PRINTED, JOINT):
            asked = {} if way == ROWS else {"requests": IMAGES, "batching": way}
            try:
                yield made(name, way, memory=memory, **asked)
            except PlanError:
                continue
    halfway = IMAGES * (min(found) + single.predicted) / 2
    yield made("latency", IN_TIME, halfway, requests=IMAGES)


def least_of_greedy(network: Network, memory: int, wishes: Mapping[str, Any]) -> int:
    """Bytes in which the greedy rule has a plan: all images wait at every layer. memory: too little for it."""
    try:
        plan = csdfgen.plan(network, requests=IMAGES, batching="greedy", memory=memory, **wishes)
    except PlanError as error:
        return error.least
    return plan.total_bytes


def seconds_of(plan: Plan, profile: DeviceProfile) -> float:
    """Predicted, of an image."""
    return estimate(plan, profile).seconds / plan.conversion.frames


def same(one: Plan, other: Plan) -> bool:
    """Whether two plans do the same at the same places, so that it is timed once."""
    return one.order == other.order and one.regions == other.regions


def measure(
    name: str, backend: str, rounds: int, repeats: int, times_whole: Sequence[float]
) -> Iterator[Result]:
    """Profile, plan, time."""
    network = csdfgen.load(f"zoo:{name}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "host.toml"
        first = sample_network(
            network, HEIGHTS, repeats, seconds=SECONDS / 3, backend=backend, images=COUNTS
        )
        before = profile_of(first)
        write_profile(path, before)
        wishes = {"backend": backend, "device": str(path)}
        plans = list(planned(network, before, wishes, times_whole))
    shape = (IMAGES, *network.inputs[0].shape[1:])
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    sampler = Sampler.of(network, HEIGHTS, backend=backend, images=COUNTS)
    sampler.warm_up()
    alike = [
        next(k for k, other in enumerate(plans) if same(one.plan, other.plan)) for one in plans
    ]
    distinct = sorted(set(alike))
    # each has its packed weights, which are gigabytes of all plans of vgg19
    runs = [(runtime.compile(plans[k].plan), plans[k].plan.network.batch) for k in distinct]
    seconds_each = measured(runs, x, rounds, sampler.sample)
    times = dict(zip(distinct, seconds_each, strict=True))
    profile = profile_of(sampler.measurements())
    for one, timed in zip(plans, alike, strict=True):
        seconds = times[timed]
        predicted = seconds_of(one.plan, profile)
        latency = one.latency * predicted / one.predicted  # on a machine that has another speed now
        yield Result(
            name, one.budget, one.way, one.plan.total_bytes, predicted, seconds, one.search, latency
        )


def lines_of(found: Sequence[Result], backend: str) -> list[str]:
    """Markdown: networks in twice their arena, and in what whole layers need."""
    in_whole = [one for one in found if "whole" in one.budget or one.budget == LEAST]
    in_time = [one for one in found if one.way == IN_TIME]
    return [
        *_in_arenas([one for one in found if not one.budget or "arenas" in one.budget]),
        "",
        *([*_in_whole(in_whole), ""] if in_whole else []),
        *_in_time(in_time),
        "",
        *_said(found, backend),
    ]


def _in_arenas(found: Sequence[Result]) -> list[str]:
    lines = [
        "| ms an image (MiB) | one image | rows alone | joint (predicted) | faster than one image | than rows alone |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    gains: list[tuple[float, float]] = []
    for name in dict.fromkeys(one.network for one in found):
        at = {one.way: one for one in found if one.network == name}
        single, joint, rows = at[SINGLE], at[JOINT], at[ROWS]
        gains.append((single.measured / joint.measured, rows.measured / joint.measured))
        cells = (
            name, f"{1e3 * single.measured:.2f} ({single.bytes / MIB:.2f})",
            f"{1e3 * rows.measured:.2f} ({ARENAS * single.bytes / MIB:.2f})",
            f"{1e3 * joint.measured:.2f} ({1e3 * joint.predicted:.2f})", f"{gains[-1][0]:.2f}", f"{gains[-1][1]:.2f}",
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    means = [exp(statistics.fmean(map(log, column))) for column in zip(*gains, strict=True)]
    last = ("**geometric mean**", *[""] * 3, f"**{means[0]:.2f}**", f"**{means[1]:.2f}**")
    return [*lines, f"| {' | '.join(last)} |"]


def _in_whole(found: Sequence[Result]) -> list[str]:
    ways = (*PRINTED, JOINT)
    budgets = list(dict.fromkeys(one.budget for one in found))
    lines = [
        f"| {', '.join(ways)}; ms an image | {' | '.join(budgets)} |",
        f"|---|{'---|' * len(budgets)}",
    ]
    for name in dict.fromkeys(one.network for one in found):
        cells = []
        for budget in budgets:
            at = {one.way: one for one in found if (one.network, one.budget) == (name, budget)}
            each = (f"{1e3 * at[way].measured:.2f}" if way in at else "-" for way in ways)
            cells.append(", ".join(each))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def _in_time(found: Sequence[Result]) -> list[str]:
    lines = [
        "| network | latency of all images, ms | memory, MiB | measured, ms (predicted) | of the latency |",
        "|---|---:|---:|---:|---:|",
    ]
    for one in found:
        cells = (
            one.network, f"{1e3 * one.latency:.1f}", f"{one.bytes / MIB:.2f}",
            f"{1e3 * IMAGES * one.measured:.1f} ({1e3 * IMAGES * one.predicted:.1f})", f"{one.used:.2f}",
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _said(found: Sequence[Result], backend: str) -> Iterator[str]:
    worst, short = 0.0, ""
    for name, budget in dict.fromkeys((one.network, one.budget) for one in found if one.budget):
        there = {one.way: one for one in found if (one.network, one.budget) == (name, budget)}
        for way, than in ((JOINT, (*PRINTED, ROWS)), ("vbs", ("fbs", "greedy"))):
            for other in than:
                if way in there and other in there:
                    ratio = there[way].measured / there[other].measured
                    if ratio > worst:
                        worst, short = ratio, f"{way} of {name} in {budget}, compared with {other}"
    off = [
        abs(one.predicted / one.measured - 1)
        for one in found
        if one.way == JOINT and "arenas" in one.budget
    ]
    search = max(one.search for one in found if one.way in (JOINT, IN_TIME))
    yield (
        f"{IMAGES} images, ms an image. Over all budgets, joint and vbs take at most "
        f"{worst:.2f} times as long as another algorithm ({short}). "
        f"Predicted and measured times of joint in {ARENAS:g} arenas are "
        f"{100 * statistics.median(off):.0f} % apart in the median; the longest search took {search:.0f} s. The smallest "
        f"plans within a latency take at most {max(one.used for one in found if one.latency):.2f} of it."
    )
    yield ""
    yield f"One thread, {backend}, medians of interleaved plans; {machine('onnxruntime')}."


def alexnet(backend: str, rounds: int) -> list[str]:
    """AlexNet's request of 16 images beside its plan of one, and onnxruntime at 1 to 32."""
    network = csdfgen.load("zoo:alexnet")
    plan = csdfgen.plan(network, requests=ALEXNET, memory=MOST, backend=backend)
    alone = csdfgen.plan(network, backend=backend)
    name = network.inputs[0].name
    x = np.random.default_rng(0).standard_normal((max(THEIRS), 3, 224, 224)).astype(np.float32)
    session = _session("alexnet")

    def reference(images: np.ndarray) -> object:
        return session.run(None, {name: images})

    ours, one = runtime.compile(plan), runtime.compile(alone)
    request, single, *theirs = measured(
        [(ours, ALEXNET), (one, 1), *((reference, size) for size in THEIRS)], x, rounds
    )
    best = min(theirs)
    told = ", ".join(f"{1e3 * one:.1f}" for one in theirs)
    return [
        f"AlexNet, {ALEXNET} images: **{1e3 * request:.1f} ms** an image in an arena of {plan.planned_bytes / MIB:.2f} MiB, "
        f"**{single / request:.2f}** times as fast as its plan of one image ({1e3 * single:.1f} ms, "
        f"{alone.planned_bytes / MIB:.2f} MiB), and **{request / best:.2f}** of onnxruntime's best time ({told} ms at "
        f"{', '.join(map(str, THEIRS))} images). One thread, {backend}; {machine('onnxruntime')}."
    ]


def _session(name: str) -> ort.InferenceSession:
    """onnxruntime on any number of images: shapes that fix one are made free."""
    model = build(f"zoo:{name}")
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "images"
    constants = [*model.graph.initializer]
    constants += [
        a.t for node in model.graph.node if node.op_type == "Constant" for a in node.attribute
    ]
    for tensor in constants:
        shape = numpy_helper.to_array(tensor)
        if shape.dtype == np.int64 and shape.ndim == 1 and shape.size > 1 and shape[0] == 1:
            free = np.concatenate([[-1], shape[1:]])
            tensor.CopyFrom(numpy_helper.from_array(free, tensor.name))
    onnx.checker.check_model(model)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3  # it warns of outputs whose shape names one image
    return ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bench_requests", description=__doc__
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="networks of the zoo; those of the page by default"
    )
    parser.add_argument("--backend", choices=("native", "numpy"), default="native")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--repeats", type=int, default=5, help="frames a height of the profile")
    parser.add_argument(
        "--arenas",
        action="store_true",
        help="only in twice the arena, not in what whole layers take",
    )
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    with threadpool_limits(1):
        lines = alexnet(options.backend, options.rounds)
        print("\n".join(lines), flush=True)
        if options.write:
            write_between(PAGE, f"bench-requests-alexnet-{options.backend}", lines)
        found: list[Result] = []
        for name in options.names or NAMES:
            whole = () if options.arenas else WHOLE
            for one in measure(name, options.backend, options.rounds, options.repeats, whole):
                found.append(one)
                print(
                    f"{name} {one.budget} {one.way}: {one.bytes / MIB:.2f} MiB, {1e3 * one.predicted:.2f} ms predicted, "
                    f"{1e3 * one.measured:.2f} measured, search {one.search:.0f} s",
                    flush=True,
                )
    lines = lines_of(found, options.backend)
    print("\n" + "\n".join(lines))
    if options.write:
        write_between(PAGE, f"bench-requests-{options.backend}", lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
