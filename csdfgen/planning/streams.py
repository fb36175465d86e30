"""How is a network planned once for images of any height, and of none? By an order that repeats.

    stream = csdfgen.plan_stream("model.onnx", shapes=(1, 3, 480, 640))
    stream.at(10_000)            # the plan of an image of so many rows, in the same arena

The order is found in an image that is just tall enough, and so are the offsets of rows. An image of any other height
has the firings of the order that exist, at the same offsets, without a search; the checker of all plans checks each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from csdfgen.errors import CsdfgenError, PlanError, ScheduleError
from csdfgen.model.network import Network
from csdfgen.model.options import DEFAULTS, PlanOptions
from csdfgen.ops.base import LEAST
from csdfgen.phases.streaming import FIXED_HEIGHT, find_stream_obstacle, widen_for_streams
from csdfgen.planning.plan import Plan
from csdfgen.planning.planner import pause_collection, plan_repeated
from csdfgen.planning.prepared import Phased, Prepared, prepare
from csdfgen.planning.repeating import CAP, Loop, find_loop, harmonize_heights
from csdfgen.program.steps import Backend

_LOWEST, _TALLEST = 8 * CAP, 256 * CAP
"""Heights of the images in which the order is looked for, each twice the one before."""

AtHeight = Callable[[int], Network]
"""The network for images of so many rows of its first input."""


@dataclass(frozen=True, eq=False)
class StreamPlan:
    """A plan of images of any height in one arena.

    network: of the image in which the order was found. options: with the rows that each layer computes in a phase. period:
    rows of the first input in a period. turn: rows of it after which firings have the same offsets again: a multiple of
    the period. first: rows of it after which no firing reaches rows in front of the image, or places that they would have:
    where turns begin to repeat. least: rows of the lowest image in which a whole turn follows, before any firing reaches
    rows behind the image.
    """

    network: Network
    options: PlanOptions
    loop: Loop
    period: int
    turn: int
    first: int
    least: int
    _at_height: AtHeight = field(repr=False)
    _kernels: Backend = field(repr=False)

    @property
    def planned_bytes(self) -> int:
        """Bytes of the arena, whatever the height."""
        return self.loop.arena

    def at(self, rows: int) -> Plan:
        """The checked plan of an image of so many rows. Raises ModelError or InputError for a height that the network does
        not take.
        """
        with pause_collection():
            prepared = prepare(self._at_height(rows), self.options, self._kernels)
            return plan_repeated(_phased(prepared, self.options), self.loop)

    def template(self, rows: int) -> tuple[int, int]:
        """(rows of a lower image, turns) with the same firings as an image of `rows` rows, but for so many turns less in its
        middle; the same image if it is low itself.
        """
        turns = max(0, (rows - self.least) // self.turn)
        return rows - turns * self.turn, turns


def find_stream(at_height: AtHeight, options: PlanOptions, kernels: Backend) -> StreamPlan:
    """The plan of images of any height of a network. Raises PlanError if a layer keeps it from streaming, or no order repeats."""

    def at(rows: int) -> Network:
        return widen_for_streams(at_height(rows))

    height = _LOWEST
    while True:
        try:
            network, taller = at(height), at(2 * height)
            obstacle = find_stream_obstacle(network, taller)
            if obstacle is None:
                return _found(network, options, kernels, at)
            break
        except (ScheduleError, PlanError) as error:
            if height >= _TALLEST:
                raise PlanError(f"no stream: {error.message}; {FIXED_HEIGHT}") from error
        except CsdfgenError:
            if height >= _TALLEST:
                raise
        height *= 2
    raise PlanError(str(obstacle))


def _found(
    network: Network, options: PlanOptions, kernels: Backend, at_height: AtHeight
) -> StreamPlan:
    with pause_collection():
        prepared = prepare(network, options, kernels)
        if options.rows == DEFAULTS.rows:
            options = replace(options, rows=harmonize_heights(prepared.at("1").conversion))
        phased = _phased(prepared, options)
        loop = find_loop(phased)
    period, height = loop.rows, network.inputs[0].rows
    least = height - (loop.interior(phased.conversion) - loop.turn - 2) * period
    rows = period, loop.turn * period, loop.first, least
    return StreamPlan(network, options, loop, *rows, at_height, kernels)


def _phased(prepared: Prepared, options: PlanOptions) -> Phased:
    """The network cut into phases, with scratch that does not depend on the height."""
    phased = prepared.phased(options)
    if phased.terms.scratch is not None:
        return phased
    return replace(phased, terms=replace(phased.terms, scratch=LEAST))
