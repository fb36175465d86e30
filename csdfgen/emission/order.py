"""In which order does emitted C work? A program as kernels' firings, and tasks that move rows between arrays and arena.

The order of a frame is a list of numbers, because equal firings are stored once: first all firings have one, then all tasks.
Rows of an input or output are moved one by one: a side lists, for each row that an actor takes or that an output gets, the
place of the row in the arena, in one piece or several.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from functools import cached_property
from itertools import chain, repeat
from math import prod

import numpy as np

from csdfgen.backends.native.strided import place_function
from csdfgen.backends.native.structures import type_size
from csdfgen.emission.macros import LITERAL, NUMBER, Token
from csdfgen.emission.tables import Blob, Pool, Tables, list_places
from csdfgen.errors import PlanError
from csdfgen.lowering.program import Alike, Condition, Delivery, Feed, Program, lower
from csdfgen.lowering.segments import Segments, find_repeats
from csdfgen.model.network import Network, Tensor
from csdfgen.planning import buffers
from csdfgen.planning.plan import Plan
from csdfgen.program.instructions import CALLED, PADDING, Array, Constants, Ref
from csdfgen.program.steps import Backend, Step, View

SMALL = 4
"""Bytes of a pointer of a microcontroller."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An input or output that the emitted function has an array for. word: its name in C; name: in the network."""

    number: int
    tensor: Tensor
    name: str
    word: str
    output: bool

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from an element to the next in an array in ONNX order, by axis in storage order, rows first."""
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


def list_arguments(network: Network, words: Sequence[str]) -> list[Argument]:
    """Inputs, then the outputs that layers compute. words: names in C of all inputs, then of all outputs."""
    ends: list[tuple[Tensor | None, str, bool]]
    ends = [(one, one.name, False) for one in network.inputs]
    ends += [(one.tensor, one.name, True) for one in network.outputs]
    named = [
        (tensor, name, word, output)
        for (tensor, name, output), word in zip(ends, words, strict=True)
        if tensor is not None
    ]
    return [Argument(number, *one) for number, one in enumerate(named)]


@dataclass(frozen=True, eq=False)
class Lowered:
    """A plan and its program. outputs: those that no layer computes, and their places among the program's constants. functions:
    those of the user, with the arrays that they take and the one that they make.
    """

    plan: Plan
    program: Program
    outputs: Mapping[str, tuple[np.ndarray, Ref]]
    functions: Mapping[str, tuple[Array, ...]] = field(default_factory=dict)


def lower_plans(
    plans: Sequence[Plan],
    kernels: Backend,
    starts: Iterable[int] = repeat(0),
    alike: Alike | None = None,
    constants: Constants | None = None,
) -> list[Lowered]:
    """Plans as programs that share their constants, with others too if these are given. starts, alike: see `lower`. Raises what
    lowering raises; PlanError for a step without a native kernel.
    """
    sizes = {buffers.ARENA: max(plan.pools[buffers.ARENA] for plan in plans)}
    constants = constants or Constants(sizes)
    found = []
    for plan, start in zip(plans, starts, strict=False):
        program = lower(plan, kernels, constants, alike, start)
        for number, code in enumerate(program.code):
            for one in (program.instructions[k] for k in code):
                if one.kernel != CALLED and any(isinstance(f, Array) for f in one.fields):
                    raise PlanError(f"firing {number} has a step without native kernel")
        outputs = {
            output.name: (dense, constants.array(dense))
            for output in plan.network.outputs
            if output.constant is not None
            for dense in [np.ascontiguousarray(output.constant)]
        }
        found.append(_with_functions(Lowered(plan, program, outputs)))
    return found


def _with_functions(made: Lowered) -> Lowered:
    """The program with kernels that call functions of the user. Raises PlanError."""
    called = [one for one in made.program.instructions if one.kernel == CALLED]
    functions: dict[str, tuple[Array, ...]] = {}
    for name, *arrays in (one.fields for one in called):
        if functions.setdefault(name, tuple(arrays)) != tuple(arrays):
            raise PlanError(
                f"function '{name}' is called with arrays of several shapes; give each a name of its own"
            )
    placed = tuple(
        place_function(one) if one.kernel == CALLED else one for one in made.program.instructions
    )
    program = replace(made.program, instructions=placed) if called else made.program
    return replace(made, program=program, functions=functions)


@dataclass(slots=True)
class Side:
    """The places of rows of an argument in the arena.

    image: index of the image in its iteration. parts: for each piece of a row the view with its shape and strides, and
    its first element along the axes after the rows. rows: row of the tensor -> offset of each piece.
    """

    argument: Argument
    image: int
    parts: tuple[tuple[View, tuple[int, ...]], ...]
    rows: dict[int, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Task:
    """Rows [first, first + count) of a side; with side -1 a condition, the byte of the arena at `first`: unless it is the
    lowest bit of `count`, as many entries of the order as the other bits say are left out.
    """

    side: int
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class KernelFiring:
    """A call, and the first of its places, by their numbers in the tables."""

    call: int
    first: int


Entry = Task | KernelFiring


Place = tuple[str, str, int]
"""The name of a layer, a kernel, and how many instructions of its firing are from it to the last."""


@dataclass(frozen=True, slots=True)
class Templates:
    """Images by which a stream is emitted: after `turn` rows of the first input firings repeat, from row `first` on in the image
    of the main program, which has two turns behind it. held: rows of it that wait for the end. endings: by rows of a stream
    that ends there, each multiple of `ends` that the network takes, the program of an image that ends in the same way.
    counted: in the last firings of layers the slots with numbers of all rows, and what computes them in C.
    """

    first: int
    turn: int
    ends: int
    held: int
    endings: Mapping[int, Lowered]
    counted: Mapping[Place, Mapping[int, str]]


@dataclass(frozen=True, slots=True)
class Ending:
    """Pieces [first, stop), which end a stream of `rows` rows at the place `at` of its loop in turn `turns`, or in a later one
    that has no ending of its own. own: entry of the order at which its own begin. held: how many rows of each input wait then.
    """

    at: int
    turns: int
    own: int
    first: int
    stop: int
    rows: int
    held: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """Entries [start, stop) of the order, which repeat. turn: by number of an argument the rows of it that are moved then. more:
    how often a frame repeats them; or of a stream ends: rows of the first input, behind a multiple of which it may end, if the
    network takes so many; pieces: of endings, how many entries of the loop are left out, are executed, and then how many of
    its own; held: by number of an input, most rows of it that wait for the end; counted: whether numbers depend on how many
    rows there were.
    """

    start: int
    stop: int
    turn: Sequence[int]
    more: int = 0
    ends: int = 0
    endings: tuple[Ending, ...] = ()
    pieces: tuple[tuple[int, int, int], ...] = ()
    held: tuple[int, ...] = ()
    counted: bool = False


class ProgramTables:
    """A program as the tables that its C consists of. blob: contains its constants.

    kernels: names in C. order: numbers of firings, and of tasks behind them; actors: the first that each of these is of;
    ends: for each entry of the order the actor whose firing ends with it, or "". images: those of an iteration, each with
    its own array of every argument. constants: outputs that no layer computes, and their offsets in the blob. loop: of a stream,
    where the order begins again; `made` is then its first template.
    """

    def __init__(
        self,
        made: Lowered,
        arguments: Sequence[Argument],
        blob: Blob,
        templates: Templates | None = None,
    ) -> None:
        program, plan = made.program, made.plan
        self.program, self.arguments, self.blob = program, arguments, blob
        self.functions = {
            f"csdf_{CALLED}_{name}": (name, one) for name, one in made.functions.items()
        }
        self._network = plan.conversion.network
        self.images, self.arena_bytes = program.images, plan.planned_bytes
        self.constants = {
            name: (array, blob.find(at.offset)) for name, (array, at) in made.outputs.items()
        }
        self.pools = Tables(program.constants, blob)
        self.kernels: set[str] = set()
        self.ends: list[str] = []
        self.actors: dict[Task | KernelFiring, str] = {}
        self._sides: list[Side] = []
        self._known: dict[tuple[object, ...], int] = {}
        self._fired: dict[tuple[int, ...], tuple[KernelFiring, ...]] = {}
        self._counted: Mapping[Place, Mapping[int, str]] = {}
        self._behind = [0] * len(arguments)
        self._inputs = {one.name: one for one in arguments if not one.output}
        self._outputs = {one.name: one for one in arguments if one.output}
        self.loop: Loop | None = None
        if templates is not None:
            self.loop, entries = self._list_loop(made, templates)
        else:
            entries, firsts = self._list_entries(made)
            if plan.turns is not None:
                one = find_repeats(program, plan.turns)
                self.loop = Loop(firsts[one.start], firsts[one.stop], one.rows, one.more)
        stop = self.loop.stop if templates and self.loop else None
        self._taken = [one for one in entries[:stop] if isinstance(one, Task) and self._takes(one)]
        rank = {actor: k for k, actor in enumerate(dict.fromkeys(self.actors.values()))}
        found = sorted(
            dict.fromkeys(entries), key=lambda one: rank.get(self.actors.get(one, ""), -1)
        )
        self.firings = [one for one in found if isinstance(one, KernelFiring)]
        self.tasks = [one for one in found if isinstance(one, Task)]
        number = {one: k for k, one in enumerate((*self.firings, *self.tasks))}
        self.order = [number[one] for one in entries]
        self.pools.add_calls()
        self._add_sides()

    @property
    def endless(self) -> bool:
        """Whether they are of a stream."""
        return self.loop is not None and self.loop.ends > 0

    def _list_entries(
        self, made: Lowered, start: int = 0, stop: int | None = None
    ) -> tuple[list[Entry], list[int]]:
        """The order of firings [start, stop), and the first entry of each of them and behind the last."""
        program, some = made.program, slice(start, stop)
        actors = [actor for actor, _ in made.plan.order[some]]
        firings = program.firings[some]
        fed = [
            [self._fed(one, actor)] if isinstance(one, Feed) else []
            for one, actor in zip(firings, actors, strict=True)
        ]
        delivered = [[self._delivered(one) for one in given] for given in program.deliveries[some]]
        entries, firsts = list[Entry](), list[int]()
        self._fired.clear()
        open_: tuple[int, tuple[Condition, ...]] = 0, ()
        for actor, firing, code, takes, gives, guards in zip(
            actors, firings, program.code[some], fed, delivered, program.guards[some], strict=True
        ):
            fires = self._fires(program, code, firing) if isinstance(firing, Step) else ()
            found = [*takes, *fires, *gives]
            firsts.append(len(entries))
            if found and guards != open_[1]:
                _close(entries, *open_)
                open_ = len(entries), guards
                entries += [_condition(one, 0) for one in guards]
                self.ends += [""] * len(guards)
            entries += found
            self.actors.update((one, actor) for one in found if one not in self.actors)
            self.ends += [*[""] * (len(found) - 1), actor] if found else []
        _close(entries, *open_)
        return entries, [*firsts, len(entries)]

    def _fires(
        self, program: Program, code: tuple[int, ...], step: Step
    ) -> tuple[KernelFiring, ...]:
        """What an actor's firing fires; equal ones are stored once."""
        found = self._fired.get(code)
        if found is None:
            some = [program.instructions[number] for number in code]
            self.kernels.update(f"csdf_{one.kernel}" for one in some)
            if any(one.kernel == "turns_of" for one in some):
                self.kernels.update(f"csdf_{one}" for one in program.constants.called)
            last = step.layer.name if step.phase.last else ""
            counted = [
                self._counted.get((last, one.kernel, len(some) - number), {})
                for number, one in enumerate(some)
            ]
            found = self._fired[code] = tuple(
                KernelFiring(*self.pools.add(*one)) for one in zip(some, counted, strict=True)
            )
            self.pools.mark()
        return found

    def _list_loop(self, made: Lowered, templates: Templates) -> tuple[Loop, list[Entry]]:
        """Where the order of a stream repeats, and the order, with what its ends have of their own behind it."""
        turn, main, order = templates.turn, Segments.of(made.program), made.plan.order
        fed = [rows[0] for rows in main.fed]
        begin, end = (fed.index(templates.first + rows) for rows in (0, turn))
        if main.alike[begin:end] != main.alike[end : 2 * end - begin]:
            raise PlanError(f"firings do not repeat after {turn} rows; plan the stream again")
        starts = dict(zip(fed, main.starts, strict=True))
        first = self._network.inputs[0].name
        feeds = (getattr(one, "tensor", None) for one in made.program.firings)
        starts[0] = next(k for k, one in enumerate(feeds) if one and one.name == first)
        found, firsts = self._list_entries(made, 0, starts[templates.first + turn])
        rows = tuple(chain(*main.turn(begin, end - begin)))
        loop = Loop(firsts[main.starts[begin]], len(found), rows, 0, templates.ends)
        taken, again = [*self._list_ports(found)], [*self._list_ports(found[loop.start :])]
        taken += again * (1 + templates.held // turn)  # further than any end
        self._counted, whole = templates.counted, tuple(found)
        endings, pieces = list[Ending](), list[tuple[int, int, int]]()
        for height, one in sorted(templates.endings.items()):
            turns = max(0, height - templates.held - templates.first) // turn
            at = firsts[starts[max(0, height - templates.held - turns * turn)]]
            low = one.plan.conversion.network.inputs[0].rows
            done = starts[max(0, low - templates.held)]
            if one.plan.order[:done] != order[:done]:
                raise PlanError(f"images of {low} rows begin otherwise than higher ones")
            self._behind = [(height - low - turns * turn) * count // turn for count in rows]
            more, _ = self._list_entries(one, done)
            more = [*self._list_last(made.program, one.program, done), *more]
            waiting = [*self._list_ports(more)]
            there = [*self._list_ports(whole[:at]), *waiting]
            if sorted(there) != sorted(taken[: len(there)]):
                raise PlanError(
                    f"images of {low} rows end before all of their rows are wanted, as inputs come by turns; give the model one "
                    "input, with the others as channels"
                )
            held = tuple(waiting.count(number) for number in range(len(self._inputs)))
            parts, own = self._match(loop, whole, at, more)
            ends = len(found), len(pieces), len(pieces) + len(parts)
            endings.append(Ending(at, turns, *ends, height, held))
            found, pieces = found + own, pieces + parts
        held = tuple(self._count_waiting(taken, templates.held)) if templates.held else ()
        loop = replace(loop, endings=tuple(endings), pieces=tuple(pieces), held=held)
        return replace(loop, counted=bool(templates.counted)), found

    def _list_last(self, main: Program, end: Program, done: int) -> Iterator[Entry]:
        """What firings that are done complete if they are the last ones."""
        for given, known in zip(end.deliveries[:done], main.deliveries, strict=False):
            before = {one.output for one in known} if given else ()
            yield from (self._delivered(one) for one in given if one.output not in before)

    def _match(
        self, loop: Loop, order: Sequence[Entry], at: int, ending: Sequence[Entry]
    ) -> tuple[list[tuple[int, int, int]], list[Entry]]:
        """The pieces of an ending that begins at a place of the order, and the entries of its own, as if they were in the turn of
        the loop in which they are.
        """
        again = order[loop.start :]
        turns = range(1, 2 + loop.start // len(again))
        ahead = [*order[at:], *(self._later(one, loop, k) for k in turns for one in again)]
        whole = next(
            (k for k, one in enumerate(ending) if isinstance(one, Task) and one.side < 0),
            len(ending),
        )
        found = SequenceMatcher(None, ending[:whole], ahead, autojunk=False).get_matching_blocks()
        pieces, own = list[tuple[int, int, int]](), list[Entry]()
        done = place = 0
        for start, there, count in (*found[:-1], (len(ending), len(ahead), 0)):
            if start > done:
                run = pieces.pop()[:2] if pieces else (0, 0)
                pieces.append((*run, start - done))
                turn = max(0, 1 + (at + place - len(order)) // len(again))
                own += [self._later(one, loop, -turn) for one in ending[done:start]]
            if count:
                pieces.append((there - place, count, 0))
            done, place = start + count, there + count
        return pieces, own

    def _later(self, one: Entry, loop: Loop, turns: int) -> Entry:
        """An entry of the loop so many turns later."""
        if isinstance(one, KernelFiring) or one.side < 0:
            return one
        side = self._sides[one.side]
        by = turns * loop.turn[side.argument.number]
        for row in range(one.first, one.first + one.count):
            side.rows.setdefault(row + by, side.rows[row])
        return replace(one, first=one.first + by)

    def _list_ports(self, entries: Iterable[Entry]) -> Iterator[int]:
        """The numbers of the inputs whose rows entries of the order take, row by row."""
        for one in entries:
            if isinstance(one, Task) and self._takes(one):
                yield from [self._sides[one.side].argument.number] * one.count

    def _count_waiting(self, ports: Sequence[int], held: int) -> list[int]:
        """Most rows of each input that wait, if all rows come in this order, and so many of the first one are held."""
        waiting, most, done = [0] * len(self._inputs), [0] * len(self._inputs), 0
        for at, port in enumerate(ports):
            while port == 0 and done < at and (ports[done] or waiting[0] == held):
                waiting[ports[done]] -= 1
                done += 1
            waiting[port] += 1
            most[port] = max(most[port], waiting[port])
        return most

    @property
    def size(self) -> int:
        """Bytes of all tables and of the order, where a pointer has `SMALL` bytes, as on a microcontroller."""
        bits = self.bits
        own = {
            "part": type_size("csdf_transfer", SMALL) + SMALL,
            "side": 16 + SMALL,
            "call": 3 * SMALL + -(-self.pools.most_counts * bits["count"] // 8 // SMALL) * SMALL,
            "place": bits["place"] // 8,
        }
        pools = sum(
            len(pool.rows) * (own[kind] if kind in own else type_size(kind, SMALL))
            for kind, pool in self.pools.by_type.items()
        )
        ports = len(self.arguments) * type_size("csdf_port", SMALL)
        ends = self.loop.endings if self.loop else ()
        return (
            pools
            + ports
            + len(ends) * (6 + len(self._inputs)) * 4
            + len(self.loop.pieces if self.loop else ()) * 3 * bits["piece"] // 8
            + len(self.firings) * bits["firing"] // 8
            + 3 * len(self.tasks) * bits["task"] // 8
            + len(self.order) * bits["order"] // 8
        )

    @cached_property
    def bits(self) -> dict[str, int]:
        """Bits of the numbers in tables: in the order, of firings, in tasks, in pieces of endings, of lengths of tables, and of
        places in the arena.
        """
        most = {
            "order": len(self.firings) + len(self.tasks),
            "firing": max((one.first + 1 << self.call_bits for one in self.firings), default=0),
            "task": 2 * max((max(one.side, one.first, one.count) for one in self.tasks), default=0),
            "piece": max(chain((0,), *(self.loop.pieces if self.loop else ()))),
            "count": self.pools.most_places,
            "place": self.arena_bytes,
        }
        return {name: _bits(number) for name, number in most.items()}

    @cached_property
    def call_bits(self) -> int:
        """Bits of a firing that are its call; those above them are the first of its places."""
        return max((one.call for one in self.firings), default=0).bit_length()

    @property
    def copies(self) -> set[str]:
        """Kernels that copy elements between the arena and arrays."""
        return {f"csdf_copy_{one.tensor.itemsize}" for one in self.arguments}

    def called(self) -> set[str]:
        """All kernels that the tables and the moves of rows name."""
        moves = {"csdf_move"} if self.arguments else set()
        return (self.kernels | self.copies | moves) - self.functions.keys()

    @property
    def branches(self) -> bool:
        """Whether there are conditions among the tasks."""
        return any(task.side == -1 for task in self.tasks)

    def _fed(self, feed: Feed, actor: str) -> Task:
        starts = tuple(part.start for part in feed.part) or (0,) * len(feed.target.shape)
        argument = self._inputs[feed.tensor.name]
        return self._moved(argument, actor, feed.image, feed.target, starts, feed.rows.start)

    def _delivered(self, one: Delivery) -> Task:
        starts = (0,) * len(one.tensor.row_shape)
        argument = self._outputs[one.output]
        return self._moved(argument, "", one.image, one.source, starts, one.rows.start)

    def _moved(
        self,
        argument: Argument,
        actor: str,
        image: int,
        view: View,
        starts: tuple[int, ...],
        first: int,
    ) -> Task:
        """The task that moves rows of a view, the lowest of which is row `first`. Actors that take rows in another form
        have sides of their own.
        """
        parts, first = [], first + self._behind[argument.number]
        for piece in view.pieces or (view,):
            parts.append((piece, starts))
            if view.pieces:
                at, size = view.along, piece.shape[view.along]
                starts = (*starts[:at], starts[at] + size, *starts[at + 1 :])
        form = tuple((one.shape, one.strides, begin) for one, begin in parts)
        key = argument.number, actor, image, form
        number = self._known.setdefault(key, len(self._sides))
        if number == len(self._sides):
            self._sides.append(Side(argument, image, tuple(parts)))
        side = self._sides[number]
        for at in range(view.count):
            places = tuple(one.rows[at] for one, _ in parts)
            if side.rows.setdefault(first + at, places) != places:
                raise PlanError(f"row {first + at} of '{argument.name}' has two places")
        return Task(number, first, view.count)

    def _takes(self, task: Task) -> bool:
        """Whether a task takes rows of an input."""
        return task.side >= 0 and not self._sides[task.side].argument.output

    @cached_property
    def streamed(self) -> str:
        """Why rows of inputs cannot be pushed one by one; "" if they can."""
        if any(side.image for side in self._sides):
            return "several images are in flight at a time"
        if not self._inputs:
            return "the network has no inputs"
        rows: dict[str, list[int]] = {name: [] for name in self._inputs}
        whole = True
        for task in self._taken:
            side = self._sides[task.side]
            rows[side.argument.name] += range(task.first, task.first + task.count)
            whole &= side.parts[0][0].shape == side.argument.tensor.row_shape
        if not whole or any(some != list(range(len(some))) for some in rows.values()):
            return "the plan takes rows of an input in parts, or more than once"
        return ""

    @cached_property
    def _moves(self) -> dict[tuple[int, int, int], tuple[int, int]]:
        """(number of an argument, image, row) -> the first and the last place in the order where the row is moved."""
        found: dict[tuple[int, int, int], tuple[int, int]] = {}
        for at, number in enumerate(self.order):
            task = self.tasks[number - len(self.firings)] if number >= len(self.firings) else None
            if task is None or task.side < 0:
                continue
            side = self._sides[task.side]
            for row in range(task.first, task.first + task.count):
                key = side.argument.number, side.image, row
                found[key] = found.get(key, (at,))[0], at
        return found

    def list_in_place(self, output: Argument) -> list[Argument]:
        """The inputs of an output's form whose arrays it may be written to, as a state that a step updates: each row is read for
        the last time before it is written.
        """
        written = [
            (key[1:], first) for key, (first, _) in self._moves.items() if key[0] == output.number
        ]
        return [
            one
            for one in self._inputs.values()
            if (one.strides, one.tensor.shape) == (output.strides, output.tensor.shape)
            and all(
                first > self._moves.get((one.number, *row), (-1, -1))[1] for row, first in written
            )
        ]

    def _add_sides(self) -> None:
        """Add the sides to the tables: pools `parts` and `sides`."""
        pool = self.pools.pool
        forms = pool("part", "{{NULL, %s, %s, %s, %s, %s, %s, NULL}, %s}")
        table = pool("side", "{%s, %s, %s, %s, %s}")
        dims = pool("csdf_dim", "{%s, %s, %s, %s, %s}")
        numbers = pool("int32_t", name="numbers")
        places = pool("place")
        used: list[set[int]] = [set() for _ in self._sides]
        for one in self.tasks:
            if one.side >= 0:
                used[one.side].update((one.first, one.first + one.count - 1))
        for side, ends in zip(self._sides, used, strict=True):
            low, high = min(ends), max(ends)
            found: list[tuple[Token, ...]] = []
            for number, (view, starts) in enumerate(side.parts):
                axes = sorted(
                    (axis for axis, size in enumerate(view.shape) if size > 1),
                    key=lambda axis: view.shape[axis],
                )
                at = list_places(
                    side.rows[row][number] if row in side.rows else PADDING
                    for row in range(low, high + 1)
                )
                found.append(
                    (
                        _ints(dims, [(view.shape[k], view.strides[k], 0, 0, 0) for k in axes]),
                        _ints(numbers, [(1 + axis,) for axis in axes]),
                        _ints(numbers, [(begin,) for begin in (0, *starts)]),
                        (NUMBER, len(axes)),
                        (NUMBER, 1 + len(starts)),
                        (NUMBER, int(side.argument.output)),
                        (places.name, places.add(at)),
                    )
                )
            table.rows.append(
                (
                    (NUMBER, side.argument.number * self.images + side.image),
                    (NUMBER, low),
                    (NUMBER, len(found)),
                    (NUMBER, self._count_bytes(side)),
                    (forms.name, forms.add(found)),
                )
            )

    def _count_bytes(self, side: Side) -> int:
        """Bytes of a row that is in one piece in the arena and in arrays; 0 for others."""
        (view, starts), *more = side.parts
        one, axes = side.argument, [k for k, size in enumerate(view.shape) if size > 1]
        forms = [one.row_strides] if self.endless else [one.row_strides, one.strides]
        bytes_ = one.tensor.itemsize * prod(view.shape)
        end = one.tensor.itemsize + sum((view.shape[k] - 1) * view.strides[k] for k in axes)
        same = all(form[1 + k] == view.strides[k] for form in forms for k in axes)
        return bytes_ if same and end == bytes_ and not more and not any(starts) else 0


def _condition(guard: Condition, left_out: int) -> Task:
    """A condition for so many entries of the order behind it."""
    (offset,) = guard.view.rows
    return Task(-1, offset, 2 * left_out + guard.taken)


def _close(entries: list[Entry], start: int, guards: Sequence[Condition]) -> None:
    """Let the conditions from `start` on be for all entries behind them."""
    for at, one in enumerate(guards, start):
        entries[at] = _condition(one, len(entries) - at - 1)


def _bits(number: int) -> int:
    """Of the smallest type that has this number, and a greater one."""
    return next(bits for bits in (8, 16, 32, 64) if number < 2**bits - 1)


def _ints(pool: Pool, rows: Sequence[Sequence[int]]) -> Token:
    """The place of a table of numbers in its pool."""
    if not rows:
        return LITERAL, "NULL"
    return pool.name, pool.add([tuple((NUMBER, value) for value in row) for row in rows])
