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
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import numpy as np

from csdfgen.backends.registry import choose_backend
from csdfgen.errors import InputError, ModelError
from csdfgen.files import find_mapped_file, release_pages
from csdfgen.lowering.program import Alike, Program, lower
from csdfgen.lowering.segments import Segments
from csdfgen.model.deferred import compute_array, sources
from csdfgen.model.describe import format_repr, mebibytes
from csdfgen.model.network import Tensor
from csdfgen.planning.plan import Plan
from csdfgen.planning.planner import return_freed_memory
from csdfgen.planning.streams import StreamPlan, count_held
from csdfgen.program.instructions import KEEPER, Constants, view_bytes
from csdfgen.program.steps import Backend
from runtime.bound import BoundProgram, add_guards
from runtime.kept_state import pack_state, unpack_state
from runtime.segments import Form, Runner
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
    fed: list[int]
    made: list[int]

    def split(self, number: int) -> tuple[int, int]:
        """(periods that are left out, segment of the template) of a segment of a stream."""
        if number < self.stop:
            return 0, number
        again, place = divmod(number - self.first, self.stop - self.first)
        return again * self.joined * self.periods, self.first + place

    def skip(self, number: int, periods: int) -> int:
        """The segment of a template without so many periods."""
        return number - periods * self.count // self.periods

    @cached_property
    def stop(self) -> int:
        """The segment of the template behind the last turn that is executed."""
        return self.first + self.joined * self.count


class Chunk(NamedTuple):
    """Segments [start, stop) of a template. left_out: periods in front of them. done: firings of the first that are done."""

    left_out: int
    start: int
    stop: int
    done: int = 0

    def rows(self, counts: Sequence[Sequence[int]], period: Sequence[int]) -> list[int]:
        """How many rows there are behind it. counts: in a template; period: in a period."""
        return _shifted(counts[self.stop], self.left_out, period)


def _shifted(rows: Iterable[int], periods: int, each: Iterable[int]) -> list[int]:
    """Numbers of rows so many periods further on. each: rows in a period."""
    return [count + periods * more for count, more in zip(rows, each, strict=True)]


class _Waiting:
    """Rows of an input that are not given up yet. once: they are given once. fed: rows in front of them. there: rows that were
    pushed; none are kept if no layer reads them.
    """

    def __init__(self, name: str, form: Form, once: bool, unread: bool) -> None:
        self.form, self.once, self.fed, self.there = form, once, 0, 0
        self._unread = unread
        self._name, self._known = name, ((), np.dtype(object), 0)
        self._parts: list[bytes | bytearray] = []

    def check(self, rows: np.ndarray) -> int:
        """How many rows an array has, which may be taken. Raises InputError."""
        shape, dtype, count = self._known
        if rows.shape == shape and rows.dtype is dtype and not self.once:
            return count
        count, wanted = self.form.count(rows.shape), self.form.dtype
        if rows.dtype != wanted and not np.can_cast(rows.dtype, wanted, "same_kind"):
            raise InputError(f"input '{self._name}' is {rows.dtype}, the network takes {wanted}")
        if count < 0:
            raise InputError(
                f"input '{self._name}' has shape {rows.shape}, the network takes {self.form}"
            )
        if self.there and self.once:
            raise InputError(f"input '{self._name}' has no rows that stream, and was given before")
        self._known = rows.shape, rows.dtype, count
        return count

    def take(self, rows: np.ndarray, count: int) -> None:
        """Further rows."""
        if self._unread:
            return
        self._parts.append(self.form.pack(rows))
        self.there += count

    def join(self) -> bytearray:
        """All of them, row by row."""
        if len(self._parts) != 1 or isinstance(self._parts[0], bytes):
            self._parts = [bytearray().join(self._parts)]
        return cast(bytearray, self._parts[0])

    def give_up(self, fed: int) -> None:
        """So many rows are not needed any more."""
        if fed == self.there:
            self._parts.clear()
        elif fed > self.fed:
            (data,) = self._parts
            self._parts = [data[len(data) // (self.there - self.fed) * (fed - self.fed) :]]
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
        release_pages(find_mapped_file(each) for one in given for each in sources(one))
        return found


def _describe(one: Any) -> Hashable:
    """The content of an array; what is none, itself."""
    if not isinstance(one, np.ndarray):
        return cast(Hashable, one)
    return one.shape, one.dtype.str, hashlib.sha256(view_bytes(one)).digest()


class StreamProgram:
    """A compiled plan of a stream. Streams of one program share its instructions and weights. Threads that use them wait for
    each other, but where a call executes all of a push: native code with one thread.

    threads, kernels: as in `Executable`. Raises PlanError for a plan whose instructions do not repeat.
    """

    def __init__(self, plan: StreamPlan, threads: int = 1, kernels: Backend | None = None) -> None:
        self.plan, self.lock, self._threads = plan, Turn(), threads
        self.kernels = (kernels or choose_backend(plan.options)).shared(threads)
        self._joined = plan.joined
        rows = plan.least + self._joined * plan.turn
        self._template = plan.ending(rows, rows)  # one turn more, to compare
        network = self._template.network
        self.inputs: dict[str, Tensor] = {one.name: one for one in network.inputs}
        self.outputs: dict[str, Tensor] = {
            one.name: one.tensor for one in network.outputs if one.tensor is not None
        }
        self.constants = {
            one.name: one.constant for one in network.outputs if one.constant is not None
        }
        self._packed, self._alike = _Packed(), Alike()
        self.segments = Segments.of(self._lower(self._template, alike=self._alike))
        ports = {(one.name, one.output): k for k, one in enumerate(self.segments.program.ports)}
        self.ins, self.outs = (
            {name: Form(one, ports[name, output], output) for name, one in some.items()}
            for some, output in ((self.inputs, False), (self.outputs, True))
        )
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
            return lower(plan, self.kernels, constants, alike, start, steps=self._threads > 1)
        finally:
            KEEPER.reset(token)
            return_freed_memory()

    def _find_turns(self) -> Turns:
        one = self.segments
        count = self.plan.turn // one.fed[1][0]
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

    @cached_property
    def unread(self) -> frozenset[str]:
        """The inputs that no layer reads."""
        fed = zip(self.inputs, self.segments.fed[-1], strict=True)
        return frozenset(name for name, rows in fed if not rows)

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
        form = next(iter(self.ins.values()))
        if form.count(rows.shape) < 0:
            yield rows  # which is refused by its shape
            return
        step = max(1, _PIECE // form.row_bytes)
        ends = range(step, form.count(rows.shape), step)
        yield from np.array_split(rows, ends, form.axis or 0)

    def bind(self, plan: Plan, segments: Segments, memory: Any) -> Runner:
        """A template in the memory of a stream."""
        bound = BoundProgram(plan, self.kernels, memory=memory, program=segments.program)
        return Runner(bound, segments, [*self.ins.values(), *self.outs.values()], self.turns.first)

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
        self._turn = nullcontext() if self._runner.sliced else program.lock
        self.reset()
        if resume is not None:
            self._resume(resume)

    def reset(self) -> None:
        """Start again with row 0."""
        self._done, self._ended = 0, ""
        self._made = [0] * len(self.program.outputs)
        self._waiting = {
            name: _Waiting(name, form, name in self.program.once, name in self.program.unread)
            for name, form in self.program.ins.items()
        }
        self._ins, self._outs = [*self._waiting.values()], [*self.program.outs.values()]
        self._look_ahead()

    def _look_ahead(self) -> None:
        """Find the segment that runs next, and the rows of each input that must be there."""
        program, turns = self.program, self.program.turns
        left_out, start = turns.split(self._done)
        self._next = Chunk(left_out, start, start + 1)
        self._needed = _shifted(program.segments.fed[start + 1], left_out, turns.fed)
        self._needed[0] += program.held_back
        self._lacks, self._until = self._ins[0], self._needed[0]  # an input that lacks some

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
        self._check_open()
        if len(self._ins) == 1 and isinstance(rows, np.ndarray):
            one = self._ins[0]
            one.take(rows, one.check(rows))
        else:
            for one, array, count in self._checked(rows):
                one.take(array, count)
        if self._lacks.there < self._until:
            return {}
        for one, count in zip(self._ins, self._needed, strict=True):
            if one.there < count:
                self._lacks, self._until = one, count
                return {}
        alone = [one.there for one in self._ins] == self._needed
        with self._turn:
            found = self._run(self._runner, [self._next] if alone else self._chunks())
        self._look_ahead()
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
            waiting = [one.form.unpack(data) if (data := one.join()) else None for one in self._ins]
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
        self._look_ahead()

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
        waiting = self._waiting
        if isinstance(rows, np.ndarray) or not isinstance(rows, Mapping):
            first, *others = self._ins
            if any(not (one.once and one.there) for one in others):
                raise InputError(
                    f"one array for {len(waiting)} inputs; give a dict with {', '.join(waiting)}"
                )
            return [(first, array := np.asarray(rows), first.check(array))]
        for name in rows:
            if name not in waiting:
                raise InputError(f"there is no input '{name}'; there is {', '.join(waiting)}")
        given = [(waiting[name], np.asarray(array)) for name, array in rows.items()]
        return [(one, array, one.check(array)) for one, array in given]

    def _chunks(self) -> list[Chunk]:
        """The segments whose rows are there, turn by turn."""
        turns, reach, found = self.program.turns, self._runner.segments.reach, list[Chunk]()
        at, there = self._done, [one.there for one in self._waiting.values()]
        there[0] -= self.program.held_back
        while True:
            left_out, start = turns.split(at)
            stop = min(reach(_shifted(there, -left_out, turns.fed)), turns.stop)
            if stop > start:
                found.append(Chunk(left_out, start, stop))
                at += stop - start
            if stop <= start or stop < turns.stop:
                return found

    def _run(self, runner: Runner, chunks: Sequence[Chunk]) -> dict[str, np.ndarray]:
        """Execute chunks, give fed rows up, and return those that are complete."""
        if not chunks:
            return {}
        segments, turns, arrays = runner.segments, self.program.turns, dict[str, np.ndarray]()
        made = chunks[-1].rows(segments.made, turns.made)
        fed = chunks[-1].rows(segments.fed, turns.fed)
        ends: list[tuple[Form, Any, int, int]] = []
        for one, each in zip(self._ins, turns.fed, strict=True):
            if data := one.join():
                ends.append((one.form, data, one.fed, each))
        for form, before, after, each in zip(self._outs, self._made, made, turns.made, strict=True):
            if after > before:
                arrays[form.name] = rows = form.new(after - before)
                ends.append((form, rows.base, before, each))
        self._ended = "was interrupted"
        for left_out, *some in chunks:
            runner.run(
                [(form, data, first - left_out * each) for form, data, first, each in ends], *some
            )
        self._ended = ""
        for one, count in zip(self._ins, fed, strict=True):
            one.give_up(count)
        self._made = made
        self._done += sum(stop - start for _, start, stop, _ in chunks)
        return arrays
