"""Which maps of a step are one launch? Those that write the same elements one after the other, as the parts of an activation do.

An item computes its elements by one map after the other. What it reads of the elements that the maps write are its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from csdfgen.backends.native.structures import get_record
from csdfgen.program.instructions import WEIGHTS, Constants, Instruction, Ref, find_row_pool

MAP, CHAIN = "map_of", "maps_of"


class Touched(NamedTuple):
    """The last field of an instruction of a family: how many of its last references are where spans begin that are read and
    that are written, and the bytes of each. blocks: a word for those of its kernel (`shapes`), "" for the device's.
    """

    reads: int
    writes: int
    sizes: tuple[int, ...]
    blocks: str = ""


def strip_instruction(one: Instruction) -> Instruction:
    """An instruction of a family as native code has it."""
    return Instruction(
        one.kernel, one.fields[:-1], one.refs[: len(one.refs) - len(one.fields[-1].sizes)]
    )


def list_spans(one: Instruction) -> tuple[list[tuple[Ref, int]], list[tuple[Ref, int]]]:
    """Where what an instruction reads and writes begins, and its bytes."""
    touched: Touched = one.fields[-1]
    refs: Sequence[Any] = one.refs[len(one.refs) - len(touched.sizes) :]
    spans = list(zip(refs, touched.sizes, strict=True))
    return spans[: touched.reads], spans[touched.reads :]


def links(one: Instruction) -> list[Instruction]:
    """The maps of a chain."""
    count, *fields = strip_instruction(one).fields
    refs = strip_instruction(one).refs
    f, r = len(fields) // count, len(refs) // count
    return [
        Instruction(MAP, tuple(fields[k * f : k * f + f]), refs[k * r : k * r + r])
        for k in range(count)
    ]


def fuse_chains(made: Sequence[Instruction], constants: Constants) -> list[Instruction]:
    """The same instructions, maps of the same elements as one."""
    found: list[list[Instruction]] = []
    for one in made:
        last = found[-1] if found else []
        if last and one.kernel == last[0].kernel == MAP and _goes_on(last[0], one, constants):
            last.append(one)
        else:
            found.append([one])
    return [some[0] if len(some) == 1 else _chain(some) for some in found]


def _goes_on(first: Instruction, after: Instruction, constants: Constants) -> bool:
    """Whether a map writes the elements of another one, and reads of these its own alone."""
    one, two = (get_record(strip_instruction(x)) for x in (first, after))
    if (one.count, one.columns, one.channels) != (two.count, two.columns, two.channels):
        return False
    if one.out != two.out or one.stride != two.stride:
        return False
    pool, made = find_row_pool(two.out), constants.rows_of(two.out)
    size = _FLOAT * ((two.columns - 1) * two.stride + two.channels)
    for source in two.operands:
        if (
            source.rows is None
            or find_row_pool(source.rows) in (WEIGHTS, None)
            or find_row_pool(source.rows) != pool
        ):
            continue
        if (
            source.rows == two.out
            and (source.stride == two.stride or two.columns == 1)
            and source.channels
        ):
            continue
        rows = constants.rows_of(source.rows)
        reach = _FLOAT * ((two.columns - 1) * source.stride + two.channels)
        if min(rows) < max(made) + size and min(made) < max(rows) + reach:
            return False
    return True


_FLOAT = 4


def _chain(some: Sequence[Instruction]) -> Instruction:
    reads: dict[tuple[Ref, int], None] = {}
    writes: dict[tuple[Ref, int], None] = {}
    for one in some:
        read, written = list_spans(one)
        reads |= dict.fromkeys(read)
        writes |= dict.fromkeys(written)
    spans = [*reads, *writes]
    touched = Touched(len(reads), len(writes), tuple(size for _, size in spans))
    plain = [strip_instruction(one) for one in some]
    fields = (len(some), *(field for one in plain for field in one.fields), touched)
    refs = (*(ref for one in plain for ref in one.refs), *(ref for ref, _ in spans))
    return Instruction(CHAIN, fields, refs)
