"""`csdfgen simulate`: requests served in virtual time, by the policies of the server."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from csdfgen.cli.command import Argument, Command
from csdfgen.cli.options import (
    JSON,
    OUTPUT,
    Loaded,
    check_picture,
    check_suffix,
    is_graph_file,
    refuse_graph,
)
from csdfgen.cli.terminal import mebibytes, say, say_json, show_progress, table
from csdfgen.errors import InputError
from csdfgen.files import write_bytes
from csdfgen.model.options import declare

if TYPE_CHECKING:
    from csdfgen.model.network import Network
    from csdfgen.serving.requests import Request
    from csdfgen.serving.service import Service
    from csdfgen.serving.simulate import Simulated
    from csdfgen.serving.times import Times


@dataclass(frozen=True, kw_only=True)
class Simulate(Command):
    """Serve requests in virtual time: latencies, refusals and memory of a policy, from measured times of a model's stages.

    Load 1 is the capacity of one worker without batching.
    """

    examples = (
        "csdfgen simulate model.onnx --policy all --load 0.9 -o times.json",
        "csdfgen simulate times.json --arrivals bursts --images 1-10 --deadline 500ms --json",
        "csdfgen simulate times.json --policy window:m=10,delay=50ms --arrivals requests.csv",
    )

    model: Annotated[
        str, Argument("MODEL|TIMES", "A model, which is measured now, or a table of times (.json).")
    ]
    output: Path | None = declare("The output table of times.", None, "FILE.json", names=OUTPUT)
    policy: str = declare(
        "serial, window, greedy, lbci-paper, lbci, adaptive or all; settings follow a colon: window:m=10,delay=50ms.",
        "adaptive", "NAME[:SETTING=VALUE,...]",
    )  # fmt: skip
    arrivals: str = declare(
        "poisson, bursts (of 10), uniform, or a file of lines SECONDS[,IMAGES[,DEADLINE[,PRIORITY]]].",
        "poisson", "KIND|FILE",
    )  # fmt: skip
    load: float = declare(
        "The offered load, as a multiple of load 1.", 0.9, "X", low=0.001, high=1000
    )
    requests: int = declare("Number of requests.", 10_000, "N", low=1, high=10_000_000)
    images: str = declare("Images per request, uniformly distributed.", "1", "N|N-N")
    deadline: str | None = declare(
        "The deadline of a request, from its arrival: 500ms.", None, "TIME"
    )
    max_batch: int | None = declare(
        "The largest batch.", None, "N", low=1, high=4096, shown="8, or the table's largest"
    )
    in_flight: int | None = declare(
        "Maximum number of images in flight.", None, "N", low=1, high=65_536,
        shown="two batches per worker",
    )  # fmt: skip
    stages: int = declare("Maximum number of pipeline stages of a model.", 4, "N", low=1, high=16)
    workers: int = declare("Workers; each runs one stage at a time.", 1, "N", low=1, high=256)
    seed: int = declare("Seed of arrivals and times.", 0, "N", low=0)
    memories: str | None = declare(
        "Plan the model within each of these memories, and compare: 2MiB,3MiB,6MiB.",
        None,
        "SIZE,SIZE...",
    )
    svg: Path | None = declare("Draw latency against memory, with --memories.", None, "FILE.svg")
    loaded: Loaded
    as_json: bool = declare("Print one JSON object instead of text.", False, names=JSON)

    def run(self) -> None:
        """Simulate one policy or all. Raises CsdfgenError."""
        from csdfgen.serving.policies import POLICIES, parse_policy
        from csdfgen.serving.simulate import simulate
        from csdfgen.serving.times import read_times, write_times

        check_suffix(self.output, "a table of times", ".json")
        check_picture("--svg", self.svg)
        if self.svg is not None and self.memories is None:
            raise InputError("--svg draws latency against memory; give --memories SIZE,SIZE...")
        if self.memories is not None:
            self._compare(self.memories)
            return
        given = is_graph_file(self.model)
        if given and (typed := self.loaded.read().typed()):
            raise InputError(f"is a table of times; {typed[0][0]} is for models", where=self.model)
        times = read_times(self.model) if given else self._measured()
        if self.output is not None:
            write_times(self.output, times)
        names = tuple(POLICIES) if self.policy == "all" else (self.policy,)
        policies = [(name, parse_policy(name)) for name in names]
        found: dict[str, Simulated] = {}
        with show_progress() as progress:
            for number, (name, policy) in enumerate(policies):
                progress(name, number, len(policies))
                found[name] = simulate(
                    policy, times, self._requests(times), most=self.max_batch or times.most,
                    slots=self.in_flight, workers=self.workers, seed=self.seed,
                )  # fmt: skip
        if self.as_json:
            say_json(self._facts(times, found))
            return
        say(f"{times.model}: load 1 is {times.capacity:.1f} images a second\n", _table(found))

    def _measured(self) -> Times:
        """The times of a model's stages on this machine. Raises CsdfgenError."""
        from csdfgen.serving.programs import Programs, measure_times

        with show_progress() as progress:
            progress("planning")
            service = self._service(self._network(), None)
            progress("measuring")
            return measure_times(Programs(service))

    def _network(self) -> Network:
        from csdfgen.cli.models import load_network

        refuse_graph(self.model, "; memories are of a model")
        return load_network(self.model, self.loaded.read())

    def _service(self, network: Network, memory: int | None) -> Service:
        from csdfgen.serving.service import MOST_BATCH, plan

        return plan(
            network, max_batch=self.max_batch or MOST_BATCH, in_flight=self.in_flight, memory=memory,
            workers=self.workers, stages=self.stages,
        )  # fmt: skip

    def _compare(self, memories: str) -> None:
        """The policy in a model planned for each memory, at one rate: the load of the largest. Raises CsdfgenError."""
        from csdfgen.model.units import parse_size
        from csdfgen.serving.policies import parse_policy
        from csdfgen.serving.programs import Programs, measure_times
        from csdfgen.serving.simulate import simulate

        network = self._network()
        found: list[tuple[Service, Simulated]] = []
        rates: Times | None = None
        with show_progress() as progress:
            for memory in sorted(
                {parse_size(one.strip(), "memories") for one in memories.split(",")}
            )[::-1]:
                progress(f"planning and measuring for {mebibytes(memory)} MiB")
                service = self._service(network, memory)
                times = measure_times(Programs(service))
                rates = rates or times
                served = simulate(
                    parse_policy(self.policy), times, self._requests(rates), most=service.most, slots=service.in_flight,
                    workers=self.workers, seed=self.seed,
                )  # fmt: skip
                found.insert(0, (service, served))
        if self.svg is not None:
            write_bytes(self.svg, _picture(network.name, self.policy, found))
        facts = [
            {
                "memory_bytes": service.total_bytes, "in_flight": service.in_flight, "arena_bytes": service.arena_bytes,
                **served.summary.to_json(),
            }
            for service, served in found
        ]  # fmt: skip
        if self.as_json:
            say_json({"model": network.name, "policy": self.policy, "memories": facts})
            return
        rows = [
            (
                mebibytes(service.total_bytes), mebibytes(service.arena_bytes), service.in_flight,
                *(f"{1e3 * v:.1f}" for v in (served.summary.mean, served.summary.percentiles[99])),
                f"{100 * served.summary.in_time_of_all:.1f} %", f"{served.mean_batch:.2f}",
            )
            for service, served in found
        ]  # fmt: skip
        columns = "MiB", "arena", "in flight", "mean ms", "p99", "in time", "images a batch"
        say(
            f"{network.name}, policy {self.policy}\n",
            table(*(f"> {name}" for name in columns), rows=rows),
        )

    def _requests(self, times: Times) -> list[Request]:
        """New requests, the same ones for every policy. Raises InputError."""
        from csdfgen.model.units import parse_time
        from csdfgen.serving.arrivals import KINDS, Traffic, parse_images, read_arrivals

        wanted = math.inf if self.deadline is None else parse_time(self.deadline, "deadline")
        if self.arrivals not in KINDS and self.arrivals.endswith(".csv"):
            return read_arrivals(self.arrivals, wanted)
        images = parse_images(self.images)
        rate = self.load * times.capacity / (sum(images) / 2)
        return Traffic(self.arrivals, rate, images, wanted).requests(self.requests, self.seed)

    def _facts(self, times: Times, found: dict[str, Simulated]) -> dict[str, Any]:
        return {
            "model": times.model,
            "images_per_second_at_load_1": times.capacity,
            "policies": {
                name: {
                    **one.summary.to_json(), "mean_batch": one.mean_batch, "batches": len(one.batches),
                    "stages": one.stages, "memory_bytes": one.memory, "virtual_seconds": one.seconds,
                    "times_real_time": one.seconds / max(one.elapsed, 1e-9),
                }
                for name, one in found.items()
            },
        }  # fmt: skip


def _picture(name: str, policy: str, found: list[tuple[Service, Simulated]]) -> bytes:
    """Latency against memory."""
    from csdfgen.charts.fronts import Line, Panel, sweep_chart

    lines = []
    for label, at in (("mean", 0), ("99 % of answers", 99)):
        dots = [
            (
                service.total_bytes / 2**20,
                1e3 * (one.summary.percentiles[at] if at else one.summary.mean),
            )
            for service, one in found
        ]
        lines.append(Line(label, tuple(dots)))
    panel = Panel("", tuple(lines), ("memory of arenas and slots, MiB", "latency, ms"))
    return sweep_chart(f"{name}: latency against memory", f"simulated, policy {policy}", [panel])


def _table(found: dict[str, Simulated]) -> Any:
    rows = []
    for name, one in found.items():
        seen = one.summary
        shown = [f"{1e3 * v:.1f}" for v in (seen.mean, *(seen.percentiles[at] for at in (50, 99)))]
        rows.append(
            (
                name, *shown, f"{100 * seen.in_time_of_all:.1f} %", seen.refused, f"{seen.rate:.1f}",
                f"{one.mean_batch:.2f}", mebibytes(one.memory),
            )
        )  # fmt: skip
    columns = ("mean ms", "p50", "p99", "in time", "refused", "answers/s", "images a batch", "MiB")
    return table("policy", *(f"> {name}" for name in columns), rows=rows)
