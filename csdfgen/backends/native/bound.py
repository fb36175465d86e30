"""How does a program become what the kernels run? Every reference becomes an address, once for a memory.

Tables of constants and the steps of all instructions are bytes as their structures say; a frame is a table of kernels
and steps, which one call of the library works off. Instructions of numpy between them, where the backend may fall back
on it, are calls of their own.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain, groupby
from typing import Any

import numpy as np

from csdfgen.backends.native.library import Library
from csdfgen.backends.native.regions import Regions, list_regions
from csdfgen.backends.native.structures import (
    POINTER,
    Dim,
    copy_kernel,
    ctype,
    instruction,
    kernel_structure,
    list_slots,
    structure,
)
from csdfgen.backends.native.threads import (
    Team,
    arrange_sections,
    count_together,
    divide_among_threads,
)
from csdfgen.backends.numpy.arrays import HostMemory, place_rows
from csdfgen.backends.numpy.bound import BLAS, bind_call, call_all
from csdfgen.program.instructions import (
    PADDING,
    WEIGHTS,
    Constants,
    Instruction,
    Ref,
    find_row_pool,
    get_address,
    place_kernel,
)
from csdfgen.program.steps import Awaiting, Call, Code, Move, Touched

Transfer = structure("csdf_transfer").record
Signal = structure("csdf_signal").record

PORTS = "csdf_port"
"""The pool of the ports, in the order of the program's. The array of a frame is known when the frame starts: its address,
strides and type are in a structure that kernels read, so that arrays in any order and of any type are used in place.
"""


_COUNTERS = "counters"
"""The pool of the counters by which threads wait for each other, each on a line of cache of its own."""

_LINE = 64


_RUN = 8
"""Elements of a run that is worth a call of its own."""


def moves(move: Move, constants: Constants) -> list[Instruction]:
    """The kernels that move rows between the array of a port and memory, one a run."""
    found = []
    for at, place, shape, strides in place_rows(move.starts, move.view):
        # the longest last: that is the loop that counts; or runs that are in one piece here and in most arrays
        axes = [axis for axis, size in enumerate(shape) if size > 1]
        run = axes[-1] if axes and strides[axes[-1]] == move.view.format.itemsize else None
        whole = run is not None and shape[run] >= _RUN
        order = sorted(axes, key=lambda axis: (whole and axis == run, shape[axis], axis))
        made = Transfer(
            Ref(PORTS, move.port),
            constants.table("csdf_dim", [Dim(shape[k], strides[k]) for k in order]),
            constants.table("int32_t", order),
            constants.table("int32_t", at),
            len(order),
            len(at),
            int(move.output),
            place,
        )
        found.append(instruction("move", made))
    return found


class NativeBound:
    """A program in arrays of this process, see `Bound`. team: threads that share it."""

    driven = None

    def __init__(
        self,
        library: Library,
        program: Code,
        memory: HostMemory,
        constants: Constants,
        team: Team | None = None,
    ) -> None:
        self._library, self._team, self._memory = library, team, memory
        sections = [[[one]] for one in program.instructions]
        self._touched: Mapping[int, Touched] = {}
        self._regions: Mapping[int, Regions] = {}
        if team is not None:
            constants, self._touched = constants.copy(), program.touched  # parts have tables
            together = count_together(self._touched)
            sections = [
                divide_among_threads(one, team.threads, constants, together.get(number, 1))
                for number, one in enumerate(program.instructions)
            ]
        self._ports: Any = (ctype("csdf_port") * max(1, len(program.ports)))()
        self._here: list[Any] = list(self._ports)
        self._forms = program.ports
        self._opened: dict[int, tuple[np.dtype, tuple[int, ...]]] = {}
        self._arrays: list[np.ndarray | None] = [None] * len(self._here)
        pools = {name: (get_address(array), 1) for name, array in memory.items()}
        pools[PORTS] = ctypes.addressof(self._ports), structure(PORTS).size
        pools |= {place_kernel(one).pool: (library.address(one), 1) for one in constants.called}

        def weight(offset: int) -> int:
            block = constants.block(offset)
            return get_address(block.values) + offset - block.start

        addresses = Addresses(constants, pools, weight)
        self._addresses, self._kept = addresses, constants
        self._numpy: dict[int, list[Call]] = {}
        self._spans: list[list[range]] = []  # records of the sections of each
        native: list[Instruction] = []
        for number, some in enumerate(sections):
            self._spans.append([])
            for parts in some:
                first = len(native)
                if library.has(parts[0].kernel):
                    native += parts
                else:
                    self._numpy[number] = [bind_call(one, memory, constants) for one in parts]
                self._spans[-1].append(range(first, len(native)))
        self._records = self._recorded(native, addresses)
        if team is not None:
            self._regions = list_regions(native, constants)
        self._instructions = program.instructions
        if self._numpy:
            BLAS.join(self)

    def open(self, port: int, array: np.ndarray | None, first: int = 0) -> None:
        """See `Bound.open`."""
        here = self._here[port]
        self._arrays[port] = array
        if array is None:
            here.base = None
            return
        if not array.flags.aligned:
            array = self._arrays[port] = array.copy()  # rare: bytes of a file
        known = array.dtype, array.strides
        if self._opened.get(port) != known:
            if not array.dtype.isnative:
                self.open(port, array.astype(array.dtype.newbyteorder("=")), first)
                return
            form = self._forms[port]
            stored = form.stored(array)
            here.strides[: stored.ndim] = stored.strides
            here.copy = self._library.address(copy_kernel(array.dtype, np.dtype(form.dtype)))
            self._opened[port] = known
        try:  # a buffer tells its address in a third of the time that numpy takes
            here.base = _place(_first(array))
        except (TypeError, ValueError, BufferError):  # read only, not contiguous, or empty
            here.base = get_address(array)
        if first:
            here.base = (here.base or 0) - first * here.strides[0]

    def prepared(self, numbers: Sequence[int]) -> Callable[[], None]:
        """See `Bound.prepared`."""
        calls: list[Call] = []
        for by_numpy, group in groupby(numbers, self._numpy.__contains__):
            if by_numpy:
                some = [call for number in group for call in self._numpy[number]]
                calls.append((call_all, (some, 1 if self._team is None else self._team.threads)))
            else:
                calls.append(self._chained(list(group)))

        if len(calls) == 1:
            run: Any = partial(calls[0][0], *calls[0][1])
        else:

            def run() -> None:
                for function, arguments in calls:
                    function(*arguments)

        run.kept = self, calls
        return run

    def _recorded(self, made: Sequence[Instruction], addresses: Addresses) -> np.ndarray:
        """A record of each instruction: kernel, step."""
        steps, starts = addresses.steps(made)
        records = np.empty((len(made), 2), np.uintp)
        records[:, 0] = [self._library.address(one.kernel) for one in made]
        records[:, 1] = get_address(steps) + starts
        return records

    def wait(self) -> None:
        """See `Bound.wait`: what was started has ended."""

    def mark(self) -> None:
        """See `Bound.mark`."""

    def _chained(self, numbers: Sequence[int]) -> Call:
        """One call for instructions of native code that follow each other."""
        if self._team is None:
            spans = (span for number in numbers for span in self._spans[number])
            table: Any = np.ascontiguousarray(self._records[[*chain.from_iterable(spans)]])
            # the argument keeps the table alive
            return self._library.run, (
                (ctypes.c_char * table.nbytes).from_buffer(table),
                len(table),
            )
        order, sections = arrange_sections(numbers, self._spans, self._touched, self._regions)
        table = np.ascontiguousarray(self._records[order])
        return self._team.sections(get_address(table), sections, table)

    def sliced(self, numbers: Sequence[int]) -> Callable[..., None] | None:
        """See `Sliced`: a table of all of them."""
        if self._numpy or self._team is not None:
            return None
        table = np.ascontiguousarray(self._records[numbers])
        run, first, size = self._library.run, get_address(table), table.strides[0]
        kept, here = (self, table), self._here

        def run_slice(start: int, stop: int, places: Any = (), kept: object = kept) -> None:
            for port, array, before in places:
                here[port].base = _place(_first(array)) - before
            run(first + size * start, stop - start)

        return run_slice

    def self_timed(self, lists: Sequence[Sequence[Awaiting]]) -> Callable[[], None] | None:
        """See `SelfTimed`: a thread of the team for each list, and a counter for each thread."""
        if self._numpy or self._team is None or self._team.threads < len(lists):
            return None
        signals: list[Instruction] = []
        order: list[int] = []  # of records, those of signals behind the program's

        def take(kernel: str, core: int, count: int) -> None:
            order.append(len(self._instructions) + len(signals))
            signals.append(instruction(kernel, Signal(Ref(_COUNTERS, core), count)))

        for core in range(len(lists)):
            take("post_of", core, 0)
        parts = [0]
        for core, firings in enumerate(lists):
            for one in firings:
                for wait in one.waits:
                    take("await_of", *wait)
                order += one.numbers  # each as a whole: there is one thread for it
                if one.reached:
                    take("post_of", core, one.reached)
            parts.append(len(order) - len(lists))
        counters = np.zeros(len(lists) * _LINE, np.uint8)
        addresses = Addresses(
            Constants(), {_COUNTERS: (get_address(counters), _LINE)}, lambda at: at
        )
        records = [
            self._recorded(self._instructions, self._addresses),
            self._recorded(signals, addresses),
        ]
        table = np.ascontiguousarray(np.concatenate(records)[order])
        sections = [(0, [0, len(lists)]), (len(lists), parts)]
        function, arguments = self._team.sections(
            get_address(table), sections, (self, table, addresses, counters)
        )
        return partial(function, *arguments)


_first: Callable[[Any], Any] = ctypes.c_char.from_buffer
_place = ctypes.addressof


class Addresses:
    """Numbers of 64 bits for everything that instructions refer to: addresses in this process, or what a device takes for
    such.

    pools: of memory, name -> (number of its first byte, bytes of what offsets count). weights: the number of a place in the
    pool of weights. put: the number of a table of constants, an array that lives as long as this.
    """

    def __init__(
        self,
        constants: Constants,
        pools: Mapping[str, tuple[int, int]],
        weights: Callable[[int], int],
        put: Callable[[np.ndarray], int] = get_address,
    ) -> None:
        self._bases, self._weights = dict(pools), weights
        self._known: dict[int, int] = {}
        self._kept: list[np.ndarray] = []
        nested = []
        for name, rows in constants.tables.items():
            places = find_row_pool(Ref(name, 0))
            if places is not None:
                table = self._row_table(places, rows)
            elif name == "int32_t":
                table = np.array([0 if one is None else one for one in rows], np.int32)
            else:
                table = np.zeros(len(rows) * structure(name).size, np.uint8)
                nested.append((name, rows, table))
            size = structure(name).size if table.dtype == np.uint8 else table.itemsize
            self._bases[name] = put(table), size
            self._kept.append(table)
        for name, rows, table in nested:
            found = structure(name)
            for k, row in enumerate(rows):
                if row is not None:
                    values = [self._value(one) for one in found.flat(row)]
                    found.pack_into(table, k * found.size, values)

    def _row_table(self, pool: str, rows: Sequence[int | None]) -> np.ndarray:
        """Addresses of rows; NULL for padding."""
        if pool == WEIGHTS:
            return np.array([self.of(Ref(WEIGHTS, one or 0)) for one in rows], np.uintp)
        offsets = np.array([PADDING if one is None else one for one in rows], np.int64)
        base = np.uintp(self._bases[pool][0])
        return np.where(offsets == PADDING, np.uintp(0), offsets.astype(np.uintp) + base)

    def of(self, ref: Ref) -> int:
        """The address of a place."""
        if ref.pool != WEIGHTS:
            base, size = self._bases[ref.pool]
            return base + size * ref.offset
        found = self._known.get(ref.offset)
        if found is None:
            found = self._known[ref.offset] = self._weights(ref.offset)
        return found

    def _value(self, one: Any) -> Any:
        if one is None:
            return 0
        return self.of(one) if type(one) is Ref else one

    def steps(self, instructions: Sequence[Instruction]) -> tuple[np.ndarray, np.ndarray]:
        """What the kernels of instructions work on: the bytes of all their structures, and where each starts in them."""
        sizes = [kernel_structure(one.kernel).size for one in instructions]
        starts = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64))).astype(np.int64)
        steps = np.zeros(int(starts[-1]) or 1, np.uint8)
        for one, start in zip(instructions, starts.tolist(), strict=False):
            places = [0 if ref is None else self.of(ref) for ref in one.refs]
            kernel_structure(one.kernel).pack_into(steps, start, list_slots(one, places))
        self._kept.append(steps)
        return steps, starts[:-1]


assert np.dtype(np.uintp).itemsize == POINTER
