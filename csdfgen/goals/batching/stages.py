"""How does a request pass through the stages of a network? In calls of stages on groups of images, which are one order
of firings.

A stage is a sequence of layers. A call computes all of them for some images of the request: in slabs of rows for one
image, in whole layers for several. Between stages, images are stored in whole maps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from types import MappingProxyType

from csdfgen.errors import ScheduleError
from csdfgen.goals.batching.cuts import Ranks
from csdfgen.goals.batching.variants import Variant
from csdfgen.model.by_layer import Asked
from csdfgen.model.describe import shorten_name
from csdfgen.phases.conversion import ActorWork, Conversion
from csdfgen.phases.heights import BatchSpec, RowSpec, parse_rows
from csdfgen.planning.ordering import Order
from csdfgen.planning.planner import Candidate
from csdfgen.planning.prepared import Prepared

POLICY = "batches"
"""Name of these orders in a plan."""


@dataclass(frozen=True, eq=False)
class Stage:
    """Layers [start, stop). one: the variant for one image."""

    start: int
    stop: int
    one: Variant


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a stage (by its number) on images first, first + 1, ... of the request."""

    stage: int
    first: int
    images: int


@dataclass(frozen=True, eq=False)
class StagedRequest:
    """Calls in their order. variants: those of several images, by number; ranks: of the network's actors."""

    images: int
    stages: tuple[Stage, ...]
    calls: tuple[Call, ...]
    variants: Mapping[int, Variant]
    ranks: Ranks

    @property
    def groups(self) -> list[tuple[int, ...]]:
        """Images of each call, by stage."""
        return [
            tuple(call.images for call in self.calls if call.stage == number)
            for number in range(len(self.stages))
        ]

    @property
    def rows(self) -> RowSpec:
        """Heights of every layer and input: those of its stage."""
        found: dict[str, Asked] = {}
        for work in self.ranks.phased.conversion.actors:
            if work.kind != "output":
                name = work.writes[0].tensor.name if work.layer is None else work.name
                spec = parse_rows(self._stage_of(self.ranks.of[work.name]).one.rows)
                found[name] = spec.layers.get(name, spec.general)
        return RowSpec(*_by_most(found))

    @property
    def batches(self) -> BatchSpec:
        """Images of every layer's phases: those of its stage."""
        layers = self.ranks.phased.conversion.network.layers
        found: dict[str, Asked] = {}
        for stage, groups in zip(self.stages, self.groups, strict=True):
            even = len(set(groups[:-1])) <= 1 and groups[-1] <= groups[0]
            asked: Asked = groups[0] if even else groups
            found.update({layer.name: asked for layer in layers[stage.start : stage.stop]})
        return BatchSpec(*_by_most(found))

    def _stage_of(self, rank: int) -> Stage:
        return next(one for one in self.stages if one.start <= rank < one.stop)

    @property
    def description(self) -> str:
        """Stages by their first layers, and the images of their calls."""
        layers = self.ranks.phased.conversion.network.layers
        each = []
        for stage, groups in zip(self.stages, self.groups, strict=True):
            runs = [(size, len(list(same))) for size, same in groupby(groups)]
            text = "+".join(f"{count}x{size}" if count > 1 else str(size) for size, count in runs)
            images = "image" if text == "1" else "images"
            each.append(f"{text} {images} from '{shorten_name(layers[stage.start].name)}' on")
        return ", ".join(each)

    @property
    def text(self) -> str:
        """A key that is equal for equal requests only."""
        calls = ((call.stage, call.first, call.images) for call in self.calls)
        return f"{self.rows} {self.batches} {list(calls)}"

    def order(self, conversion: Conversion) -> Order:
        """All firings of the request in a network that is cut like that. Phases of inputs fire just before the firing
        that needs them, and the phases of each actor fire in order.
        """
        phases: dict[str, int] = defaultdict(int)
        inputs = {
            work.writes[0].tensor.name: work for work in conversion.actors if work.kind == "input"
        }
        found: list[tuple[str, int]] = []

        def fire(actor: str) -> None:
            found.append((actor, phases[actor]))
            phases[actor] += 1

        for call in self.calls:
            stage = self.stages[call.stage]
            variant = stage.one if call.images == 1 else self.variants[call.images]
            for actor, _ in variant.order:
                work = conversion.actor[actor]
                if work.kind == "input" or not stage.start <= self.ranks.of[actor] < stage.stop:
                    continue
                for read in work.reads:
                    source = inputs.get(read.tensor.name)
                    while (
                        source is not None
                        and _complete(source, phases[source.name]) < read.need[phases[actor]]
                    ):
                        fire(source.name)
                fire(actor)
        for source in inputs.values():  # rows that no layer reads
            while phases[source.name] < len(source.phases):
                fire(source.name)
        return tuple(found)


def _complete(work: ActorWork, phases: int) -> int:
    """Rows that are complete after so many phases."""
    return work.writes[0].complete[phases - 1] if phases else 0


def order_request(prepared: Prepared, staged: StagedRequest) -> Candidate:
    """The order of these calls, from which a plan can be made. prepared: the network with the request as its batch.
    Raises ScheduleError for calls before the stage in front has computed their images.
    """
    _check(staged)
    asked = replace(
        prepared.options,
        rows=str(staged.rows),
        batches=str(staged.batches),
        frames=staged.images,
        policy=POLICY,
    )
    phased = prepared.for_images(staged.images).phased(asked)
    return Candidate(phased, POLICY, staged.order(phased.conversion))


def _check(staged: StagedRequest) -> None:
    """Every stage computes all images in order, each after the stage in front."""
    passed = [staged.images, *(0 for _ in staged.stages)]
    for call in staged.calls:
        at = passed[call.stage + 1]
        if call.first != at or at + call.images > passed[call.stage]:
            raise ScheduleError(
                f"stage {call.stage + 1} is called on images {call.first} to {call.first + call.images - 1}; "
                f"{at} have passed it, {passed[call.stage]} the one before"
            )
        passed[call.stage + 1] += call.images
    if passed[-1] != staged.images:
        raise ScheduleError(f"{passed[-1]} of {staged.images} images have passed all stages")


def _by_most(asked: Mapping[str, Asked]) -> tuple[int | str, Mapping[str, Asked]]:
    """The value of most layers, and those of the others."""
    values = [value for value in asked.values() if not isinstance(value, tuple)]
    general = max(values, key=values.count, default=1)
    others = {name: value for name, value in asked.items() if value != general}
    return general, MappingProxyType(others)


def make_stages(cuts: Sequence[int], count: int, one: Sequence[Variant]) -> tuple[Stage, ...]:
    """Stages between cuts of `count` layers; one: their variants for one image."""
    ends = (0, *cuts, count)
    return tuple(
        Stage(start, stop, variant)
        for (start, stop), variant in zip(pairwise(ends), one, strict=True)
    )
