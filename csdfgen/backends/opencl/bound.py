"""How does a device run a program? Launches of kernels over records, each of instructions that may run side by side.

The structures of all instructions and their tables are one buffer, weights another; a reference is a buffer and an offset
in it. Instructions of one kernel that touch no bytes that another one of them writes are one launch
(`csdfgen.backends.device.launches`). Rows of the caller's arrays are moved by kernels, too: where the device shares memory
with the host they are read and written in place, else the rows that a launch moves are copied before or after it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from csdfgen.backends.device.elements import definitions
from csdfgen.backends.device.launches import levels
from csdfgen.backends.device.loops import Loop, Span
from csdfgen.backends.device.shapes import items_of
from csdfgen.backends.native.bound import Addresses
from csdfgen.backends.native.structures import copy_kernel, record_of
from csdfgen.backends.opencl.build import Builder
from csdfgen.backends.opencl.devices import Device
from csdfgen.backends.opencl.memory import DeviceMemory
from csdfgen.program.instructions import Array, Constants, Instruction, Ref, address_of, bounds_of
from csdfgen.program.steps import Code, Port

__all__ = ["Context", "DeviceBound", "Touched", "Uploaded", "is_move"]

MEMORY, WEIGHTS, TABLES = (number << 62 for number in (1, 2, 3))
"""Places in the buffers, see text/dialect.h."""

_OFFSET = (1 << 62) - 1

LOCAL = 16, 1, 1
"""Items of a group that compute loops on arrays."""


class Context(NamedTuple):
    """A device that computes: its context, a queue that keeps the order, and what builds kernels."""

    device: Device
    context: Any
    queue: Any
    builder: Builder


class Uploaded(NamedTuple):
    """The constants of a program, and its weights on a device."""

    constants: Constants
    weights: Any


class Touched(NamedTuple):
    """The last field of an instruction of a family: how many of its last references are where spans begin that are read and
    that are written, and the bytes of each.
    """

    reads: int
    writes: int
    sizes: tuple[int, ...]


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
        for start, table in self._parts:
            found[start : start + table.nbytes] = table.reshape(-1).view(np.uint8)
        return found


class _Prepared(NamedTuple):
    """An instruction in memory. record: where its structure is in the tables. items: along both axes."""

    kernel: str
    record: int
    items: tuple[int, int]
    reads: Sequence[Span]
    writes: Sequence[Span]


class _PortMoves:
    """The instructions that move rows of a port, for an array of the caller's.

    form: type and strides of the array. kernel: its name. loops: by instruction, whose places in the array are relative to
    its first element. tables: their records. starts: of each.
    """

    def __init__(
        self,
        port: Port,
        array: np.ndarray,
        moves: dict[int, tuple[Array, tuple[int, ...], int]],
        span: int,
    ) -> None:
        stored, inside = port.stored(array), np.dtype(port.dtype)
        ends = (inside, array.dtype) if port.output else (array.dtype, inside)
        self.form, self.kernel = (array.dtype, array.strides, array.shape), copy_kernel(*ends)
        base = address_of(array) - bounds_of(array)[0]
        tables, self.starts, self.items = _Tables(), dict[int, int](), dict[int, int]()
        for number, (rows, starts, place) in moves.items():
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
    """An array of the caller's on the device. buffer: over its bytes."""

    def __init__(self, context: Context, array: np.ndarray, output: bool) -> None:
        import pyopencl as cl

        low, high = bounds_of(array)
        self.array, self.low, self.size = array, low, max(1, high - low)
        there: Any = (ctypes.c_uint8 * self.size).from_address(low)
        self.host = np.frombuffer(there, np.uint8)
        access = cl.mem_flags.READ_WRITE if output else cl.mem_flags.READ_ONLY
        self.buffer = cl.Buffer(
            context.context, access | cl.mem_flags.USE_HOST_PTR, hostbuf=self.host
        )


class DeviceBound:
    """A program in the memory of a device, see `Bound`. launches: that were started since it was made."""

    def __init__(
        self, context: Context, program: Code, memory: DeviceMemory, uploaded: Uploaded
    ) -> None:
        self._context, self._memory, self._forms = context, memory, program.ports
        self._weights, self.launches = uploaded.weights, 0
        self._opened: dict[int, _Opened] = {}
        self._moves: dict[int, dict[int, tuple[Array, tuple[int, ...], int]]] = {}
        self._ports: dict[int, tuple[_PortMoves, Any]] = {}
        constants, tables = uploaded.constants, _Tables()
        addresses = Addresses(
            constants,
            {name: (MEMORY | start, 1) for name, start in memory.starts.items()},
            lambda offset: WEIGHTS | offset,
            lambda table: TABLES | tables.put(table),
        )
        families = [
            one
            for one in program.instructions
            if not is_move(one) and definitions(one.kernel) is None
        ]
        plain = [
            one._replace(
                fields=one.fields[:-1], refs=one.refs[: -len(one.fields[-1].sizes) or None]
            )
            for one in families
        ]
        steps, starts = addresses.steps(plain)
        base = tables.put(steps)
        where = iter(zip(plain, (base + starts).tolist(), strict=True))
        self._instructions: list[_Prepared] = []
        for number, one in enumerate(program.instructions):
            if is_move(one):
                self._instructions.append(self._move(number, one, addresses))
            elif definitions(one.kernel) is not None:
                loop = _loop(one, constants, addresses)
                record, items = loop.bytes(context.builder.blocks.span)
                at = tables.put(np.frombuffer(record, np.uint8))
                spans = loop.spans(MEMORY)
                self._instructions.append(
                    _Prepared(one.kernel, at, (items, 1), *map(_in_memory, spans))
                )
            else:
                bare, at = next(where)
                spans = _touched(one, addresses)
                self._instructions.append(
                    _Prepared(
                        one.kernel, at, items_of(bare, constants, context.builder.blocks), *spans
                    )
                )
        self._tables = self._uploaded(tables.bytes())

    def _uploaded(self, values: np.ndarray) -> Any:
        import pyopencl as cl

        flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
        return cl.Buffer(self._context.context, flags, hostbuf=values)

    def _move(self, number: int, one: Instruction, addresses: Addresses) -> _Prepared:
        port, starts, rows = one.fields
        (ref,) = one.refs
        assert ref is not None
        place = addresses.of(ref)
        self._moves.setdefault(port, {})[number] = rows, starts, place
        reach = sum((n - 1) * s for n, s in zip(rows.shape, rows.strides, strict=True))
        span = place & _OFFSET, (place & _OFFSET) + reach + np.dtype(rows.dtype).itemsize
        output = self._forms[port].output
        return _Prepared(
            f"port.{port}", number, (0, 0), [span] if output else [], [] if output else [span]
        )

    def open(self, port: int, array: np.ndarray | None) -> None:
        """See `Bound.open`."""
        if array is None:
            self._opened.pop(port, None)
            return
        if not (array.flags.aligned and array.dtype.isnative):
            array = np.array(array, array.dtype.newbyteorder("="))  # rare: bytes of a file
        there, form = self._opened.get(port), self._forms[port]
        if there is None or there.array is not array:
            self._opened[port] = _Opened(self._context, array, form.output)
        made = self._ports.get(port)
        if made is None or made[0].form != (array.dtype, array.strides, array.shape):
            moves = _PortMoves(
                form, array, self._moves.get(port, {}), self._context.builder.blocks.span
            )
            self._ports[port] = moves, self._uploaded(moves.bytes)

    def prepared(self, numbers: Sequence[int]) -> Callable[[], None]:
        """See `Bound.prepared`."""
        some = [self._instructions[number] for number in numbers]
        groups = levels(self._memory.size, [(one.reads, one.writes, one.kernel) for one in some])
        order = [numbers[k] for group in groups for k in group]
        records = np.array([self._instructions[number].record for number in order], np.int32)
        which = self._uploaded(records if len(records) else np.zeros(1, np.int32))
        runs: list[Callable[[], None]] = []
        first = 0
        for group in groups:
            mine = order[first : first + len(group)]
            kernel = self._instructions[mine[0]].kernel
            if kernel.startswith("port."):
                runs.append(self._moving(int(kernel.removeprefix("port.")), mine))
            else:
                runs.append(self._launch(kernel, mine, which, first))
            first += len(group)
        count = len(runs)

        def run(kept: object = (self, which)) -> None:
            for one in runs:
                one()
            self.launches += count

        return run

    def _kernel(self, name: str) -> Any:
        import pyopencl as cl

        return cl.Kernel(self._context.builder.program(name), f"csdf_{name}")

    def _launch(self, name: str, mine: Sequence[int], which: Any, first: int) -> Callable[[], None]:
        import pyopencl as cl

        local = (*self._context.builder.blocks.local, 1) if definitions(name) is None else LOCAL
        both = zip(*(self._instructions[number].items for number in mine), strict=True)
        most = (*(max(1, *some) for some in both), len(mine))
        size = tuple(-(-n // m) * m for n, m in zip(most, local, strict=True))
        kernel, queue = self._kernel(name), self._context.queue
        kernel.set_args(self._memory.buffer, self._weights, self._tables, which, np.int32(first))

        def run() -> None:
            cl.enqueue_nd_range_kernel(queue, kernel, size, local)

        return run

    def _moving(self, port: int, mine: Sequence[int]) -> Callable[[], None]:
        import pyopencl as cl

        known: list[Any] = [None, None, None, (0, 0, 0)]

        def run() -> None:
            opened = self._opened.get(port)
            if opened is None:
                return
            moves, tables = self._ports[port]
            if known[0] is not moves:
                which = self._uploaded(
                    np.array([moves.starts[number] for number in mine], np.int32)
                )
                size = (
                    max(64, -(-max(moves.items[number] for number in mine) // 64) * 64),
                    1,
                    len(mine),
                )
                known[:] = moves, self._kernel(moves.kernel), which, size
            _, kernel, which, size = known
            kernel.set_args(self._memory.buffer, opened.buffer, tables, which, np.int32(0))
            cl.enqueue_nd_range_kernel(self._context.queue, kernel, size, LOCAL)

        return run

    def wait(self) -> None:
        """See `Bound.wait`."""
        import pyopencl as cl

        for port, opened in self._opened.items():
            if self._forms[port].output:
                mapped, _ = cl.enqueue_map_buffer(
                    self._context.queue,
                    opened.buffer,
                    cl.map_flags.READ,
                    0,
                    (opened.size,),
                    np.uint8,
                )
                mapped.base.release(self._context.queue)
        self._context.queue.finish()


def _loop(one: Instruction, constants: Constants, addresses: Addresses) -> Loop:
    """An instruction of a kernel on arrays, its dimensions as numbers."""
    record = record_of(one)
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
    touched: Touched = one.fields[-1]
    refs = one.refs[len(one.refs) - len(touched.sizes) :]
    spans = []
    for ref, size in zip(refs, touched.sizes, strict=True):
        assert ref is not None
        at = addresses.of(ref) & _OFFSET
        spans.append((at, at + size))
    return spans[: touched.reads], spans[touched.reads :]
