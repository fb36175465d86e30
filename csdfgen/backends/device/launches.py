"""Which instructions are one launch? Those of one kernel that touch no bytes that another of them writes, and small ones that
follow each other.

An instruction is computed behind all others before it that write what it reads or writes, or read what it writes. How many
launches that is at least is its level. Instructions of one level and one kernel are a launch. Those that are small have a level
with small ones that they wait for: a series, computed by one group, stage by stage.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import chain

import numpy as np

from csdfgen.backends.device.loops import Span

PORTS = 4
"""Ports whose rows a series moves, at most."""

_GRAIN = 16
"""Bytes that dependences are looked up by."""

_STAGES = 1 << 32

MOST_LOSS = 0.5
"""Launches that a stage's instructions of one kernel may cost more in a series: two of them then cost no more than their own."""

Touched = tuple[Sequence[Span], Sequence[Span], Hashable]

Launch = list[list[int]]


def levels(
    size: int, touched: Iterable[Touched], loss: Callable[[Sequence[int]], float] | None = None
) -> list[Launch]:
    """Numbers of instructions by launch and by stage. size: bytes of memory. touched: what each reads and writes of it, as
    offsets, and what those of one launch have in common: `port.N` of those that move rows of a port. loss: of instructions that
    one group computes, in launches; none: nothing is a series.
    """
    all_ = list(touched)
    kernels = [kernel for *_, kernel in all_]
    blocks = [(_blocks(reads, size), _blocks(writes, size)) for reads, writes, _ in all_]
    small = [loss is not None and loss([number]) <= MOST_LOSS for number in range(len(all_))]
    while True:
        found = _ordered(size, blocks, kernels, small)
        large = [
            number
            for launch in found
            if loss is not None and small[launch[0][0]]
            for number in _beyond(launch, kernels, loss)
        ]
        if not large:
            return found
        for number in large:
            small[number] = False


def _blocks(spans: Sequence[Span], size: int) -> list[slice]:
    return [slice(max(0, low) // _GRAIN, -(-min(high, size) // _GRAIN)) for low, high in spans]


def _ordered(
    size: int,
    blocks: Sequence[tuple[list[slice], list[slice]]],
    kernels: Sequence[Hashable],
    small: Sequence[bool],
) -> list[Launch]:
    """Launches for given small instructions. A place is a level and a stage in it; what comes after one that is not small has
    the next level.
    """
    count = -(-size // _GRAIN) + 1
    written, read = np.zeros(count, np.int64), np.zeros(count, np.int64)
    found: dict[tuple[int, Hashable], dict[int, list[int]]] = {}
    key: tuple[int, Hashable]
    for number, (ins, outs) in enumerate(blocks):
        place = 0
        for part in ins:
            place = max(place, int(written[part].max(initial=0)))
        for part in outs:
            place = max(place, int(written[part].max(initial=0)), int(read[part].max(initial=0)))
        level, stage = divmod(place, _STAGES)
        if small[number]:
            after, key = place + 1, (level, None)
        else:
            level, stage = level + (stage > 0), 0
            after, key = (level + 1) * _STAGES, (level, kernels[number])
        for part in ins:
            np.maximum(read[part], after, out=read[part])
        for part in outs:
            written[part] = after
        found.setdefault(key, {}).setdefault(stage, []).append(number)
    launches = [
        (level, [stages[k] for k in sorted(stages)]) for (level, _), stages in found.items()
    ]
    launches.sort(key=lambda one: (one[0], one[1][0][0]))
    return [launch for _, launch in launches]


def _beyond(
    launch: Launch, kernels: Sequence[Hashable], loss: Callable[[Sequence[int]], float]
) -> list[int]:
    """Instructions of a series that are better launches of their own."""
    found, ports = list[int](), list[Hashable]()
    for stage in launch:
        by_kernel: dict[Hashable, list[int]] = {}
        for number in stage:
            by_kernel.setdefault(kernels[number], []).append(number)
        for kernel, some in by_kernel.items():
            if str(kernel).startswith("port.") and kernel not in ports:
                ports.append(kernel)
            if loss(some) > MOST_LOSS or kernel in ports[PORTS:]:
                found += some
    return found


def find_dependences(launches: Sequence[Launch], touched: Sequence[Touched]) -> list[list[int]]:
    """The launches before each one that it has to wait for: those that write what it reads or writes, or read what it writes.
    Those that another one of these waits for are left out.
    """
    spans = [span for reads, writes, _ in touched for span in (*reads, *writes)]
    ends = np.unique(np.array(spans, np.int64).reshape(-1))
    written = np.zeros(len(ends), np.int64)  # the launch, from 1 on, that wrote what begins there
    read = np.zeros(len(ends), np.int64)  # the number of those that have read it since
    readers, numbers = [0], {0: 0}
    found, before = list[list[int]](), list[int]()

    def parts(writes: bool, launch: Launch) -> list[slice]:
        rows = (touched[n][1] if writes else touched[n][0] for stage in launch for n in stage)
        some = np.array([*chain.from_iterable(rows)], np.int64)
        return [slice(*one) for one in np.searchsorted(ends, some.reshape(-1, 2)).tolist()]

    for own, launch in enumerate(launches):
        ins, outs, waits = parts(False, launch), parts(True, launch), 0
        for part in (*ins, *outs):
            for one in set(written[part].tolist()) - {0}:
                waits |= 1 << (one - 1)
        for part in outs:
            for one in set(read[part].tolist()):
                waits |= readers[one]
        direct, known = list[int](), 0
        for one in reversed(range(own)):
            if waits >> one & 1 and not known >> one & 1:
                direct.append(one)
                known |= before[one] | 1 << one
        found.append(direct[::-1])
        before.append(known)
        for part in ins:
            for one in set(read[part].tolist()):
                some = readers[one] | 1 << own
                if some not in numbers:
                    numbers[some] = len(readers)
                    readers.append(some)
                there = read[part]
                there[there == one] = numbers[some]
        for part in outs:
            written[part], read[part] = own + 1, 0
    return found


def count_saved_launches(launches: Sequence[Launch], kernels: Sequence[Hashable]) -> int:
    """How many launches there would be more without series."""
    return sum(sum(len({kernels[n] for n in stage}) for stage in one) - 1 for one in launches)
