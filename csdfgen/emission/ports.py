"""How do rows come from the caller's arrays into the arena, and back? One by one, by sides.

A side is a network input as one actor takes it, or a network output: for each of its rows where that
lies in the arena, in one piece or several. A program's order is a list of tasks: the kernels of a
firing, or some rows of a side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from csdfgen.emission.macros import ARENA, LITERAL, NUMBER, Token
from csdfgen.emission.tables import Pool, Tables
from csdfgen.lowering.program import Delivery, Feed, Program
from csdfgen.model.network import Network, Tensor
from csdfgen.program.steps import View

__all__ = ["Port", "Side", "Sides", "Task", "ports_of", "side_tables"]


@dataclass(frozen=True, slots=True)
class Port:
    """An input or an output: number, tensor, its name in ONNX and in C."""

    number: int
    tensor: Tensor
    name: str
    word: str
    output: bool

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from an element to the next along each axis of the tensor as it is stored, row axis
        first, in an array in ONNX order.
        """
        return _strides(self.tensor, self.tensor.shape)

    @property
    def row_strides(self) -> tuple[int, ...]:
        """The same in an array of one row."""
        k = self.tensor.row_axis
        shape = [1 if axis == k else size for axis, size in enumerate(self.tensor.shape)]
        return _strides(self.tensor, shape)


def _strides(tensor: Tensor, shape: Sequence[int]) -> tuple[int, ...]:
    steps, step = [], tensor.itemsize
    for size in reversed(shape):
        steps.append(step)
        step *= size
    steps.reverse()
    inner = tuple(steps[axis] for axis in tensor.order)
    return inner if tensor.row_axis is not None else (step, *inner)


def ports_of(network: Network, words: Mapping[str, str]) -> list[Port]:
    """Inputs, then outputs that layers compute; words: names in C, of inputs behind `in:`, of outputs
    behind `out:`.
    """
    inputs = [(tensor, tensor.name, f"in:{tensor.name}", False) for tensor in network.inputs]
    outputs = [
        (one.tensor, one.name, f"out:{one.name}", True)
        for one in network.outputs
        if one.tensor is not None
    ]
    return [
        Port(number, tensor, name, words[key], output)
        for number, (tensor, name, key, output) in enumerate((*inputs, *outputs))
    ]


@dataclass(slots=True)
class Side:
    """What of a port's rows lies where. image: of those of an iteration. parts: of each piece of a
    row the view that tells its form, and its first element along the axes behind the rows. rows: row
    of the tensor -> where each piece lies.
    """

    port: Port
    image: int
    parts: tuple[tuple[View, tuple[int, ...]], ...]
    rows: dict[int, tuple[int, ...]] = field(default_factory=dict)

    @property
    def first(self) -> int:
        """The lowest row."""
        return min(self.rows)


@dataclass(frozen=True, slots=True)
class Task:
    """Rows [first, first + count) of a side; with side -1 so many records from the first on."""

    side: int
    first: int
    count: int


class Sides:
    """The sides of a program, and which rows each firing takes or hands on."""

    def __init__(self, program: Program, ports: Sequence[Port], actors: Sequence[str]) -> None:
        self._inputs = {port.name: port for port in ports if not port.output}
        self._outputs = {port.name: port for port in ports if port.output}
        self._actors = actors
        self._known: dict[tuple[object, ...], int] = {}
        self.all: list[Side] = []
        self.takes = [[self._fed(one)] if isinstance(one, Feed) else [] for one in program.firings]
        self.gives = [[self._delivered(one) for one in some] for some in program.deliveries]

    def _fed(self, feed: Feed) -> Task:
        starts = tuple(part.start for part in feed.part) or (0,) * len(feed.target.shape)
        key = feed.tensor.name, self._actors[feed.firing]
        return self._task(
            key, self._inputs[feed.tensor.name], feed.image, feed.target, starts, feed.rows.start
        )

    def _delivered(self, one: Delivery) -> Task:
        starts = (0,) * len(one.tensor.row_shape)
        port = self._outputs[one.output]
        return self._task((one.output,), port, one.image, one.source, starts, one.rows.start)

    def _task(
        self,
        key: tuple[object, ...],
        port: Port,
        image: int,
        view: View,
        starts: tuple[int, ...],
        first: int,
    ) -> Task:
        parts = []
        for piece in view.pieces or (view,):
            parts.append((piece, starts))
            if view.pieces:
                at, size = view.along, piece.shape[view.along]
                starts = (*starts[:at], starts[at] + size, *starts[at + 1 :])
        form = tuple((one.shape, one.strides, begin) for one, begin in parts)
        number = self._known.setdefault((*key, image, form), len(self.all))
        if number == len(self.all):
            self.all.append(Side(port, image, tuple(parts)))
        side = self.all[number]
        for at in range(view.count):
            side.rows[first + at] = tuple(one.rows[at] for one, _ in parts)
        return Task(number, first, view.count)

    @property
    def streamed(self) -> str:
        """Why rows of inputs cannot be pushed one by one; "" if they can."""
        if any(side.image for side in self.all):
            return "several images are in flight at a time"
        if not self._inputs:
            return "the network has no inputs"
        rows: dict[str, list[int]] = {name: [] for name in self._inputs}
        whole = True
        for task in (task for tasks in self.takes for task in tasks):
            side = self.all[task.side]
            rows[side.port.name] += range(task.first, task.first + task.count)
            whole &= side.parts[0][0].shape == side.port.tensor.row_shape
        if not whole or any(
            rows[name] != list(range(port.tensor.rows)) for name, port in self._inputs.items()
        ):
            return "the plan takes rows of an input in parts, or more than once"
        return ""


def side_tables(sides: Sequence[Side], tables: Tables, images: int) -> None:
    """Put the sides into the tables: pools `parts` and `sides`. images: of an iteration, each with an
    array of its own of every port.
    """
    forms = tables.pool("part", "{{NULL, %s, %s, %s, %s, %s, %s, NULL}, %s}")
    table = tables.pool("side", "{%s, %s, %s, %s}")
    dims = tables.pool("csdf_dim", "{%s, %s, %s, %s, %s}")
    numbers = tables.pool("int32_t", name="numbers")
    places = tables.pool("void *const", name="places")
    for side in sides:
        rows = range(side.first, max(side.rows) + 1)
        found: list[tuple[Token, ...]] = []
        for number, (view, starts) in enumerate(side.parts):
            axes = sorted(
                (axis for axis, size in enumerate(view.shape) if size > 1),
                key=lambda axis: view.shape[axis],
            )
            sizes = [(view.shape[axis], view.strides[axis], 0, 0, 0) for axis in axes]
            begins = (0, *starts)
            found.append(
                (
                    _ints(dims, sizes),
                    _ints(numbers, [(1 + axis,) for axis in axes]),
                    _ints(numbers, [(begin,) for begin in begins]),
                    (NUMBER, len(axes)),
                    (NUMBER, len(begins)),
                    (NUMBER, int(side.port.output)),
                    (
                        places.name,
                        places.add(
                            [
                                ((ARENA, side.rows[row][number]),)
                                if row in side.rows
                                else ((LITERAL, "NULL"),)
                                for row in rows
                            ]
                        ),
                    ),
                )
            )
        table.rows.append(
            (
                (NUMBER, side.port.number * images + side.image),
                (NUMBER, side.first),
                (NUMBER, len(found)),
                (forms.name, forms.add(found)),
            )
        )


def _ints(pool: Pool, rows: Sequence[Sequence[int]]) -> Token:
    """Where a table of numbers stands."""
    if not rows:
        return LITERAL, "NULL"
    return pool.name, pool.add([tuple((NUMBER, value) for value in row) for row in rows])
