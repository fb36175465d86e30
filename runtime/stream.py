"""Streams: rows are pushed as they come, in any number, and rows of the outputs come back as soon as they are complete.

    frame = runtime.compile(csdfgen.plan_stream("model.onnx"))
    for outputs in frame.stream(rows):     # any iterable of arrays
        ...
    stream = frame.open()                  # or by hand; each stream has memory of its own
    outputs = stream.push(rows)
    outputs = stream.finish()

A plan of a stream repeats: instructions and offsets are the same after a turn. So the program is that of a low image, a
template, whose middle is executed again and again on arrays that are numbered as if they were its rows. The last rows, whose
number is known at the end alone, are those of the template with as many rows behind the last whole turn.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import lt
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import numpy as np

from csdfgen.backends.registry import choose_backend
from csdfgen.errors import InputError, ModelError
from csdfgen.lowering.program import Alike, Program, lower
from csdfgen.lowering.segments import Segments
from csdfgen.model.deferred import compute_array
from csdfgen.model.describe import format_repr, mebibytes
from csdfgen.model.network import Tensor
from csdfgen.planning.plan import Plan
from csdfgen.planning.streams import StreamPlan, count_held
from csdfgen.program.instructions import KEEPER, Constants, view_bytes
from csdfgen.program.steps import Backend
from runtime.bound import BoundProgram, add_guards
from runtime.kept_state import pack_state, unpack_state
from runtime.segments import Runner
from runtime.session import Turn

__all__ = ["Rows", "Stream", "StreamProgram"]

Rows = np.ndarray | Mapping[str, np.ndarray]
"""Rows of the only input, or of some inputs by name, with the axes of the network."""

_PIECE = 1 << 22
"""Bytes of an array that are pushed at a time."""


@dataclass(frozen=True)
class Turns:
    """What repeats: the first segment, how many there are in a turn, and how many rows of each input and output in each of its
    periods. joined: turns of the template, one behind the other, that are executed together.
    """

    first: int
    count: int
    joined: int
    periods: int
    fed: Sequence[int]
    made: Sequence[int]

    def split(self, number: int) -> tuple[int, int]:
        """(periods that are left out, segment of the template) of a segment of a stream."""
        again, place = divmod(max(0, number - self.first), self.joined * self.count)
        return again * self.joined * self.periods, min(number, self.first) + place

    def skip(self, number: int, periods: int) -> int:
        """The segment of a template without so many periods."""
        return number - periods * self.count // self.periods

    @property
    def stop(self) -> int:
        """The segment of the template behind the last turn that is executed."""
        return self.first + self.joined * self.count


class Chunk(NamedTuple):
    """Segments [start, stop) of a template. left_out: periods in front of them. done: firings of the first that are done."""

    left_out: int
    start: int
    stop: int
    done: int = 0

    def rows(self, counts: np.ndarray, period: Sequence[int]) -> list[int]:
        """How many rows there are behind it. counts: in a template; period: in a period."""
        return [
            low + self.left_out * more
            for low, more in zip(counts[self.stop].tolist(), period, strict=True)
        ]


class _Form:
    """Arrays of an input or output: with any number of rows, or with the shape of what has no axis of rows."""

    def __init__(self, tensor: Tensor) -> None:
        self.dtype, self.axis, shape = np.dtype(tensor.dtype), tensor.row_axis, tensor.shape
        cut = len(shape) if self.axis is None else self.axis
        self._before, self._after = shape[:cut], shape[cut + 1 :]
        self._whole = (slice(None),) * cut

    def __str__(self) -> str:
        sizes = map(str, self._before + (() if self.axis is None else ("any",)) + self._after)
        return f"({', '.join(sizes)})"

    def count(self, shape: tuple[int, ...]) -> int:
        """Rows of an array, 1 where there is no axis of rows; -1 if it does not fit."""
        axis = self.axis
        if axis is None:
            return 1 if shape == self._before else -1
        fits = shape[:axis] == self._before and shape[axis + 1 :] == self._after
        return shape[axis] if fits and len(shape) > axis else -1

    def part(self, rows: np.ndarray, start: int, stop: int | None = None) -> np.ndarray:
        """Some rows of an array."""
        there = *self._whole, slice(start, stop)
        return rows[there]

    def new(self, rows: int) -> np.ndarray:
        """An array for so many rows."""
        middle = () if self.axis is None else (rows,)
        return np.empty((*self._before, *middle, *self._after), self.dtype)


class _Waiting:
    """Rows of an input that are not given up yet. fed: rows in front of them. there: rows that were pushed."""

    def __init__(self, form: _Form) -> None:
        self.form, self.fed, self.there = form, 0, 0
        self._parts: list[np.ndarray] = []

    def take(self, rows: np.ndarray, count: int) -> None:
        """Further rows, in an array of the caller's (`own`)."""
        self._parts.append(rows)
        self.there += count

    def own(self, rows: np.ndarray) -> None:
        """Copy what was taken last if it still waits."""
        if self._parts and self._parts[-1] is rows:
            self._parts[-1] = rows.copy()

    def rows(self) -> np.ndarray | None:
        """All of them in one array."""
        if len(self._parts) > 1:
            self._parts = [np.concatenate(self._parts, self.form.axis or 0)]
        return self._parts[0] if self._parts else None

    def give_up(self, fed: int) -> None:
        """So many rows are not needed any more."""
        rows = self.rows() if self.fed < fed < self.there else None
        if fed == self.there:
            self._parts.clear()
        elif rows is not None:
            self._parts = [self.form.part(rows, fed - self.fed).copy()]
        self.fed = fed


class _Packed:
    """A keeper that packs equal weights once, so that templates share them, whatever they were read from."""

    def __init__(self) -> None:
        self._known: dict[Hashable, np.ndarray] = {}

    def kept(
        self, pack: Callable[..., np.ndarray], given: tuple[Any, ...], axis: int | None
    ) -> np.ndarray:
        """See `Keeper.kept`."""
        arrays = [compute_array(one) for one in given]
        key = pack, *map(_describe, arrays)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = pack(*arrays)
        return found


def _describe(one: Any) -> Hashable:
    """The content of an array; what is none, itself."""
    if not isinstance(one, np.ndarray):
        return cast(Hashable, one)
    return one.shape, one.dtype.str, hashlib.sha256(view_bytes(one)).digest()


class StreamProgram:
    """A compiled plan of a stream. Streams of one program share its instructions and weights, and threads that use them wait
    for each other.

    threads, kernels: as in `Executable`. Raises PlanError for a plan whose instructions do not repeat.
    """

    def __init__(self, plan: StreamPlan, threads: int = 1, kernels: Backend | None = None) -> None:
        self.plan, self.lock = plan, Turn()
        self.kernels = (kernels or choose_backend(plan.options)).shared(threads)
        self._joined = plan.joined
        rows = plan.least + self._joined * plan.turn
        self._template = plan.ending(rows, rows)  # one turn more, to compare
        network = self._template.network
        self.inputs: dict[str, Tensor] = {one.name: one for one in network.inputs}
        self.outputs: dict[str, Tensor] = {
            one.name: one.tensor for one in network.outputs if one.tensor is not None
        }
        self.ins, self.outs = (
            {name: _Form(one) for name, one in some.items()} for some in (self.inputs, self.outputs)
        )
        self.constants = {
            one.name: one.constant for one in network.outputs if one.constant is not None
        }
        self._packed, self._alike = _Packed(), Alike()
        self.segments = Segments.of(self._lower(self._template, alike=self._alike))
        self.turns = self._find_turns()
        self._ending: tuple[tuple[int, ...], tuple[Plan, Segments]] | None = None  # the last one

    def __repr__(self) -> str:
        return format_repr(
            "StreamProgram",
            self.plan.network.name,
            backend=self.kernels.name,
            turn=self.plan.turn,
            arena=mebibytes(self.plan.planned_bytes),
        )

    @cached_property
    def digest(self) -> str:
        """Equal for programs that do the same in the same places."""
        program, found = self.segments.program, hashlib.sha256()
        for part in (
            self.kernels.name,
            self.kernels.code,
            program.pools,
            program.instructions,
            program.code,
        ):
            found.update(repr(part).encode())
        for block in program.constants.blocks:
            found.update(view_bytes(block.values))
        return found.hexdigest()

    def _lower(
        self,
        plan: Plan,
        constants: Constants | None = None,
        alike: Alike | None = None,
        start: int = 0,
    ) -> Program:
        """The program of a template. constants: of another one, which it shares. alike, start: see `lower`."""
        if plan.options.weights == "mapped":
            return lower(plan, self.kernels)
        token = KEEPER.set(self._packed)
        try:
            constants = constants or Constants(plan.pools)
            return lower(plan, self.kernels, constants, alike, start)
        finally:
            KEEPER.reset(token)

    def _find_turns(self) -> Turns:
        one = self.segments
        count = self.plan.turn // int(one.fed[1, 0])
        first = one.find_body(count, self._joined * count)
        periods = self.plan.turn // self.plan.period
        each = ([rows // periods for rows in some] for some in one.turn(first, count))
        return Turns(first, count, self._joined, periods, *each)

    @cached_property
    def held_back(self) -> int:
        """Rows of the first input that wait for further ones, or for the end: a layer may end by rows that are there already, and
        computes its last ones in another way.
        """
        held = count_held(self._template)
        return held and held + self.plan.period

    def ending(self, rows: int, done: int) -> tuple[Plan, Segments, int]:
        """(template, its segments, periods that are left out) for the end of a stream of so many rows, so many of whose segments
        are done. Raises ModelError, InputError or PlanError for a number of rows that the network does not take.
        """
        (low, left_out), step = self.plan.template(rows), self.plan.aligned
        while left_out and self.turns.skip(done, left_out) < self.turns.first:
            low, left_out = low + step * self.plan.period, left_out - step
        start = self.turns.skip(done, left_out)
        key = low, rows if self.plan.counts_rows else left_out % self.turns.periods, start
        if self._ending is None or self._ending[0] != key:
            self._ending = None  # which may be gone before another one is made
            plan, shared = self._end_at(low, rows), self.segments.program.constants.copy()
            alike = Alike() if self.plan.counts_rows else self._alike.copy()
            program = self._lower(plan, shared, alike, start)
            self._ending = key, (plan, Segments.of(program))
        return *self._ending[1], left_out

    def _end_at(self, low: int, rows: int) -> Plan:
        try:
            return self.plan.ending(low, rows)
        except (ModelError, InputError):
            self.plan.read_network(rows)  # which says it of the whole image
            raise

    def count_rows(self, rows: int) -> dict[str, int]:
        """Rows of each output of a stream of so many rows of its first input. Raises ModelError or InputError for a number of
        rows that the network does not take.
        """
        outputs = self.plan.read_network(rows).outputs
        return {one.name: one.tensor.rows for one in outputs if one.tensor is not None}

    def open(
        self, resume: bytes | None = None, given: Mapping[str, np.ndarray] = MappingProxyType({})
    ) -> Stream:
        """A stream from its first row on, or from where another one was saved. given: of inputs without rows, or other things,
        by name. Raises InputError for what no stream of this program has saved.
        """
        stream = Stream(self, resume)
        stream.push({name: given[name] for name in self.inputs if name in given})
        return stream

    @cached_property
    def once(self) -> frozenset[str]:
        """The inputs that are given once."""
        return frozenset(
            name for name, rows in zip(self.inputs, self.turns.fed, strict=True) if not rows
        )

    def read_earlier(self, read: Callable[[], Iterable[Rows]]) -> dict[str, np.ndarray]:
        """The results of earlier passes over all rows, which are inputs. read: gives all rows once more."""
        found: dict[str, np.ndarray] = {}
        for plan in self.plan.earlier:
            stream = StreamProgram(plan, kernels=self.kernels).open(given=found)
            for rows in read():
                stream.push(rows)
            found |= stream.finish()
        return found

    def stream(self, source: Rows | Iterable[Rows]) -> Iterator[dict[str, np.ndarray]]:
        """Rows of the outputs, each time that some are complete, as new arrays. source: rows, array by array, or an array of
        all. Raises InputError as `Stream.push` and `Stream.finish`, and for a source that cannot be read again where the plan
        has several passes.
        """
        if self.plan.earlier and iter(source) is source:
            raise InputError("rows are read several times; give an array, or a list of arrays")
        stream = self.open(given=self.read_earlier(lambda: self._pieces(source)))
        for rows in self._pieces(source):
            found = stream.push(rows)
            if found:
                yield found
        found = stream.finish()
        if found:
            yield found

    def _pieces(self, source: Rows | Iterable[Rows]) -> Iterable[Rows]:
        """Parts of arrays of all rows; what is given in parts, as it is."""
        if isinstance(source, np.ndarray):
            return self._cut_array(source)
        if isinstance(source, Mapping):
            return [source]
        return source

    def _cut_array(self, rows: np.ndarray) -> Iterator[np.ndarray]:
        tensor = next(iter(self.inputs.values()))
        form = _Form(tensor)
        if form.count(rows.shape) < 0:
            yield rows  # which is refused by its shape
            return
        step = max(1, _PIECE // tensor.row_bytes)
        for start in range(0, form.count(rows.shape), step):
            yield form.part(rows, start, start + step)

    def bind(self, plan: Plan, segments: Segments, memory: Any) -> Runner:
        """A template in the memory of a stream."""
        bound = BoundProgram(plan, self.kernels, memory=memory, program=segments.program)
        return Runner(bound, segments, self.turns.first)

    def runner(self, memory: Any) -> Runner:
        """The template of which every stream executes all but its end."""
        return self.bind(self._template, self.segments, memory)

    def allocate(self) -> Any:
        """Memory for a stream."""
        return self.kernels.allocate(add_guards(self.segments.program.pools))


class Stream:
    """Rows that come in and go out, see `StreamProgram`; for one thread at a time. The arrays that it returns are new ones."""

    def __init__(self, program: StreamProgram, resume: bytes | None = None) -> None:
        self.program, self._memory = program, program.allocate()
        self._runner = program.runner(self._memory)
        self.reset()
        if resume is not None:
            self._resume(resume)

    def reset(self) -> None:
        """Start again with row 0."""
        self._done, self._ended = 0, ""
        self._made = [0] * len(self.program.outputs)
        self._needed = [0] * len(self.program.inputs)  # rows of each before anything can run
        self._waiting = {name: _Waiting(self.program.ins[name]) for name in self.program.inputs}

    @property
    def rows_in(self) -> dict[str, int]:
        """How many rows of each input were pushed."""
        return {name: one.there for name, one in self._waiting.items()}

    @property
    def rows_out(self) -> dict[str, int]:
        """How many rows of each output were returned."""
        return dict(zip(self.program.outputs, self._made, strict=True))

    # Rows in, rows out ---------------------------------------------------------------------------

    def push(self, rows: Rows) -> dict[str, np.ndarray]:
        """Take any number of rows, and return those of the outputs that they complete, by name; outputs without any are left
        out. An input without an axis of rows is given once, whole. Raises InputError for rows that do not fit, and behind
        the end of the stream.
        """
        with self.program.lock:
            self._check_open()
            given = self._checked(rows)
            for one, array, count in given:
                one.take(array, count)
            waits = any(map(lt, [one.there for one in self._waiting.values()], self._needed))
            found = {} if waits else self._run(self._runner, self._chunks())
            for one, array, _ in given:
                one.own(array)
            return found

    def finish(self) -> dict[str, np.ndarray]:
        """End the stream, and return the rows that are not returned yet; outputs that need all rows are among them. Raises
        InputError or ModelError if the network does not take so many rows; further ones may then be pushed.
        """
        program = self.program
        with program.lock:
            self._check_open()
            pushed = [*self.rows_in.values()]
            if not pushed[0]:
                raise InputError(f"no row of '{next(iter(program.inputs))}' was pushed")
            plan, segments, left_out = program.ending(pushed[0], self._done)
            chunk = self._last_chunk(segments, left_out)
            needed = chunk._replace(stop=len(segments)).rows(segments.fed, program.turns.fed)
            for name, count, need in zip(program.inputs, pushed, needed, strict=True):
                if count != need:
                    raise InputError(
                        f"{count} rows of '{name}' were pushed, {need} are needed for {pushed[0]} of "
                        f"'{next(iter(program.inputs))}'"
                    )
            runner = program.bind(plan, segments, self._memory)
            found = self._run(runner, [chunk])
            self._ended = "is finished"
            return {**found, **program.constants}

    # Interruptions -------------------------------------------------------------------------------

    def save(self) -> bytes:
        """All that it takes to go on later, in a process with the same program (`StreamProgram.open`). Raises InputError behind
        the end of the stream.
        """
        with self.program.lock:
            self._check_open()
            waiting = [one.rows() for one in self._waiting.values()]
            facts = {
                "program": self.program.digest, "done": self._done, "made": self._made,
                "fed": [one.fed for one in self._waiting.values()],
                "waiting": [rows is not None for rows in waiting],
            }  # fmt: skip
            there = [rows for rows in waiting if rows is not None]
            return pack_state(facts, [*self._runner.bound.read_pools(), *there])

    def _resume(self, state: bytes) -> None:
        facts, arrays = unpack_state(state)
        if facts["program"] != self.program.digest:
            raise InputError(
                "the state of a stream is that of another program; compile the same plan"
            )
        pools = len(self.program.segments.program.pools)
        self._runner.bound.write_pools(arrays[:pools])
        rows = iter(arrays[pools:])
        self._done, self._made = facts["done"], facts["made"]
        for one, fed, there in zip(
            self._waiting.values(), facts["fed"], facts["waiting"], strict=True
        ):
            one.fed = one.there = fed
            if there:
                array = next(rows)
                one.take(array, one.form.count(array.shape))

    # Checks --------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._ended:
            raise InputError(f"the stream {self._ended}; reset it, or open another one")

    def _last_chunk(self, segments: Segments, left_out: int) -> Chunk:
        """What of a template is not done yet. Its last segment is longer than that of a stream which goes on."""
        start = self.program.turns.skip(self._done, left_out)
        if start < len(segments):
            return Chunk(left_out, start, len(segments))
        _, before = self.program.turns.split(self._done - 1)
        starts = self.program.segments.starts
        return Chunk(left_out, start - 1, start, starts[before + 1] - starts[before])

    def _checked(self, rows: Rows) -> list[tuple[_Waiting, np.ndarray, int]]:
        """Where rows of an input wait, further ones, and how many. Raises InputError."""
        waiting, once = self._waiting, self.program.once
        if not isinstance(rows, np.ndarray) and isinstance(rows, Mapping):
            given: Iterable[tuple[str, np.ndarray]] = rows.items()
        else:
            first, *others = waiting
            if any(name not in once or not waiting[name].there for name in others):
                raise InputError(
                    f"one array for {len(waiting)} inputs; give a dict with {', '.join(waiting)}"
                )
            given = ((first, rows),)
        found = []
        for name, array in given:
            one = waiting.get(name)
            if one is None:
                raise InputError(f"there is no input '{name}'; there is {', '.join(waiting)}")
            array = np.asarray(array)
            if array.dtype != (dtype := one.form.dtype) and not np.can_cast(
                array.dtype, dtype, "same_kind"
            ):
                raise InputError(f"input '{name}' is {array.dtype}, the network takes {dtype}")
            count = one.form.count(array.shape)
            if count < 0:
                raise InputError(
                    f"input '{name}' has shape {array.shape}, the network takes {one.form}"
                )
            if one.there and name in once:
                raise InputError(f"input '{name}' has no rows that stream, and was given before")
            if array.size:
                found.append((one, array, count))
        return found

    def _chunks(self) -> list[Chunk]:
        """The segments whose rows are there, turn by turn."""
        turns, reach, found = self.program.turns, self._runner.segments.reach, list[Chunk]()
        at, there = self._done, [one.there for one in self._waiting.values()]
        there[0] -= self.program.held_back
        while True:
            left_out, start = turns.split(at)
            rows = [count - left_out * each for count, each in zip(there, turns.fed, strict=True)]
            stop = min(reach(rows), turns.stop)
            if stop > start:
                found.append(Chunk(left_out, start, stop))
                at += stop - start
            if stop <= start or stop < turns.stop:
                left_out, start = turns.split(at)
                rows = self._runner.segments.fed[start + 1].tolist()
                self._needed = [n + left_out * one for n, one in zip(rows, turns.fed, strict=True)]
                self._needed[0] += self.program.held_back
                return found

    def _run(self, runner: Runner, chunks: Sequence[Chunk]) -> dict[str, np.ndarray]:
        """Execute chunks, give fed rows up, and return those that are complete."""
        if not chunks:
            return {}
        segments, turns, last = runner.segments, self.program.turns, chunks[-1]
        made = last.rows(segments.made, turns.made)
        arrays = {
            name: form.new(after - before)
            for (name, form), before, after in zip(
                self.program.outs.items(), self._made, made, strict=True
            )
            if after > before
        }
        self._execute(runner, chunks, arrays)
        fed = last.rows(segments.fed, turns.fed)
        for one, count in zip(self._waiting.values(), fed, strict=True):
            one.give_up(count)
        self._made = made
        self._done += sum(stop - start for _, start, stop, _ in chunks)
        return arrays

    def _execute(
        self, runner: Runner, chunks: Sequence[Chunk], arrays: Mapping[str, np.ndarray]
    ) -> None:
        """Execute chunks on the rows that wait and on arrays of the outputs."""
        bound, turns = runner.bound, self.program.turns
        ends = [
            (name, False, one.rows(), one.fed, each)
            for (name, one), each in zip(self._waiting.items(), turns.fed, strict=True)
        ]
        ends += [
            (name, True, arrays[name], first, each)
            for name, first, each in zip(self.program.outs, self._made, turns.made, strict=True)
            if name in arrays
        ]
        self._ended = "was interrupted"
        try:
            for left_out, *segments in chunks:
                for name, output, array, first, each in ends:
                    bound.open(name, 0, output, array, first - left_out * each)
                runner.run(*segments)
            self._ended = ""
        finally:
            bound.close()
