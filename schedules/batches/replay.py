"""Is a plan of batches correct, and how many bytes does it hold? A simulation of every call and every image.

It shares no code with the planners. A call is charged with every image of the round, at the layer that it waits for or
after the last one, with its own results, and with its workspace. Images of other rounds are outside of the memory.
During the calls of the branches of a layer, the input and the output of the layer are charged, and every image of the
call at its place in the branch. Recurrence (2) of paper 000 charges the same: inputs that wait, results that are kept,
and in + ws + out of the call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from csdfgen.errors import ScheduleError
from schedules.batches.chain import Chain, ChainLayer
from schedules.batches.plans import BatchFiring, ChainPlan


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a layer, also of a branch, on `images` images from `first` on. held: bytes in memory during the call."""

    layer: str
    first: int
    images: int
    held: int
    cost: float


@dataclass(frozen=True, slots=True)
class Replay:
    """All calls of a plan in their order."""

    calls: tuple[Call, ...]

    @property
    def peak(self) -> int:
        """Most bytes that a call holds."""
        return max(call.held for call in self.calls)

    @property
    def cost(self) -> float:
        """Cost of all calls."""
        return sum(call.cost for call in self.calls)


def replay(chain: Chain, plan: ChainPlan) -> Replay:
    """The calls of a plan. Raises ScheduleError if an image skips a layer, passes one twice or does not pass all, and if
    a call is larger than the tables of its layer.
    """
    calls: list[Call] = []
    rest = list(plan.firings)
    start = 0
    for size in plan.rounds:
        if size < 1:
            raise ScheduleError(f"a round of {size} images; at least one is needed")
        mine = []
        while rest and rest[0].first < start + size:
            mine.append(rest.pop(0))
        calls += _run(chain, mine, range(start, start + size), 0)
        start += size
    if rest:
        raise ScheduleError(f"image {rest[0].first} is called for; there are {start}")
    return Replay(tuple(calls))


def _run(
    chain: Chain, firings: Sequence[BatchFiring], images: range, beside: int
) -> Iterator[Call]:
    """The calls until some images have passed all layers. beside: bytes that are held elsewhere."""
    passed = dict.fromkeys(images, 0)
    bytes_at = chain.images
    for one in firings:
        layer = _layer(chain, one, passed)
        held = beside + sum(bytes_at[at] for at in passed.values())
        held += one.images * layer.output_bytes
        mine = range(one.first, one.first + one.images)
        for branch, inner in zip(layer.branches, one.inside, strict=True):
            yield from _run(branch, inner, mine, held)
        workspace, cost = layer.workspace[one.images - 1], layer.costs[one.images - 1]
        yield Call(layer.name, one.first, one.images, held + workspace, cost)
        for image in mine:
            passed[image] += 1
    for image, at in passed.items():
        if at != len(chain):
            raise ScheduleError(f"image {image} has passed {at} of {len(chain)} layers in the end")


def _layer(chain: Chain, one: BatchFiring, passed: Mapping[int, int]) -> ChainLayer:
    """The layer of a call, which is checked. passed: number of layers that each image has passed."""
    if not 0 <= one.layer < len(chain):
        raise ScheduleError(f"layer {one.layer} is called; there are {len(chain)}")
    layer = chain.layers[one.layer]
    if not 1 <= one.images <= layer.most_images:
        raise ScheduleError(
            f"'{layer.name}' is called on {one.images} images; its tables have 1 to {layer.most_images}"
        )
    if len(one.inside) != len(layer.branches):
        raise ScheduleError(
            f"'{layer.name}' has {len(layer.branches)} branches, and calls of {len(one.inside)}"
        )
    for image in range(one.first, one.first + one.images):
        if image not in passed:
            raise ScheduleError(
                f"'{layer.name}' is called on image {image}, which is not one of {min(passed)} to {max(passed)}"
            )
        if passed[image] != one.layer:
            raise ScheduleError(
                f"'{layer.name}' is layer {one.layer}, and is called on image {image}, which has passed {passed[image]}"
            )
    return layer
