"""What has to lie in memory? Rows of tensors, sums of accumulating layers, scratch of kernels: buffers.

A buffer is a sequence of rows; which of them are alive when follows from who writes and who releases
them (`planning.lifetimes`), and where each row lies from its region (`planning.placement`).
A tensor buffer holds the rows of all tensors that share it (`planning.sharing`), a state the sums
of a layer that accumulates in another format than its output's, one row an image, and a workspace
the scratch of a layer's kernel, one row a phase, alive for that firing alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal

from csdfgen.phases.conversion import ActorWork, Conversion, Write
from csdfgen.planning.sharing import Sharing
from csdfgen.program.steps import ALIGNMENT

__all__ = [
    "ARENA",
    "Access",
    "Buffer",
    "buffers_of",
    "state_name",
    "workspace_buffer",
    "workspace_name",
]

ARENA = "arena"
"""The pool that everything lies in, until a device has several memories."""

Kind = Literal["tensor", "state", "workspace"]


@dataclass(frozen=True, slots=True)
class Access:
    """How far an actor has come in a buffer after each of its phases: rows written, or released."""

    actor: str
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Buffer:
    """`rows` rows, counted through all images of an iteration.

    writers, readers: a row is there, whole, from the first of the writers on (others may fill in their
    operands of a Concat later) until the last of the readers. row_bytes: of a row; of a workspace the
    largest, `sizes` has the bytes of each. alignment: of a block. blocks: the first row of every
    block; rows of a block are claimed together and lie together, blocks anywhere. kept: it holds an
    output that lies in the arena: no row is released, and all lie together, in their order.
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
    """The scratch of an actor's kernel: row i, `sizes[i]` bytes, is alive during its phase i alone."""
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


def buffers_of(
    conversion: Conversion,
    sharing: Sharing,
    *,
    fine: bool = False,
    kept: bool = False,
    heavy: float = inf,
    alignment: int = ALIGNMENT,
) -> tuple[Buffer, ...]:
    """Every buffer of tensors and states, with who writes and who releases its rows, and when.

    Rows that a firing computes lie together as one block; those of a network input, which nobody
    computes, need not. fine: only those that are released together too, for arenas that waste less
    at the price of more calls; not those of layers with `heavy` bytes of weights or more, which every call may
    read again. kept: outputs stay in the arena to the end of the frame. alignment: of blocks, see `Backend.alignment`.

    Otherwise a tensor that nobody reads is released by its writer, a network output too: its rows are handed on
    in the firing that completes them (`lowering.program`). Layers without work of their own (views)
    write nothing, but what they wait for is still needed.
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
                for place in sharing.homes(read.tensor.name):
                    readers[place.buffer].append(Access(work.name, read.release))
    tensors = [
        Buffer(
            name,
            tensor.rows * frames,
            tensor.row_bytes,
            tuple(Access(work.name, write.claimed) for work, write in writers[name]),
            tuple(readers[name]),
            blocks=_blocks(
                writers[name], readers[name], tensor.rows * frames, fine=fine, heavy=heavy
            ),
            kept=kept and not network.output_tensors.isdisjoint(sharing.members[name]),
            alignment=alignment,
        )
        for name, tensor in sharing.buffers.items()
        if writers[name]
    ]
    return (*tensors, *_states(conversion, alignment))


def _weights(work: ActorWork) -> int:
    """Bytes that a firing reads beside its rows."""
    return 0 if work.layer is None else work.layer.parameter_bytes


def _blocks(
    written: Sequence[tuple[ActorWork, Write]],
    readers: Sequence[Access],
    rows: int,
    *,
    fine: bool,
    heavy: float,
) -> tuple[int, ...]:
    """First rows of blocks: wherever any writer starts a phase; `fine`: or any reader has released. Where a writer
    has `heavy` bytes of weights, its phases alone count.
    """
    if all(work.kind == "input" for work, _ in written):
        return tuple(range(rows))
    reread = [write for work, write in written if _weights(work) >= heavy]
    starts = {0}
    for write in reread or [write for _, write in written]:
        starts.update(write.claimed)
    if fine and not reread:
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


def names_of(buffers: Sequence[Buffer]) -> Mapping[str, Buffer]:
    """Buffers by name."""
    return {buffer.name: buffer for buffer in buffers}
