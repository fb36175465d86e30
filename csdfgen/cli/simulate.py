"""`csdfgen simulate`: requests served in virtual time, by the policies of the server."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from csdfgen.cli.command import Argument, Command
from csdfgen.cli.options import JSON, OUTPUT, Asked, check_suffix, is_graph_file
from csdfgen.cli.terminal import mebibytes, reporting, say, say_json, table
from csdfgen.model.options import declare

if TYPE_CHECKING:
    from csdfgen.serving.requests import Request
    from csdfgen.serving.simulate import Simulated
    from csdfgen.serving.times import Times

__all__ = ["Simulate"]


@dataclass(frozen=True, kw_only=True)
class Simulate(Command):
    """Serve requests in virtual time: latencies, refusals and memory of a policy, from measured times of a model's stages.

    Load 1 is what one worker computes image by image.
    """

    examples = (
        "csdfgen simulate model.onnx --policy all --load 0.9 -o times.json",
        "csdfgen simulate times.json --arrivals bursts --images 1-10 --deadline 500ms --json",
        "csdfgen simulate times.json --policy window:m=10,delay=50ms --arrivals requests.csv",
    )

    model: Annotated[
        str, Argument("MODEL|TIMES", "A model, which is measured now, or a table of times (.json).")
    ]
    output: Path | None = declare("The table of times.", None, "FILE.json", names=OUTPUT)
    policy: str = declare(
        "serial, window, greedy, lbci-paper, lbci or adaptive, with settings behind a colon: window:m=10,delay=50ms; "
        "or all.",
        "adaptive", "NAME[:SETTING=VALUE,...]",
    )  # fmt: skip
    arrivals: str = declare(
        "poisson, bursts (of 10), uniform, or a file of lines SECONDS[,IMAGES[,DEADLINE[,PRIORITY]]].",
        "poisson", "KIND|FILE",
    )  # fmt: skip
    load: float = declare(
        "Images that come, as a multiple of load 1.", 0.9, "X", low=0.001, high=1000
    )
    requests: int = declare("Number of requests.", 10_000, "N", low=1, high=10_000_000)
    images: str = declare("Images of a request, uniformly distributed.", "1", "N|N-N")
    deadline: str | None = declare(
        "In which an answer is wanted, from the arrival: 500ms.", None, "TIME"
    )
    max_batch: int | None = declare(
        "Most images of a batch.", None, "N", low=1, high=4096, shown="8, or the table's largest"
    )
    in_flight: int | None = declare(
        "Most images that have begun.", None, "N", low=1, high=65_536,
        shown="two batches a worker",
    )  # fmt: skip
    stages: int = declare("Most stages that a model is cut into.", 4, "N", low=1, high=16)
    workers: int = declare(
        "Workers, each of which runs one stage at a time.", 1, "N", low=1, high=256
    )
    seed: int = declare("Of arrivals and times.", 0, "N", low=0)
    as_json: bool = declare("Print one JSON object instead of the table.", False, names=JSON)

    def run(self) -> None:
        """Simulate one policy or all. Raises CsdfgenError."""
        from csdfgen.serving.policies import POLICIES, policy_of
        from csdfgen.serving.simulate import simulate
        from csdfgen.serving.times import read_times, write_times

        check_suffix(self.output, "a table of times", ".json")
        times = read_times(self.model) if is_graph_file(self.model) else self._measured()
        if self.output is not None:
            write_times(self.output, times)
        names = tuple(POLICIES) if self.policy == "all" else (self.policy,)
        policies = [(name, policy_of(name)) for name in names]
        found: dict[str, Simulated] = {}
        with reporting() as progress:
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
        from csdfgen.cli.models import load_network
        from csdfgen.serving.programs import Programs, measured_times
        from csdfgen.serving.service import MOST_BATCH, plan

        with reporting() as progress:
            progress("planning")
            network = load_network(self.model, Asked())
            service = plan(network, max_batch=self.max_batch or MOST_BATCH, stages=self.stages)
            progress("measuring")
            return measured_times(Programs(service))

    def _requests(self, times: Times) -> list[Request]:
        """New requests, the same ones for every policy. Raises InputError."""
        from csdfgen.model.units import time_of
        from csdfgen.serving.arrivals import KINDS, Traffic, images_of, of_file

        wanted = math.inf if self.deadline is None else time_of(self.deadline, "deadline")
        if self.arrivals not in KINDS and self.arrivals.endswith(".csv"):
            return of_file(self.arrivals, wanted)
        images = images_of(self.images)
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
