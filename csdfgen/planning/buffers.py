"""What is stored in memory? Buffers: rows of tensors, sums of accumulating layers, and scratch of kernels.

A buffer is a sequence of rows. The actors that write and release its rows determine when each is alive
(`planning.lifetimes`), and its region the offset of each (`planning.placement`). A tensor buffer holds the rows of all
tensors that share it (`planning.sharing`). A state holds the sums of a layer that accumulates in another format than
that of its output, one row an image. A workspace holds the scratch of a layer's kernel, one row a phase, which is alive
for that firing only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal

from csdfgen.phases.conversion import AFTER, ActorWork, Conversion, Write
from csdfgen.planning.sharing import Sharing
from csdfgen.program.steps import ALIGNMENT

ARENA = "arena"
"""The pool of all buffers, as long as no device has several memories."""

Kind = Literal["tensor", "state", "workspace"]


@dataclass(frozen=True, slots=True)
class Access:
    """Rows of a buffer that an actor has written, or released, after each of its phases."""

    actor: str
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Buffer:
    """`rows` rows, counted through all images of an iteration.

    writers, readers: a row is stored from the first writer on (others may write their operands of a Concat later) until
    the last reader. row_bytes: of a row; for a workspace of the largest, `sizes` has the bytes of each. alignment: of a
    block, in bytes. blocks: the first row of every block; rows of a block are claimed together and contiguous. kept: the
    buffer holds an output that stays in the arena: no row is released, and all are contiguous and in order.
    """

    name: str
    rows: int
    row_bytes: int
    writers: tuple[Access, ...]
    readers: tuple[Access, ...]
    kind: Kind = "tensor"
    sizes: tuple[int, ...] = ()
    alignment: int = ALIGNMENT
    pool: str = ARENA
    blocks: tuple[int, ...] = ()
    kept: bool = False


def state_name(actor: str) -> str:
    """Name of the buffer that holds an actor's sums."""
    return f"state:{actor}"


def workspace_name(actor: str) -> str:
    """Name of the buffer that holds an actor's scratch."""
    return f"workspace:{actor}"


def workspace_buffer(actor: str, sizes: Sequence[int], alignment: int = ALIGNMENT) -> Buffer:
    """The scratch of an actor's kernel: row i has `sizes[i]` bytes and is alive during phase i only."""
    each = Access(actor, tuple(range(1, len(sizes) + 1)))
    name = workspace_name(actor)
    return Buffer(
        name,
        len(sizes),
        max(sizes),
        (each,),
        (each,),
        kind="workspace",
        sizes=tuple(sizes),
        alignment=alignment,
    )


def make_buffers(
    conversion: Conversion,
    sharing: Sharing,
    *,
    fine: bool = False,
    kept: bool = False,
    heavy: float = inf,
    alignment: int = ALIGNMENT,
) -> tuple[Buffer, ...]:
    """Every buffer of tensors and states, with the actors that write and release its rows.

    The rows that a firing computes are one contiguous block; each row of a network input is a block, unless alignment would
    waste much of it, as of a signal with one value a row. fine: a block has
    only rows that are also released together, so that arenas waste less at the price of more calls; rows of layers with
    `heavy` bytes of weights or more, which every call may read again, stay in whole blocks. kept: outputs stay in the
    arena to the end of the frame. alignment: of blocks, see `Backend.alignment`.

    A tensor that no layer reads is released by its writer, and so is a network output unless it is kept: its rows are
    handed on in the firing that completes them (`lowering.program`). Layers that compute nothing (views) write nothing,
    but still need the rows that they wait for.
    """
    network, frames = conversion.network, conversion.frames
    writers: dict[str, list[tuple[ActorWork, Write]]] = {name: [] for name in sharing.buffers}
    readers: dict[str, list[Access]] = {name: [] for name in sharing.buffers}
    for work in conversion.actors:
        for write in work.writes:
            name = write.tensor.name
            unread = not network.readers[name]
            for place in sharing.homes(name):
                if work.name not in sharing.silent:
                    writers[place.buffer].append((work, write))
                if unread:
                    readers[place.buffer].append(Access(work.name, write.complete))
        if work.kind != "output":
            for read in work.reads:
                for place in sharing.homes(read.tensor.name) if read.position != AFTER else ():
                    readers[place.buffer].append(Access(work.name, read.release))
    tensors = [
        Buffer(
            name,
            tensor.rows * frames,
            tensor.row_bytes,
            tuple(Access(work.name, write.claimed) for work, write in writers[name]),
            tuple(readers[name]),
            blocks=_blocks(
                writers[name],
                readers[name],
                tensor.rows * frames,
                fine=fine,
                heavy=heavy,
                narrow=8 * (-tensor.row_bytes % alignment) > tensor.row_bytes,
            ),
            kept=kept and not network.output_tensors.isdisjoint(sharing.members[name]),
            alignment=alignment,
        )
        for name, tensor in sharing.buffers.items()
        if writers[name]
    ]
    return (*tensors, *_states(conversion, alignment))


def _blocks(
    written: Sequence[tuple[ActorWork, Write]],
    readers: Sequence[Access],
    rows: int,
    *,
    fine: bool,
    heavy: float,
    narrow: bool,
) -> tuple[int, ...]:
    """First rows of blocks: those at which a writer starts a phase, and if `fine` those up to which a reader has
    released. If writers have `heavy` bytes of weights, only their phases count. narrow: alignment would waste much of a row.
    """
    given = all(work.kind == "input" for work, _ in written)
    if given and not narrow:
        return tuple(range(rows))
    reread = [
        write for work, write in written if work.layer and work.layer.parameter_bytes >= heavy
    ]
    starts = {0}
    for write in reread or [write for _, write in written]:
        starts.update(write.claimed)
    if (fine or given) and not reread:
        for access in readers:
            starts.update(access.rows)
    return tuple(sorted(start for start in starts if start < rows))


def _states(conversion: Conversion, alignment: int) -> list[Buffer]:
    found = []
    for work in conversion.actors:
        if work.state is not None:
            state = work.state
            made = (Access(work.name, state.claimed),)
            free = (Access(work.name, state.released),)
            rows = state.claimed[-1]
            name = state_name(work.name)
            alone = tuple(range(rows))
            found.append(
                Buffer(name, rows, state.nbytes, made, free, "state", (), alignment, blocks=alone)
            )
    return found
