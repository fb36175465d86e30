"""How is a plan wanted? All options of planning as one value: defaults once, written and digested once.

A plan file has them whole, a graph file those that cut the network into phases. Both are refused
for a network that these options cut otherwise (`phases.provenance`).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

from csdfgen.errors import InputError, option
from csdfgen.files import Fields, quoted
from csdfgen.model.units import energy_of, size_of, time_of

__all__ = ["CHOICES", "CONVERSION", "DEFAULTS", "WISHES", "PlanOptions", "effort_of", "factor_of"]

CHOICES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "fuse": ("none", "fold", "full"),
        "image": ("streamed", "resident"),
        "policy": ("demand", "eager", "layers", "bounded", "best", "overlap", "batches"),
        "goal": ("balanced", "memory", "speed"),
        "pack": ("fast", "exact"),
        "result": ("auto", "stored", "arena", "streamed"),
        "backend": ("numpy", "native"),
        "batching": ("", "fbs", "greedy", "vbs-paper", "vbs", "joint"),
    }
)
"""Option -> the words that it takes."""

CONVERSION = ("rows", "fuse", "image")
"""Options that say how a network is cut into phases; the others choose among plans of that."""

WISHES = (
    "goal", "memory", "latency", "energy", "device", "effort", "recompute", "pack", "result", "tiles",
    "fast", "slow", "backend", "exact", "fallback", "tuning", "ways", "batches", "batching",
)  # fmt: skip
"""Options that say what a plan is to be good for. A file has those that are not the default, so that
files and graphs made without them stay as they were.
"""

EFFORTS = ("low", "normal", "high")
"""How long a search may take, in words; or a number of seconds."""

_MOST_SECONDS = 30 * 86_400
_MOST_RECOMPUTED = 1000.0


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """rows: rows a phase, as text (see `phases.heights`). fuse: how far layers are joined (see
    `rewriting.fuse`) and tensors share buffers (see `planning.sharing`, "full" alone).
    image: "streamed" (input rows arrive as they are needed) or "resident" (all are there from the
    start, and count). policy: the order of firings, "best" for the one of least peak that is found,
    "overlap" for that of one image, after which the next one enters as soon as it can
    (`planning.overlapping`), "batches" for groups of images that pass through parts of the network.
    frames: images that one order of firings covers; a batch repeats the order.
    goal: "balanced", "memory" or "speed": what heights are chosen for (see `goals.choice`). memory:
    bytes that the plan may take, 0 for any number; latency: seconds that a frame may take on
    `device`, 0 for any; energy: J that all images of a request may take there, 0 for any; device: a
    profile's name or file, "" for the default.
    effort: "low", "normal", "high" or seconds ("30s"). recompute: at most so many times the
    multiply-accumulates. pack: "fast" or "exact". result: "stored" (outputs are arrays of the caller),
    "arena" (they lie in the arena until the next frame), "streamed" (their rows are handed on), or
    "auto" until it is settled which (`goals.results`).
    tiles: regions of layers that are computed a few columns at a time (see `rewriting.tiles`), none
    by default. fast, slow: bytes of a fast and of a slow memory that the plan is shared out to, 0 for
    one memory. backend: "numpy" or "native", whose kernels' workspace is planned; who runs the plan by
    other kernels may find that they need more. exact: no Winograd form of convolutions, which rounds
    otherwise. fallback: what native code lacks is computed by numpy, instead of refused. tuning: a file
    of measured variants (`csdfgen.tuning`), by which times are predicted where no device is named;
    ways: the variants of kernels that were taken from it (`native.ways`), as text, "" for those that
    are estimated. batches: whole images that layers work on in a phase, as text (`phases.batches`), ""
    for one; batching: how they were chosen, "" if they were given.

    Raises InputError for values that do not exist.

    >>> str(PlanOptions(rows="1").digest)
    'e62adaf4'
    """

    rows: str = "auto"
    fuse: str = "full"
    image: str = "streamed"
    policy: str = "best"
    frames: int = 1
    goal: str = "balanced"
    memory: int = 0
    latency: float = 0.0
    device: str = ""
    effort: str = "low"
    recompute: float = 1.0
    pack: str = "fast"
    result: str = "stored"
    tiles: str = ""
    fast: int = 0
    slow: int = 0
    backend: str = "numpy"
    exact: bool = False
    fallback: bool = False
    tuning: str = ""
    ways: str = ""
    batches: str = ""
    batching: str = ""
    energy: float = 0.0

    def __post_init__(self) -> None:
        for name, words in CHOICES.items():
            value = getattr(self, name)
            if value not in words:
                raise InputError(
                    f"{option(name, value)}: not one of {', '.join(filter(None, words))}"
                )
        if type(self.frames) is not int or self.frames < 1:
            raise InputError(
                f"{option('frames', self.frames)}: a number of images above 0 is needed"
            )
        # what is given as people type it is kept as one form: equal wishes are equal options
        keep = object.__setattr__
        keep(self, "memory", self.memory if self.memory == 0 else size_of(self.memory, "memory"))
        for name in ("fast", "slow"):
            value = getattr(self, name)
            keep(self, name, value if value == 0 else size_of(value, name))
        if self.fast or self.slow:
            self._check_memories()
        keep(self, "latency", time_of(self.latency, "latency") if self.latency != 0 else 0.0)
        keep(self, "energy", energy_of(self.energy) if self.energy != 0 else 0.0)
        keep(self, "effort", effort_of(self.effort))
        keep(self, "recompute", factor_of(self.recompute))
        if not isinstance(self.device, str):
            raise InputError(f"{option('device', self.device)}: the name of a profile is needed")

    def _check_memories(self) -> None:
        """Raises InputError for one memory of two, and for a fast one that is the larger."""
        if not (self.fast and self.slow):
            there, other = ("fast", "slow") if self.fast else ("slow", "fast")
            raise InputError(
                f"{option(there)} of {getattr(self, there):,} bytes is one of two memories; give {option(other)} too"
            )
        if self.fast > self.slow:
            raise InputError(
                f"the fast memory has {self.fast:,} bytes, more than the slow one with {self.slow:,}; "
                f"exchange {option('fast')} and {option('slow')}"
            )

    @property
    def seconds(self) -> float | None:
        """Seconds that a search may take, None where the effort is a word."""
        return None if self.effort in EFFORTS else float(self.effort.removesuffix("s"))

    @property
    def search_effort(self) -> str | float:
        """The effort as searches take it: a word, or seconds."""
        return self.effort if self.seconds is None else self.seconds

    def to_json(self) -> dict[str, Any]:
        """The options as JSON values; of `WISHES` those that are not the default."""
        values = asdict(self)
        return {
            name: value
            for name, value in values.items()
            if name not in WISHES or value != _default(name)
        }

    @classmethod
    def from_fields(cls, fields: Fields) -> PlanOptions:
        """The options in a JSON object. Raises the error of `fields`, or InputError."""
        texts = {name: fields.text(name) for name in CONVERSION}
        for name in (
            "policy",
            "goal",
            "device",
            "effort",
            "pack",
            "result",
            "tiles",
            "backend",
            "tuning",
            "ways",
            "batches",
            "batching",
        ):
            texts[name] = fields.text(name, _default(name))
        return cls(
            **texts,
            frames=fields.integer("frames", low=1, default=1),
            memory=fields.integer("memory", default=0),
            fast=fields.integer("fast", default=0),
            slow=fields.integer("slow", default=0),
            latency=_number(fields, "latency"),
            energy=_number(fields, "energy"),
            recompute=_number(fields, "recompute"),
            exact="exact" in fields and fields.flag("exact"),
            fallback="fallback" in fields and fields.flag("fallback"),
        )

    @property
    def digest(self) -> str:
        """8 hexadecimal digits of all options."""
        text = json.dumps(self.to_json(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:8]


def _default(name: str) -> Any:
    return PlanOptions.__dataclass_fields__[name].default


def _number(fields: Fields, name: str) -> float:
    value = fields.value.get(name, _default(name))
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
        raise fields.fault(f"'{name}' is {quoted(value)}; a number from 0 on is needed")
    return float(value) if value <= _MOST_SECONDS else math.inf


def effort_of(value: object) -> str:
    """How long a search may take, in one form.

    >>> effort_of("low"), effort_of(30), effort_of("2.5s"), effort_of("500ms")
    ('low', '30s', '2.5s', '0.5s')
    """
    if value in EFFORTS:
        return str(value)
    try:
        seconds = time_of(value, "effort")
    except InputError:
        seconds = math.inf
    if seconds > _MOST_SECONDS:
        shown = option("effort", value if isinstance(value, (str, float)) else quoted(value))
        raise InputError(
            f"{shown}: one of {', '.join(EFFORTS)}, or seconds above 0 such as 30s, is needed"
        )
    return f"{seconds:g}s"


def factor_of(value: object) -> float:
    """How many times the multiply-accumulates may be done: a number from 1 on, or its text.

    >>> factor_of(1), factor_of("1.25")
    (1.0, 1.25)
    """
    try:
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise ValueError
        factor = float(value) if not isinstance(value, int) or value < 2**53 else math.inf
    except ValueError:
        factor = math.nan
    if not 1 <= factor <= _MOST_RECOMPUTED:
        shown = option("recompute", value if isinstance(value, (str, float)) else quoted(value))
        raise InputError(
            f"{shown}: a factor from 1 (nothing is computed twice) to {_MOST_RECOMPUTED:g} is needed"
        )
    return factor


DEFAULTS = PlanOptions()
