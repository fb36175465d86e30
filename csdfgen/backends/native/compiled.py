"""How does a program become a file that C can run? Steps, tables and records as the kernels read them, in one image, packed
constants, and a list of the places of the image where addresses belong.

The layout is that of csdfgen/backends/native/c/program.h. The image is made twice, for memory at two sets of addresses:
the words that differ are addresses, and by how much they differ says of which pool.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterator, Mapping, Sequence
from ctypes import c_size_t, c_uint64, c_void_p
from functools import cached_property
from itertools import accumulate, groupby, pairwise, product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from csdfgen.backends.native.bound import PORTS, Addresses
from csdfgen.backends.native.library import Library
from csdfgen.backends.native.regions import list_regions
from csdfgen.backends.native.structures import (
    POINTER,
    constant,
    copy_kernel,
    ctype,
    instruction,
    structure,
)
from csdfgen.backends.native.threads import (
    arrange_sections,
    count_together,
    divide_among_threads,
)
from csdfgen.errors import PlanError
from csdfgen.files import COMPILED, find_mapped_file, release_pages, replace_file
from csdfgen.ops.base import align_size
from csdfgen.program.instructions import Instruction, Ref, get_address, place_kernel
from csdfgen.program.steps import End, Touched, View, WholeCode

_SUMMED = 16
"""The first byte that the checksum counts."""

_PAGE = mmap.ALLOCATIONGRANULARITY
_IMAGE, _ARENA, _WEIGHTS, _KERNELS = range(4)
_BASES = tuple(1 << bit for bit in (48, 49, 50, 51))
"""Where pools begin, for the first image."""

_SHIFTS = tuple(1 << bit for bit in (52, 53, 54, 55))
"""How much further they begin for the second one."""


_COUNTS = "counts"
"""The pool of counters."""

Choice, Suspect, Shift = (
    structure(f"csdf_{name}").record for name in ("choice", "suspect", "shift")
)


class _Looks:
    """Instructions that look at memory for whoever runs a program: they count branches that are taken, and NaNs.

    made: the instructions. after: firing -> the numbers of those that follow it. told: the first counter of each branch (false,
    true), and that of each comparison. count: of them all.
    """

    def __init__(self, program: WholeCode) -> None:
        self.made: list[Instruction] = []
        self.after: dict[int, list[int]] = {}
        branches = dict.fromkeys(
            one.branch for at in sorted(program.joins) for one in program.joins[at]
        )
        nans = dict.fromkeys(why for some in program.compared.values() for _, why in some)
        behind = 2 * len(branches)
        self.told = {
            "branches": {name: 2 * k for k, name in enumerate(branches)},
            "nans": {why: behind + k for k, why in enumerate(nans)},
        }
        self.count = behind + len(nans)
        counters = {**self.told["branches"], **self.told["nans"]}
        places = {name: Ref(_COUNTS, 8 * k) for name, k in counters.items()}
        for firing, some in program.compared.items():
            for view, why in some:
                self._follow(firing, *_suspects(view, places[why]))
        for firing, conditions in program.joins.items():
            for one in conditions:
                at = Ref(one.view.pool, one.view.rows[0])
                self._follow(firing, instruction("choose_of", Choice(at, places[one.branch])))

    def _follow(self, firing: int, *made: Instruction) -> None:
        numbers = range(len(self.made), len(self.made) + len(made))
        self.made += made
        self.after.setdefault(firing, []).extend(numbers)


def _suspects(view: View, count: Ref) -> Iterator[Instruction]:
    """What counts the NaNs of a view, one instruction for each of its innermost axes."""
    dtype = np.dtype(view.format.dtype)
    infinity = int(np.array(np.inf, dtype).view(f"u{dtype.itemsize}"))
    for piece in view.pieces or (view,):
        *outer, size = piece.shape or (1,)
        *steps, stride = piece.strides or (0,)
        for row, at in product(piece.rows, product(*map(range, outer))):
            place = row + sum(k * step for k, step in zip(at, steps, strict=True))
            values = Ref(piece.pool, place)
            made = Suspect(values, count, size, infinity, stride, dtype.itemsize)
            yield instruction("suspected_of", made)


class _Image:
    """The bytes that kernels read, for pools that begin at `bases`."""

    def __init__(self, compiled: _Compiled, bases: Sequence[int]) -> None:
        self._parts: list[tuple[int, np.ndarray]] = []
        self.size, self._bases, self._compiled = 0, bases, compiled
        pools = {name: (bases[_ARENA] + at, 1) for name, at in compiled.pools.items()}
        self.ports = self._put(np.frombuffer(compiled.opened(self._kernel), np.uint8))
        pools[PORTS] = self.ports, structure(PORTS).size
        called = sorted(compiled.constants.called)
        pools |= {place_kernel(one).pool: (self._kernel(one), 1) for one in called}
        addresses = Addresses(
            compiled.constants, pools, lambda offset: bases[_WEIGHTS] + offset, self._put
        )
        steps, starts = addresses.steps(compiled.instructions)
        records = np.empty((len(compiled.order), 2), np.uintp)
        records[:, 0] = [self._kernel(compiled.instructions[k].kernel) for k in compiled.order]
        records[:, 1] = self._put(steps) + starts[compiled.order]
        self.records = self._put(records)

    def _kernel(self, name: str) -> int:
        return self._bases[_KERNELS] + self._compiled.kernels.setdefault(
            name, len(self._compiled.kernels)
        )

    def _put(self, array: np.ndarray) -> int:
        """The address of an array, which may be filled later."""
        at = self.size
        self._parts.append((at, array))
        self.size += align_size(array.nbytes)
        return self._bases[_IMAGE] + at

    def words(self) -> np.ndarray:
        """All of it, in numbers of 64 bits."""
        found = np.zeros(self.size, np.uint8)
        for at, array in self._parts:
            found[at : at + array.nbytes] = array.reshape(-1).view(np.uint8)
        return found.view(np.uint64)


class _Compiled:
    """What of a program its file has."""

    def __init__(
        self,
        program: WholeCode,
        inputs: Sequence[End],
        outputs: Sequence[End],
        batch: int,
        threads: int,
    ) -> None:
        self.program, self._batch, self.looks = program, batch, _Looks(program)
        self.ends = [*((one, False) for one in inputs), *((one, True) for one in outputs)]
        self.kernels: dict[str, int] = {}
        self.order: list[int] = []
        self.runs: list[tuple[int, int, int, int]] = []
        self.guards: list[tuple[int, int]] = []
        self.pools, self.arena = dict[str, int](), 0
        for name, size in (*program.pools.items(), (_COUNTS, 8 * self.looks.count)):
            self.pools[name] = self.arena
            self.arena += align_size(size)
        self.constants = program.constants.copy()  # parts of steps have tables of their own
        repeats = program.repeats
        whole = (
            *program.instructions,
            *self.looks.made,
            *self._shifts(repeats.rows if repeats else ()),
        )
        self._touched = program.touched if threads > 1 else dict[int, Touched]()
        together = count_together(self._touched)
        shared = [
            divide_among_threads(one, threads, self.constants, together.get(number, 1))
            for number, one in enumerate(whole)
        ]
        self.instructions = [one for sections in shared for parts in sections for one in parts]
        self._regions = list_regions(self.instructions, self.constants) if threads > 1 else {}
        self.sections: list[tuple[int, int, int]] = []
        self.firsts: list[int] = []
        records = iter(pairwise(accumulate((len(p) for some in shared for p in some), initial=0)))
        self._spans = [[range(*next(records)) for _ in some] for some in shared]
        if repeats is None:
            self._add_firings(0, len(program.code))
            return
        self._add_firings(0, repeats.stop)
        begin = len(self.runs)
        self._add_run(range(len(whole) - len(repeats.rows), len(whole)), ())
        self._add_firings(repeats.start, repeats.stop)
        self.runs += (repeats.more - 1) * self.runs[begin:]
        self._add_firings(repeats.stop, len(program.code))

    def _shifts(self, rows: Sequence[int]) -> Iterator[Instruction]:
        """What moves each port by so many rows."""
        for number, count in enumerate(rows):
            step = self._strides(number)[0]
            yield instruction("shift_port_of", Shift(Ref(PORTS, number), count * step))

    def _add_firings(self, start: int, stop: int) -> None:
        for guards, group in groupby(range(start, stop), self.program.guards.__getitem__):
            self._add_run([one for firing in group for one in self._numbers(firing)], guards)

    def _add_run(self, numbers: Sequence[int], guards: Sequence[Any]) -> None:
        first = len(self.sections)
        self._put(numbers)
        self.runs.append((first, len(self.sections) - first, len(self.guards), len(guards)))
        self.guards += map(self._guard, guards)

    def _numbers(self, firing: int) -> Iterator[int]:
        """What a firing executes."""
        yield from (*self.program.code[firing], *self.program.stores[firing])
        behind = len(self.program.instructions)
        yield from (behind + number for number in self.looks.after.get(firing, ()))

    def _put(self, numbers: Sequence[int]) -> None:
        """Sections of instructions that follow each other."""
        begin = len(self.order)
        order, sections = arrange_sections(numbers, self._spans, self._touched, self._regions)
        self.order += order
        for start, first in sections:
            self.sections.append((begin + start, len(self.firsts), len(first) - 1))
            self.firsts += first

    def _guard(self, condition: Any) -> tuple[int, int]:
        view = condition.view
        return self.pools[view.pool] + view.rows[0], int(condition.taken)

    @cached_property
    def _of_ports(self) -> list[tuple[int, End]]:
        numbers = {(end.name, output): k for k, (end, output) in enumerate(self.ends)}
        found = [numbers[port.name, port.output] for port in self.program.ports]
        return [(number, self.ends[number][0]) for number in found]

    def opened(self, kernel: Any) -> Any:
        """The structures of the ports, for arrays in C order."""
        made = (ctype(PORTS) * max(1, len(self.program.ports)))()
        ports = zip(made, self.program.ports, self._of_ports, strict=False)
        for number, (here, port, (_, end)) in enumerate(ports):
            strides = self._strides(number)
            here.strides[: len(strides)] = strides
            here.copy = kernel(copy_kernel(end.dtype, np.dtype(port.dtype)))
        return made

    def _strides(self, number: int) -> tuple[int, ...]:
        """Bytes between the elements of a port's array, in storage order."""
        end = self._of_ports[number][1]
        shape = end.shape if self._batch == 1 else (1, *end.shape[1:])
        return self.program.ports[number].stored(np.empty(shape, end.dtype)).strides

    def arrays(self, first: int) -> list[tuple[int, int, int, int]]:
        """Of each port: tensor, its structure, and bytes of its image and of the next run's in the tensor's array."""
        found, size = [], structure(PORTS).size
        for k, (port, (number, end)) in enumerate(
            zip(self.program.ports, self._of_ports, strict=True)
        ):
            each = prod(end.shape) * end.dtype.itemsize // self._batch
            found.append((number, first + k * size, port.image * each, self.program.images * each))
        return found

    def image(self) -> tuple[np.ndarray, np.ndarray, _Image]:
        """(words, places where addresses belong: (n, 3) of place, pool, offset; the first image)."""
        first = _Image(self, _BASES)
        words = first.words()
        moved = _Image(self, [a + b for a, b in zip(_BASES, _SHIFTS, strict=True)]).words() - words
        at = np.flatnonzero(moved)
        pools = np.searchsorted(np.array(_SHIFTS, np.uint64), moved[at])
        places = np.stack(
            [8 * at.astype(np.uint64), pools, words[at] - np.array(_BASES, np.uint64)[pools]], 1
        )
        words[at] = 0
        return words, places.astype(np.uint64), first


def write_compiled(
    path: str | Path,
    program: WholeCode,
    library: Library,
    inputs: Sequence[End],
    outputs: Sequence[End],
    batch: int,
    about: Mapping[str, Any],
    threads: int = 1,
) -> int:
    """Write a program as a file that `csdfgen_open` opens; returns its bytes. batch: images of the arrays;
    about: what is told of the program, for JSON. threads: that execute it.

    Raises PlanError for a program that native code alone does not compute, InputError for a file that cannot be written.
    """
    missing = sorted({one.kernel for one in program.instructions if not library.has(one.kernel)})
    if missing or POINTER != 8:
        what = f"'{missing[0]}' by numpy" if missing else f"with addresses of {POINTER} bytes"
        raise PlanError(f"is computed {what}; a compiled program is for native code of 64 bits")
    made, texts = _Compiled(program, inputs, outputs, batch, threads), _Texts()
    words, places, image = made.image()
    blocks = [(one.start, one.values) for one in program.constants.blocks]
    size = blocks[-1][0] + align_size(blocks[-1][1].nbytes) if blocks else 0
    tensors, rank = [], constant("CSDF_RANK")
    for end, output in made.ends:
        place = 0
        if end.constant is not None:
            values = np.ascontiguousarray(end.constant).reshape(-1).view(np.uint8)
            blocks.append((size, values))
            place, size = size + 1, size + align_size(values.nbytes)
        sizes = [*end.shape, *[0] * (rank - len(end.shape))]
        words_of = texts.place(end.name), texts.place(end.dtype.name)
        tensors.append((*words_of, output, len(end.shape), end.dtype.itemsize, place, *sizes))
    about = {**about, **made.looks.told, "threads": threads}
    said = texts.place(json.dumps(about)), texts.place(library.instructions)
    first = _BASES[_IMAGE]
    tables = [
        ([texts.place(f"csdf_{name}") for name in made.kernels], 1), (places, 3), (made.runs, 4), (made.guards, 2),
        (tensors, 6 + rank), (made.arrays(image.ports - first), 4), (made.sections, 3),
    ]  # fmt: skip
    parts = [(bytes(texts.said), 1), (words.tobytes(), 1), (b"", 1)]
    parts += [(np.array(rows, np.uint64).tobytes(), 8 * wide) for rows, wide in tables]
    parts.append((np.array(made.firsts, np.int32).tobytes(), 4))
    numbers = [
        constant("CSDF_VERSION"), POINTER, *said, made.arena, image.records - first, batch // program.images,
    ]  # fmt: skip
    at, sections = 8 * (3 + len(numbers) + 2 * (len(parts) + 1)), list[int]()
    for data, each in parts:
        at = align_size(at)
        sections += (at, len(data) // each)
        at += len(data)
    at += -at % _PAGE
    sections[2 * _WEIGHTS : 2 * _WEIGHTS + 2] = at, size
    total = at + size
    counts = made.pools[_COUNTS], made.looks.count
    head = np.array([0, total, *numbers, *sections, *counts], np.uint64).tobytes()
    with replace_file(path) as file:
        file.truncate(total)
        file.write(COMPILED + head)
        for (data, _), start in zip(parts, sections[::2], strict=True):
            file.seek(start)
            file.write(data)
        for start, values in blocks:
            file.seek(at + start)
            file.write(values.data)
            release_pages([find_mapped_file(values)])  # as those of the new file come next
        file.flush()
        with mmap.mmap(file.fileno(), total) as whole:
            summed = np.frombuffer(whole, np.uint8)[_SUMMED:]
            found = library.function("checksum", c_uint64, c_void_p, c_size_t)(
                get_address(summed), summed.size
            )
            del summed  # which keeps the file mapped
            whole[len(COMPILED) : _SUMMED] = found.to_bytes(8, "little")
    return total


class _Texts:
    """Words, each with a zero behind it."""

    def __init__(self) -> None:
        self.said = bytearray()

    def place(self, text: str) -> int:
        """Where a word begins."""
        at = len(self.said)
        self.said += text.encode("utf-8", "replace").replace(b"\0", b" ") + b"\0"
        return at
