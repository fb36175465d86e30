"""`csdfgen serve`: models over HTTP, whose requests join running batches."""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from csdfgen import __version__
from csdfgen.cli.command import Argument, Command
from csdfgen.cli.options import JsonOption, Loaded
from csdfgen.cli.terminal import escape, mebibytes, say, say_json, show_progress
from csdfgen.errors import InputError
from csdfgen.model.options import DEFAULTS, declare
from csdfgen.model.units import pluralize

if TYPE_CHECKING:
    from csdfgen.serving.repository import Repository


_LIMITS = "Limits"


@dataclass(frozen=True, kw_only=True)
class Serve(Command):
    """Serve models over HTTP by KServe's protocol, version 2: /v2/models/NAME/infer, and /metrics.

    Requests join running batches. SIGTERM stops the server after all accepted requests are answered; SIGHUP reloads a
    folder of models.
    """

    examples = (
        "csdfgen serve model.onnx --deadline 500ms --max-batch 16 --memory 64MiB",
        "csdfgen serve a.onnx b.onnx --name cats --name dogs --port 9000",
        "csdfgen serve models/ --workers 2",
    )

    models: Annotated[
        list[str],
        Argument("MODEL...", "Models (.onnx, .pt2, .prototxt, .tflite, zoo:NAME), or a folder."),
    ]
    name: list[str] | None = declare(
        "Model names, in order; by default the file names; repeatable.", None, "NAME"
    )
    policy: str = declare(
        "serial, window, greedy, lbci-paper, lbci or adaptive; settings follow a colon: window:m=10,delay=50ms.",
        "adaptive", "NAME[:SETTING=VALUE,...]",
    )  # fmt: skip
    deadline: str | None = declare("The default deadline of requests: 500ms.", None, "TIME")
    max_batch: int = declare("The largest batch.", 8, "N", low=1, high=4096)
    in_flight: int | None = declare(
        "Maximum number of images in flight.",
        None,
        "N",
        low=1,
        high=65_536,
        shown="two batches per worker",
    )
    memory: str | None = declare(
        "The memory of all models' arenas and slots together: 64MiB. A refusal reports the smallest that suffices.",
        None, "SIZE",
    )  # fmt: skip
    workers: int = declare(
        "Workers per model, each with its own arena and cores.", 1, "N", low=1, high=256
    )
    threads: int = declare("Threads per worker.", 1, "N", low=1, high=1024)
    stages: int = declare("Maximum number of pipeline stages of a model.", 4, "N", low=1, high=16)
    backend: str = declare("The backend.", "auto", "NAME")
    weights: str = declare(
        "copied: private memory; mapped: memory-mapped packed weights, shared by processes; auto: mapped if the "
        "cache is writable.",
        DEFAULTS.weights, "auto|copied|mapped",
    )  # fmt: skip
    loaded: Loaded
    host: str = declare("The address to listen on.", "127.0.0.1", "HOST")
    port: int = declare(
        "The port to listen on; 0 chooses a free one.", 8000, "N", low=0, high=65_535
    )
    queue: int = declare(
        "The longest queue of images; further requests are answered with status 429.", 1024, "N", _LIMITS,
        low=1, high=1_000_000,
    )  # fmt: skip
    max_body: str = declare("The largest request body.", "64MiB", "SIZE", _LIMITS)
    connections: int = declare(
        "Maximum number of connections; one client may have half of them.", 1024, "N", _LIMITS,
        low=2, high=65_536,
    )  # fmt: skip
    as_json: JsonOption = False

    def run(self) -> None:
        """Serve until a signal comes. Raises CsdfgenError."""
        from csdfgen.model.units import parse_size, parse_time
        from csdfgen.serving.policies import parse_policy
        from csdfgen.serving.repository import Repository, name_models
        from csdfgen.serving.served import serve_models

        wanted = None if self.deadline is None else parse_time(self.deadline, "deadline")
        body = parse_size(self.max_body, "max_body")
        limits = {"body": body, "deadline": wanted, "connections": self.connections}
        parse_policy(self.policy)
        sources, folder = name_models(self.models, self.name or [])
        asked = self.loaded.read()
        if (typed := asked.typed()) and (folder is not None or len(sources) != 1):
            raise InputError(f"{typed[0][0]} is of one model; serve that alone")
        repository = Repository(
            sources, folder, self.memory, self._given(), self._of_engine(),
            {"shapes": dict(asked.shapes), "fix": asked.fixed},
        )  # fmt: skip
        shown, address = partial(self._show, repository), (self.host, self.port)
        serve_models(repository, limits, address, shown, __version__, partial(_start, repository))

    def _given(self) -> dict[str, Any]:
        return {
            "max_batch": self.max_batch, "in_flight": self.in_flight, "workers": self.workers, "stages": self.stages,
            "backend": self.backend, "weights": self.weights,
        }  # fmt: skip

    def _of_engine(self) -> dict[str, Any]:
        return {"policy": self.policy, "threads": self.threads, "queue": self.queue}

    def _show(self, repository: Repository, port: int) -> None:
        address = f"http://{self.host}:{port}/v2"
        if self.as_json:
            say_json({"address": address, "policy": self.policy, "models": _facts(repository)})
            sys.stdout.flush()  # whoever started the server waits for it
            return
        for name, engine in repository.engines.items():
            made = engine.service
            say(
                f"{escape(name)}: {pluralize(len(made.stages), 'stage')}, batches of up to {made.most}, "
                f"{made.in_flight} images "
                f"in flight, {mebibytes(made.total_bytes)} MiB; one image takes {1e3 * engine.times.whole[1]:.3g} ms"
            )
        say(f"{address} by policy {self.policy}; Ctrl-C or SIGTERM ends it")


def _facts(repository: Repository) -> dict[str, Any]:
    """By the name of a model: how it is served."""
    return {
        name: {
            "stages": len(engine.service.stages), "max_batch": engine.service.most, "in_flight": engine.service.in_flight,
            "bytes": engine.service.total_bytes, "image_ms": 1e3 * engine.times.whole[1],
        }
        for name, engine in repository.engines.items()
    }  # fmt: skip


def _start(repository: Repository) -> None:
    """Start the models, and say so; from then on the server speaks for itself."""
    log = logging.getLogger("csdfgen.serving")
    log.addHandler(logging.StreamHandler())
    log.propagate = False  # or the command would say each line again at its end
    with show_progress() as progress:
        repository.start(lambda name: progress(f"planning and measuring {name}"))
