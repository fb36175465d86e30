"""How does a device run a program? Launches of kernels over records, each of instructions that may run side by side.

The structures of all instructions and their tables are one buffer, weights another; a reference is a buffer and an offset
in it. Instructions of one kernel that touch no bytes that another one of them writes are one launch, and so are small ones
that follow each other (`csdfgen.backends.device.launches`). Rows of the caller's arrays are moved by kernels, too: where the
device shares memory with the host they are read and written in place, else the arrays are copied before or after it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache, partial
from math import inf, prod
from typing import Any, NamedTuple

import numpy as np

from csdfgen.backends.device.chains import CHAIN, Touched, links, list_spans, strip_instruction
from csdfgen.backends.device.driver import Driver, Local
from csdfgen.backends.device.elements import definitions
from csdfgen.backends.device.launches import (
    MOST_LOSS,
    PORTS,
    Launch,
    count_saved_launches,
    find_dependences,
    levels,
)
from csdfgen.backends.device.loops import Loop, Span
from csdfgen.backends.device.memory import DeviceMemory
from csdfgen.backends.device.series import Member, build_table
from csdfgen.backends.device.shapes import (
    count_work_items,
    kernel_name,
    max_padding,
    parse_kernel_name,
)
from csdfgen.backends.device.sources import can_join_series, members, series
from csdfgen.backends.device.work import Load, count_terms
from csdfgen.backends.native.bound import Addresses
from csdfgen.backends.native.structures import copy_kernel, get_record
from csdfgen.program.instructions import (
    Array,
    Constants,
    Instruction,
    Ref,
    address_bounds,
    get_address,
)
from csdfgen.program.steps import Code, Driven, Port

__all__ = ["DeviceBound", "Touched", "Uploaded", "is_move"]

MEMORY, WEIGHTS, TABLES = (number << 62 for number in (1, 2, 3))
"""Places in the buffers, see text/dialect.h."""

_OFFSET = (1 << 62) - 1

LEAST_SAVED = 16
"""Launches that series save of a frame at least: their kernel takes a second to build."""

LOCAL = 16, 1, 1
"""Items of a group that compute loops on arrays."""


class Uploaded(NamedTuple):
    """The constants of a program, and its weights on a device."""

    constants: Constants
    weights: Any


def is_move(one: Instruction) -> bool:
    """Whether an instruction moves rows of a port."""
    return one.kernel.startswith("port.")


class _Tables:
    """Arrays that become one buffer."""

    def __init__(self) -> None:
        self.size = 0
        self._parts: list[tuple[int, np.ndarray]] = []

    def put(self, table: np.ndarray) -> int:
        """Where an array will be."""
        start = self.size
        self._parts.append((start, table))
        self.size += -(-max(1, table.nbytes) // 16) * 16
        return start

    def bytes(self) -> np.ndarray:
        """All of them, as they are now."""
        found = np.zeros(max(1, self.size), np.uint8)
        for start, part in self._parts:
            found[start : start + part.nbytes] = part.reshape(-1).view(np.uint8)
        return found


class _Prepared(NamedTuple):
    """An instruction in memory. record: where its structure is in the tables. items: along both axes. terms: see `Load`."""

    kernel: str
    record: int
    items: tuple[int, int]
    reads: Sequence[Span]
    writes: Sequence[Span]
    terms: float


class _PortMoves:
    """The instructions that move rows of a port, for an array of the caller's that has its rows from number `first` on.

    form: type and strides of the array, and `first`. kernel: its name. loops: by instruction, whose places in the array are
    relative to its first element. tables: their records. starts: of each.
    """

    def __init__(
        self,
        port: Port,
        array: np.ndarray,
        moves: dict[int, tuple[Array, tuple[int, ...], int]],
        span: int,
        first: int,
    ) -> None:
        stored, inside = port.stored(array), np.dtype(port.dtype)
        ends = (inside, array.dtype) if port.output else (array.dtype, inside)
        self.form = array.dtype, array.strides, array.shape, first
        self.kernel = copy_kernel(*ends)
        base = get_address(array) - address_bounds(array)[0] - first * stored.strides[0]
        tables, self.starts, self.items = _Tables(), dict[int, int](), dict[int, int]()
        for number, (rows, starts, place) in moves.items():
            if not first <= starts[0] < first + len(stored):
                continue
            there = base + sum(s * step for s, step in zip(starts, stored.strides, strict=False))
            ours, theirs = rows.strides, stored.strides
            steps = (ours, theirs) if port.output else (theirs, ours)
            dims = [
                (n, a, 0, 0, out) for n, a, out in zip(rows.shape, *steps, strict=True) if n > 1
            ]
            a, out = (place, WEIGHTS | there) if port.output else (WEIGHTS | there, place)
            record, self.items[number] = Loop(self.kernel, dims, a, out, out, out).bytes(span)
            self.starts[number] = tables.put(np.frombuffer(record, np.uint8))
        self.bytes = tables.bytes()


class _Opened:
    """An array of the caller's on the device. window: over its bytes.
    arrives: before it is read or written the next time. leaves: when the host waits.
    """

    def __init__(self, driver: Driver, array: np.ndarray, output: bool) -> None:
        low, high = address_bounds(array)
        self.array, size = array, max(1, high - low)
        there: Any = (ctypes.c_uint8 * size).from_address(low)
        self.window = driver.window(np.frombuffer(there, np.uint8), output)
        # what is between the elements of an output stays as it is
        self.output, self.arrives, self.leaves = output, not output or size > array.nbytes, False


_Make = Callable[[], Callable[[], None]]
"""Makes what starts a launch."""


class _Recorded:
    """Starts launches that follow each other and touch no array of the caller's, in one call where the driver has one.
    first: number of the first one. waits: see `launches.find_dependences`, of all launches.
    """

    def __init__(
        self, driver: Driver, makes: list[_Make], first: int, waits: Callable[[], list[list[int]]]
    ) -> None:
        self._driver, self.makes, self._first, self._waits = driver, makes, first, waits
        self._start: Callable[[], None] | None = None

    def __call__(self) -> None:
        if self._start is None:
            starts = [make() for make in self.makes]
            self._start = self._driver.recorded(starts, self._behind)
        self._start()

    def _behind(self) -> list[list[int]]:
        """Those of the launches that each one waits for."""
        first, own = self._first, self._waits()[self._first : self._first + len(self.makes)]
        return [[number - first for number in some if number >= first] for some in own]


def _nothing() -> None:
    """Starts nothing."""


class DeviceBound:
    """A program in the memory of a device, see `Bound`."""

    def __init__(self, program: Code, memory: DeviceMemory, uploaded: Uploaded) -> None:
        driver = memory.driver
        self._driver, self._memory, self._forms = driver, memory, program.ports
        self._weights, self._launches = uploaded.weights, 0
        self._before = memory.copied, driver.building
        self._opened: dict[int, _Opened] = {}
        self._moves: dict[int, dict[int, tuple[Array, tuple[int, ...], int]]] = {}
        self._ports: dict[int, tuple[_PortMoves, Any]] = {}
        self._started: dict[Callable[[], None], Callable[[], None]] = {}
        constants, tables = uploaded.constants, _Tables()
        plain = [
            strip_instruction(one)
            for one in program.instructions
            if not is_move(one) and one.kernel != CHAIN and definitions(one.kernel) is None
        ]
        tables.put(np.zeros(max_padding(plain, constants), np.float32))  # the first of all
        addresses = Addresses(
            constants,
            {name: (MEMORY | start, 1) for name, start in memory.starts.items()},
            lambda offset: WEIGHTS | offset,
            lambda table: TABLES | tables.put(table),
        )
        steps, starts = addresses.steps(plain)
        base = tables.put(steps)
        where = iter(zip(plain, (base + starts).tolist(), strict=True))
        self._instructions: list[_Prepared] = []
        for number, one in enumerate(program.instructions):
            if is_move(one):
                self._instructions.append(self._move(number, one, addresses))
            elif definitions(one.kernel) is not None:
                loop = _loop(one, constants, addresses)
                record, count = loop.bytes(driver.blocks.span)
                at = tables.put(np.frombuffer(record, np.uint8))
                reads, writes = map(_in_memory, loop.spans(MEMORY))
                terms = count_terms(one, constants)
                self._instructions.append(
                    _Prepared(one.kernel, at, (count, 1), reads, writes, terms)
                )
            else:
                maps = [strip_instruction(one)]
                if one.kernel == CHAIN:
                    first, *_ = maps = links(one)
                    head = np.array([len(maps), 0, 0, 0], np.int32).view(np.uint8)
                    at = tables.put(np.concatenate((head, addresses.steps(maps)[0])))
                else:
                    first, at = next(where)
                terms = sum(count_terms(each, constants) for each in maps)

                def made(
                    word: str,
                    one: Instruction = one,
                    at: int = at,
                    first: Instruction = first,
                    terms: float = terms,
                ) -> _Prepared:
                    name = kernel_name(one.kernel, word)
                    items = count_work_items(
                        first, constants, parse_kernel_name(name, driver.blocks)[1]
                    )
                    return _Prepared(name, at, items, *_touched(one, addresses), terms)

                usual = made("")
                # small ones are launched together by the usual kernel, which is worth more
                small = self._loss([usual]) <= MOST_LOSS
                self._instructions.append(usual if small else made(one.fields[-1].blocks))
        self._joined = {
            one.kernel
            for one in self._instructions
            if not one.kernel.startswith("port.") and self._loss([one]) <= MOST_LOSS
        }
        self._tables = driver.uploaded(tables.bytes())

    def _move(self, number: int, one: Instruction, addresses: Addresses) -> _Prepared:
        port, starts, rows = one.fields
        (ref,) = one.refs
        assert ref is not None
        place = addresses.of(ref)
        self._moves.setdefault(port, {})[number] = rows, starts, place
        reach = sum((n - 1) * s for n, s in zip(rows.shape, rows.strides, strict=True))
        span = place & _OFFSET, (place & _OFFSET) + reach + np.dtype(rows.dtype).itemsize
        spans = ([span], []) if self._forms[port].output else ([], [span])
        size = prod(rows.shape)
        return _Prepared(
            f"port.{port}", number, (max(1, size // self._driver.blocks.span), 1), *spans, size
        )

    def open(self, port: int, array: np.ndarray | None, first: int = 0) -> None:
        """See `Bound.open`."""
        if array is None:
            self._opened.pop(port, None)
            self._started.clear()
            return
        if not (array.flags.aligned and array.dtype.isnative):
            array = np.array(array, array.dtype.newbyteorder("="))  # rare: bytes of a file
        there, form = self._opened.get(port), self._forms[port]
        if there is None or there.array is not array:
            self._opened[port] = _Opened(self._driver, array, form.output)
            self._started.clear()
        made = self._ports.get(port)
        if made is None or made[0].form != (array.dtype, array.strides, array.shape, first):
            span = self._driver.blocks.span
            moves = _PortMoves(form, array, self._moves.get(port, {}), span, first)
            self._ports[port] = moves, self._driver.uploaded(moves.bytes)
            self._started.clear()

    def prepared(self, numbers: Sequence[int]) -> Callable[[], None]:
        """See `Bound.prepared`."""
        some = [self._instructions[number] for number in numbers]
        touched = [(one.reads, one.writes, one.kernel) for one in some]

        def loss(which: Sequence[int]) -> float:
            return self._loss([some[k] for k in which])

        launches = levels(self._memory.size, touched, loss)
        if count_saved_launches(launches, [one.kernel for one in some]) < LEAST_SAVED:
            launches = levels(self._memory.size, touched)
        waits = cache(partial(find_dependences, launches, touched))
        launches = [[[numbers[k] for k in stage] for stage in one] for one in launches]
        order = [number for launch in launches for stage in launch for number in stage]
        records = np.array([self._instructions[number].record for number in order], np.int32)
        which = self._driver.uploaded(records if len(records) else np.zeros(1, np.int32))
        runs: list[Callable[[], None]] = []
        first = 0
        for count, launch in enumerate(launches):
            mine = [number for stage in launch for number in stage]
            kernel, *others = {self._instructions[number].kernel for number in mine}
            if others or len(launch) > 1:
                ports, make = self._series(launch)
            elif kernel.startswith("port."):
                ports, make = self._moving(int(kernel.removeprefix("port.")), mine)
            else:
                ports, make = (), self._launch(kernel, mine, which, first)
            if ports:
                runs.append(self._behind(ports, make))
            elif runs and isinstance(runs[-1], _Recorded):
                runs[-1].makes.append(make)
            else:
                runs.append(_Recorded(self._driver, [make], count, waits))
            first += len(mine)
        count = len(launches)

        def run(kept: object = (self, which)) -> None:
            for one in runs:
                one()
            self._launches += count

        return run

    def _loss(self, some: Sequence[_Prepared]) -> float:
        """What is lost if one group computes instructions of one kernel, in launches."""
        moves, local = some[0].kernel.startswith("port."), self._local(some[0].kernel)
        if not moves and not can_join_series(some[0].kernel):
            return inf
        loads = [
            Load(one.terms, prod(-(-n // m) for n, m in zip(one.items, local, strict=False)))
            for one in some
        ]
        return self._driver.units.loss(loads)

    def _local(self, kernel: str) -> Local:
        arrays = kernel.startswith("port.") or definitions(kernel) is not None
        return LOCAL if arrays else (*parse_kernel_name(kernel, self._driver.blocks)[1].local, 1)

    def _launch(self, name: str, mine: Sequence[int], which: Any, first: int) -> _Make:
        local = self._local(name)
        both = zip(*(self._instructions[number].items for number in mine), strict=True)
        most = (*(max(1, *some) for some in both), len(mine))
        if most[1] == 1:  # no item twice: what adds to sums does so once
            local = local[0] * local[1], 1, 1
        size = tuple(-(-n // m) * m for n, m in zip(most, local, strict=True))
        buffers = self._memory.buffer, self._weights, self._tables, which
        start = self._driver.launch(self._driver.kernel(name), size, local, buffers, first)
        return lambda: start

    def _moving(self, port: int, mine: Sequence[int]) -> tuple[Sequence[int], _Make]:
        """The port whose rows a launch moves, and what makes what starts it."""
        known: list[Any] = [None, None, None, (0, 0, 0)]

        def make() -> Callable[[], None]:
            opened, (moves, tables) = self._opened[port], self._ports[port]
            if known[0] is not moves:
                records = np.array([moves.starts[number] for number in mine], np.int32)
                most = max(moves.items[number] for number in mine)
                size = max(LOCAL[0], -(-most // LOCAL[0]) * LOCAL[0]), 1, len(mine)
                kernel = self._driver.kernel(moves.kernel)
                known[:] = moves, kernel, self._driver.uploaded(records), size
            _, kernel, which, size = known
            buffers = self._memory.buffer, opened.window.buffer, tables, which
            return self._driver.launch(kernel, size, LOCAL, buffers, 0)

        return (port,), lambda: make() if port in self._opened else _nothing

    def _behind(self, ports: Sequence[int], make: _Make) -> Callable[[], None]:
        """What starts a launch that moves rows of ports, made for the arrays that are open."""

        def run() -> None:
            for port in ports:
                if port in self._opened:
                    self._move_rows(self._opened[port])
            start = self._started.get(run)
            if start is None:
                start = self._started[run] = make()
            start()

        return run

    def _move_rows(self, opened: _Opened) -> None:
        """Note that a launch reads or writes an array of the caller's."""
        if opened.arrives:
            self._memory.copied += opened.window.arrive()
            opened.arrives = False
        opened.leaves = opened.output

    def _series(self, launch: Launch) -> tuple[Sequence[int], _Make]:
        """The ports whose rows a series moves, and what makes what starts it. Rows of a port that is not open are left out."""
        kernels = {n: self._instructions[n].kernel for stage in launch for n in stage}
        names = [name for name in dict.fromkeys(kernels.values()) if name.startswith("port.")]
        ports = [int(name.removeprefix("port.")) for name in names]
        known: list[Any] = [None, None, None, 0]

        def member(number: int) -> Member | None:
            one = self._instructions[number]
            if kernels[number] not in names:
                return Member(one.kernel, 0, one.record, one.items)
            which = names.index(kernels[number])
            if ports[which] not in self._opened:
                return None
            moves, _ = self._ports[ports[which]]
            return Member(moves.kernel, which + 1, moves.starts[number], (moves.items[number], 1))

        def make() -> Callable[[], None]:
            driver, most = self._driver, min(PORTS, len(self._moves))
            forms = [self._ports[port][0] if port in self._opened else None for port in ports]
            if known[0] != forms:
                name = series(self._joined | {one.kernel for one, _ in self._ports.values()}, most)
                stages = [[one for n in stage if (one := member(n))] for stage in launch]
                kernel = driver.kernel(name)
                which = driver.uploaded(build_table([one for one in stages if one], members(name)))
                known[:] = forms, kernel, which, min(driver.units.items, driver.group(kernel))
            _, kernel, which, items = known
            none = self._memory.buffer
            buffers = [none, self._weights, self._tables, which, *[none] * (2 * most)]
            for k, port in enumerate(ports, 2):
                if port in self._opened:
                    buffers[2 * k : 2 * k + 2] = (
                        self._opened[port].window.buffer,
                        self._ports[port][1],
                    )
            return driver.launch(kernel, (items, 1, 1), (items, 1, 1), buffers, 0)

        return ports, make

    @property
    def driven(self) -> Driven:
        """See `Bound.driven`."""
        copied, building = self._before
        return Driven(
            self._driver.device.name,
            self._launches,
            self._memory.copied - copied,
            self._driver.building - building,
        )

    def mark(self) -> Callable[[], int] | None:
        """See `Bound.mark`."""
        return self._driver.mark()

    def wait(self) -> None:
        """See `Bound.wait`."""
        for opened in self._opened.values():
            if opened.leaves:
                self._memory.copied += opened.window.leave()
            opened.arrives, opened.leaves = not opened.output, False
        self._driver.wait()


def _loop(one: Instruction, constants: Constants, addresses: Addresses) -> Loop:
    """An instruction of a kernel on arrays, its dimensions as numbers."""
    record = get_record(one)
    dims = () if record.rank == 0 else constants.rows_of(record.dims)[: record.rank]

    def of(ref: Ref | None) -> int:
        return 0 if ref is None else addresses.of(ref)

    return Loop(
        one.kernel, [tuple(dim) for dim in dims], of(record.a), of(record.b), of(record.c), of(record.out),
        of(record.index), record.count, record.along, record.out_along,
    )  # fmt: skip


def _in_memory(spans: Sequence[Span]) -> list[Span]:
    """Those of memory, as offsets in it."""
    return [(low & _OFFSET, (low & _OFFSET) + high - low) for low, high in spans if low >> 62 == 1]


def _touched(one: Instruction, addresses: Addresses) -> tuple[list[Span], list[Span]]:
    """What an instruction of a family reads and writes of memory."""
    both = []
    for spans in list_spans(one):
        found = [(addresses.of(ref) & _OFFSET, size) for ref, size in spans]
        both.append([(at, at + size) for at, size in found])
    reads, writes = both
    return reads, writes
