"""How is a plan wanted? All options of planning as one value: defaults once, written and digested once.

A plan file has them whole, a graph file those that cut the network into phases. Both are refused
for a network that these options cut otherwise (`phases.provenance`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType

from csdfgen.errors import InputError, option
from csdfgen.files import Fields

__all__ = ["CHOICES", "CONVERSION", "DEFAULTS", "PlanOptions"]

CHOICES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "fuse": ("none", "fold", "full"),
        "image": ("streamed", "resident"),
        "policy": ("demand", "eager", "layers", "bounded", "best"),
    }
)
"""Option -> the words that it takes."""

CONVERSION = ("rows", "fuse", "image")
"""Options that say how a network is cut into phases; the others choose among plans of that."""


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """rows: rows a phase, as text (see `phases.heights`). fuse: how far layers are joined (see
    `rewriting.fuse`) and tensors share buffers (see `planning.sharing`, "full" alone).
    image: "streamed" (input rows arrive as they are needed) or "resident" (all are there from the
    start, and count). policy: the order of firings, "best" for the one with the smallest arena.
    frames: images that one order of firings covers; a batch repeats the order. tiles: regions of
    layers that are computed a few columns at a time (see `rewriting.tiles`), none by default.

    Raises InputError for values that do not exist.

    >>> str(PlanOptions(rows="1").digest)
    '4fd4b6d2'
    """

    rows: str = "auto"
    fuse: str = "full"
    image: str = "streamed"
    policy: str = "best"
    frames: int = 1
    tiles: str = ""

    def __post_init__(self) -> None:
        for name, words in CHOICES.items():
            value = getattr(self, name)
            if value not in words:
                raise InputError(f"{option(name, value)}: not one of {', '.join(words)}")
        if type(self.frames) is not int or self.frames < 1:
            raise InputError(
                f"{option('frames', self.frames)}: a number of images above 0 is needed"
            )

    def to_json(self) -> dict[str, str | int]:
        """The options as JSON values; tiles only where there are some."""
        values: dict[str, str | int] = asdict(self)
        return values if self.tiles else {k: v for k, v in values.items() if k != "tiles"}

    @classmethod
    def from_fields(cls, fields: Fields) -> PlanOptions:
        """The options in a JSON object. Raises the error of `fields`, or InputError."""
        texts = {name: fields.text(name) for name in CONVERSION}
        policy = fields.text("policy", DEFAULTS.policy)
        frames = fields.integer("frames", low=1, default=1)
        return cls(**texts, policy=policy, frames=frames, tiles=fields.text("tiles", ""))

    @property
    def digest(self) -> str:
        """8 hexadecimal digits of all options."""
        text = json.dumps(self.to_json(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:8]


DEFAULTS = PlanOptions()
