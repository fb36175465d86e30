"""The finite check of orders that repeat refuses what the checker of plans refuses at any height."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from types import MappingProxyType

import numpy as np
import pytest

from csdfgen.errors import CsdfgenError
from csdfgen.planning.checker import check
from csdfgen.planning.lifetimes import trace_lifetimes
from csdfgen.planning.prepared import Phased
from csdfgen.planning.repeating import Loop
from csdfgen.planning.stream_checker import check_loop
from csdfgen.planning.streams import draft_stream, phase_stream
from tests.unit.test_loops import network
from tests.unit.test_streams import STEP, streamed
from tests.ways import some

NAMES = ("strided", "dilated")
Random = np.random.Generator


def find_fault(run: Callable[[], object]) -> str:
    """What is refused; nothing if all is well."""
    try:
        run()
    except CsdfgenError as error:
        return str(error)
    return ""


@cache
def image(name: str, rows: int) -> Phased:
    stream = streamed(name)
    phased = phase_stream(network(name, rows), stream.options, stream.phased.kernels)
    return replace(phased, fine=stream.loop.fine, most=stream.loop.scratch)


def check_unrolled(name: str, loop: Loop, rows: int) -> None:
    """Check the firings of an image one after the other."""
    phased = image(name, rows)
    order = loop.order(phased.conversion)
    placed = loop.placed(phased, trace_lifetimes(order, phased.buffers))
    plan = draft_stream(phased, loop)
    check(replace(plan, order=order, regions=MappingProxyType(placed.regions)))


def check_finite(name: str, loop: Loop) -> None:
    one = draft_stream(streamed(name).phased, loop)
    check_loop(one, loop.before, loop.word, loop.tables)


# Faults ------------------------------------------------------------------------------------------


def pick(rng: Random, loop: Loop, *, scratch: bool = False) -> str:
    names = [name for name in loop.tables if name.startswith("workspace:") == scratch]
    return str(rng.choice(names))


def in_table(loop: Loop, name: str, rows: int, table: dict[int, int]) -> Loop:
    return replace(loop, tables={**loop.tables, name: (rows, table)})


def move_block(rng: Random, loop: Loop, *, scratch: bool = False) -> Loop:
    name = pick(rng, loop, scratch=scratch)
    rows, table = loop.tables[name]
    start = int(rng.choice(list(table)))
    at = max(0, table[start] + 16 * int(rng.integers(-24, 25)))
    return in_table(loop, name, rows, {**table, start: at})


def move_scratch(rng: Random, loop: Loop) -> Loop:
    return move_block(rng, loop, scratch=True)


def exchange_blocks(rng: Random, loop: Loop) -> Loop:
    name = pick(rng, loop)
    rows, table = loop.tables[name]
    a, b = (int(k) for k in rng.choice(list(table), 2))
    return in_table(loop, name, rows, {**table, a: table[b], b: table[a]})


def exchange_tables(rng: Random, loop: Loop) -> Loop:
    a, b = pick(rng, loop), pick(rng, loop)
    if {*loop.tables[a][1]} != {*loop.tables[b][1]}:
        return move_block(rng, loop)
    return replace(loop, tables={**loop.tables, a: loop.tables[b], b: loop.tables[a]})


def shorten_table(rng: Random, loop: Loop) -> Loop:
    """Rows come again a block earlier."""
    name = pick(rng, loop)
    rows, table = loop.tables[name]
    last = max(table)
    left = {start: at for start, at in table.items() if start < last}
    return (
        in_table(loop, name, last, left) if left else in_table(loop, name, max(1, rows - 1), table)
    )


def join_blocks(rng: Random, loop: Loop) -> Loop:
    name = pick(rng, loop)
    rows, table = loop.tables[name]
    start = int(rng.choice(list(table)))
    left = {k: at for k, at in table.items() if k != start or not k}
    return in_table(loop, name, rows, left)


def exchange_firings(rng: Random, loop: Loop) -> Loop:
    word, at = list(loop.word), int(rng.integers(len(loop.word) - 1))
    word[at], word[at + 1] = word[at + 1], word[at]
    return replace(loop, word=tuple(word))


def move_firing(rng: Random, loop: Loop) -> Loop:
    word = list(loop.word)
    word.insert(int(rng.integers(len(word))), word.pop(int(rng.integers(len(word)))))
    return replace(loop, word=tuple(word))


def replace_firing(rng: Random, loop: Loop) -> Loop:
    word = list(loop.word)
    word[int(rng.integers(len(word)))] = str(rng.choice(list(loop.before)))
    return replace(loop, word=tuple(word))


def change_count(rng: Random, loop: Loop) -> Loop:
    name = str(rng.choice(list(loop.before)))
    return replace(loop, before={**loop.before, name: loop.before[name] + int(rng.choice([-1, 1]))})


def shrink_arena(rng: Random, loop: Loop) -> Loop:
    return replace(loop, arena=loop.arena - 16 * int(rng.integers(1, 9)))


FAULTS = (
    move_block, move_scratch, exchange_blocks, exchange_tables, shorten_table, join_blocks, exchange_firings,
    move_firing, replace_firing, change_count, shrink_arena,
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("plant", FAULTS)
def test_no_fault_is_accepted_that_an_image_shows(plant: Callable[..., Loop], name: str) -> None:
    stream, step = streamed(name), STEP[name]
    heights = (
        stream.least + stream.turn,
        stream.first // step * step + step,
        3 * stream.period + step,
    )
    rng = np.random.default_rng(FAULTS.index(plant))
    refused = 0
    for _ in range(some(20, 500)):
        loop = plant(rng, stream.loop)
        fault = find_fault(lambda loop=loop: check_finite(name, loop))
        refused += bool(fault)
        if not fault:
            for rows in heights:
                assert not find_fault(lambda loop=loop, rows=rows: check_unrolled(name, loop, rows))
    assert refused


@pytest.mark.parametrize("name", NAMES)
def test_what_is_refused_is_mostly_wrong_in_an_image(name: str) -> None:
    """The finite check does not refuse whatever differs."""
    stream, rng, wrong, harmless = streamed(name), np.random.default_rng(7), 0, 0
    rows = stream.least + stream.turn
    for _ in range(some(60, 300)):
        loop = FAULTS[int(rng.integers(len(FAULTS)))](rng, stream.loop)
        finite = find_fault(lambda loop=loop: check_finite(name, loop))
        shown = find_fault(lambda loop=loop: check_unrolled(name, loop, rows))
        wrong += bool(finite) and not shown
        harmless += not finite
    assert wrong <= some(60, 300) // 10 < 4 * harmless
