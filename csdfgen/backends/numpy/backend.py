"""How does numpy compute a step? Strided views of its rows, and the calls that its operator emits.

The operators' numpy kernels work on arrays (`csdfgen.ops.base`). Here the rows of a step become
arrays: rows that are evenly spaced in their pool are one strided view; where they are not, a phase
that writes is cut, and so is one that only reads row by row; other rows that are read are handed on
as they lie (`csdfgen.ops.spread`), or gathered in the workspace for kernels that do not take that.
A phase that needs more workspace than it may have is halved. The workspace of a step is declared by
emitting its calls once for every structure, into memory that is never touched.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from csdfgen.backends.numpy.arrays import HostMemory, allocate_pools, copies, match_rows, view_array
from csdfgen.backends.numpy.bound import NumpyBound, moves, record_call
from csdfgen.backends.numpy.parts import halve_step, image_rows, is_array, merge_images, split_step
from csdfgen.errors import PlanError
from csdfgen.model.network import Layer, memoize_layer
from csdfgen.model.rows import Rows
from csdfgen.ops import OPERATORS, get_operator
from csdfgen.ops.base import (
    DeclaringScratch,
    Emit,
    GivenScratch,
    Mode,
    Phase,
    Scratch,
    Takes,
    Work,
    present_slab,
)
from csdfgen.ops.scan import run_turns
from csdfgen.ops.spread import Piece, Spread, Stack
from csdfgen.program.instructions import Constants, Instruction, get_address
from csdfgen.program.steps import (
    ALIGNMENT,
    Backend,
    Call,
    Code,
    Form,
    Memory,
    Move,
    Step,
    View,
    describe_demand,
    split_by_image,
)


@memoize_layer
def _kernel(layer: Layer) -> Emit:
    """The bound kernel of a layer; weights are packed once."""
    return get_operator(layer).kernel(layer)


@memoize_layer
def _workspaces(layer: Layer) -> dict[tuple[Any, ...], int]:
    """Bytes of scratch that parts of steps of a layer were found to take, by all that they depend on."""
    return {}


class NumpyKernels:
    """The numpy backend. Weights are packed once for each layer, and live as long as the layer.

    threads: of BLAS libraries (`settings`); those of numpy are one.
    """

    name = "numpy"

    code = "numpy"

    rereads_weights, tall_slabs, emits, variants = True, False, False, ""
    self_timed, shares_memory = False, True

    whole_variants = False

    origin = "numpy", np.__version__

    profile = "numpy-core"

    _bodies: Hashable = None
    """By what bodies of loops are computed."""

    def __init__(self, threads: int = 1) -> None:
        self._threads = threads

    def kernel(self, layer: Layer) -> Emit:
        """The kernel that emits the calls of a layer."""
        return _kernel(layer)

    def peak(self) -> float | None:
        """See `Backend.peak`: that of BLAS is unknown."""
        return None

    def alignment(self, pool: str) -> int:
        """See `Backend.alignment`."""
        return ALIGNMENT

    def shared(self, threads: int) -> NumpyKernels:
        """See `Backend.shared`."""
        return self if threads == self._threads else NumpyKernels(threads)

    def refusal(self, layer: Layer) -> str | None:
        """Every operator of the table has a numpy kernel."""
        return None if layer.op_type in OPERATORS else f"{layer.op_type} has no numpy kernel"

    def variants_of(self, layer: Layer, rows: int) -> Sequence[str]:
        """See `Backend.variants_of`."""
        return ()

    def forms_of(self, layer: Layer, rows: int) -> Sequence[Form]:
        """See `Backend.forms_of`."""
        return ()

    def workspace(self, step: Step, limit: int | None = None) -> int:
        """See `Backend.workspace`."""
        return _most(step, lambda part, memory: self._declared(part, memory, limit))

    def used(self, step: Step, size: int) -> int:
        """See `Backend.used`."""
        return _most(step, lambda part, memory: self._taken(part, memory, size))

    def _declared(self, step: Step, memory: Memory, limit: int | None) -> int:
        """What a step takes, or the larger of its halves if that is more than the limit."""
        known, key = _workspaces(step.layer), (self._bodies, limit, describe_demand(step))
        if key in known:  # most halves of halves are alike
            return known[key]
        scratch = DeclaringScratch(limit)
        self._emit(step, memory, scratch)
        needed = scratch.end
        if needed > scratch.limit and not scratch.indivisible:
            parts = [self._declared(half, memory, limit) for half in halve_step(step)]
            needed = min(needed, max(parts, default=needed))
        known[key] = needed
        return needed

    def _taken(self, step: Step, memory: Memory, size: int) -> int:
        """What a step takes of so many bytes, or the larger of its halves if that is more, see `_fitted`."""
        scratch = GivenScratch(size)
        self._emit(step, memory, scratch)
        if scratch.end <= size:
            return scratch.end
        return max(
            (self._taken(half, memory, size) for half in halve_step(step)), default=scratch.end
        )

    def lower(self, step: Step | Move, constants: Constants) -> list[Instruction]:
        """See `Backend.lower`."""
        if isinstance(step, Move):
            return moves(step)
        return [record_call(call, constants) for call in self.calls_of(step, constants.memory)]

    def calls_of(self, step: Step, memory: Memory) -> list[Call]:
        """The prepared calls that compute a step in this memory. Raises PlanError."""
        pad = step.workspace
        block = memory[pad.pool][pad.offset : pad.offset + pad.size]
        calls: list[Call] = []
        try:
            for one in merge_images(step):
                for part in split_step(one):
                    calls.extend(self._fitted(part, memory, block))
        except PlanError as error:
            raise error.at(f"firing {step.firing} ({step.actor})") from None
        return calls

    def moves(self, made: Sequence[Instruction]) -> bool:
        """See `Backend.moves`: an array is of one block."""
        return True

    def allocate(self, pools: Mapping[str, int], *, shrinks: bool = False) -> HostMemory:
        """See `Backend.allocate`."""
        return allocate_pools(pools, shrinks=shrinks)

    def upload(self, constants: Constants) -> Constants:
        """See `Backend.upload`: they are read where they are."""
        return constants

    def bind(self, program: Code, memory: HostMemory, constants: Constants) -> NumpyBound:
        """See `Backend.bind`."""
        return NumpyBound(program, memory, constants, self._threads)

    def _fitted(self, step: Step, memory: Memory, block: np.ndarray) -> list[Call]:
        """The calls of a step, or of its halves one after the other if they take more than there is."""
        try:
            return self._emit(step, memory, Scratch(block))
        except PlanError:
            parts = halve_step(step)
            if not parts:
                raise
        return [call for half in parts for call in self._fitted(half, memory, block)]

    def _emit(self, step: Step, memory: Memory, scratch: Scratch) -> list[Call]:
        """The calls of a step whose results are one array each, or are gathered."""
        layer, phase = step.layer, step.phase
        calls: list[Call] = []
        slabs = [
            None if rows is None else _slabs(step, position, memory, scratch, calls)
            for position, rows in enumerate(phase.ins)
        ]
        accumulates = get_operator(layer).mode(layer) is Mode.ACCUMULATE
        held = step.states or step.outputs
        kept = accumulates and not phase.first
        results = [_target(view, memory, scratch, calls, load=kept) for view in held]
        mark = scratch.mark
        shaped = results
        if phase.images > 1:
            shaped = [array.reshape(phase.images, -1, *array.shape[1:]) for array in results]
        calls.extend(self.kernel(layer)(Work(phase, slabs, shaped, scratch)))
        scratch.rewind(mark)
        if not accumulates or phase.last:
            outputs = results
            if step.states:
                outputs = [_target(view, memory, scratch, calls) for view in step.outputs]
                pairs = zip(outputs, results, strict=True)
                calls.extend((np.copyto, (o, r, "unsafe")) for o, r in pairs)
            mark = scratch.mark
            for after in layer.following:
                calls.extend(self._epilogue(after, image_rows(phase), outputs[0], scratch))
                scratch.rewind(mark)
            if step.states:
                calls.extend(_stored(step.outputs, outputs, memory))
        if not step.states or not phase.last:
            calls.extend(_stored(held, results, memory))
        return [prepared for call in calls for prepared in _in_place(call, scratch)]

    def _epilogue(
        self, after: Layer, out: Rows, result: np.ndarray, scratch: Scratch
    ) -> Iterable[Call]:
        ins = get_operator(after).input_rows(after, out)
        slabs = [None if rows is None else result for rows in ins]
        return _kernel(after)(Work(Phase(out, ins), slabs, [result], scratch))


NUMPY = NumpyKernels()
"""The one set: layers are packed once, whoever plans or runs them."""


def backend(*, exact: bool = False, fallback: bool = False, ways: str = "") -> Backend:
    """See `csdfgen.backends.registry`; no setting matters to it."""
    return NUMPY


def _slabs(
    step: Step, position: int, memory: Memory, scratch: Scratch, calls: list[Call]
) -> np.ndarray:
    """The slab of an operand; those of all images, wherever their rows lie, where there are several."""
    if step.phase.images == 1:
        return _slab(step, position, step.phase.held(position), memory, scratch, calls)
    views = [one.inputs[position] for one in split_by_image(step)]
    return cast(np.ndarray, Stack.of([_spread(view, memory) for view in views if view is not None]))


def _slab(
    step: Step, position: int, rows: Rows, memory: Memory, scratch: Scratch, calls: list[Call]
) -> np.ndarray:
    """The rows as the layer wants to see them; gathered in the workspace where they lie in a way
    that its kernel does not take.
    """
    view, layer = step.view(position), step.layer
    found = [one.runs for one in view.pieces or (view,)]
    broken = any(len(one) > 1 for one in found)
    if not view.count:
        empty = np.empty((0, *view.shape), view.format.dtype)
        return present_slab(empty, layer, position, rows)
    if not view.pieces and not broken:
        return present_slab(view_array(view, memory), layer, position, rows)
    tensor = layer.computed(position)
    takes = get_operator(layer).takes(layer, position)
    if (
        takes is not Takes.EVEN
        and not (takes is Takes.PIECES and broken)
        and layer.input_axes[position] == tensor.row_axis
        and (not view.pieces or view.along == len(view.shape) - 1)
    ):
        return cast(np.ndarray, _spread(view, memory))
    gathered = scratch.take((view.count, *view.shape), view.format.dtype)
    if not scratch.declares:
        calls.extend(copies(gathered, view, memory))
    return present_slab(gathered, layer, position, rows)


def _spread(view: View, memory: Memory) -> Spread:
    """The rows where they lie."""
    pieces, low = [], 0
    for one in view.pieces or (view,):
        ranges = one.runs
        arrays = tuple(view_array(one.part(a, b), memory) for a, b in ranges)
        pieces.append(Piece(low, low + one.shape[-1], tuple(ranges), arrays))
        low += one.shape[-1]
    return Spread((view.count, *view.shape), np.dtype(view.format.dtype), tuple(pieces))


def _most(step: Step, taken: Callable[[Step, Memory], int]) -> int:
    """What the part of a step takes that takes the most."""
    memory = {name: np.empty(size, np.uint8) for name, size in _extents(step).items()}
    parts = (part for one in merge_images(step) for part in split_step(one))
    return max((taken(part, memory) for part in parts), default=0)


def _extents(step: Step) -> dict[str, int]:
    """Bytes of every pool of a step, as far as its rows reach."""
    views = (view for view in (*step.inputs, *step.outputs, *step.states) if view is not None)
    found: dict[str, int] = {}
    for view in views:
        for one in view.pieces or (view,):
            steps = ((n - 1) * s for n, s in zip(one.shape, one.strides, strict=True))
            end = max(one.rows, default=0) + sum(steps) + one.format.itemsize
            found[one.pool] = max(found.get(one.pool, 0), end)
    return found


def _target(
    view: View, memory: Memory, scratch: Scratch, calls: list[Call], *, load: bool = False
) -> np.ndarray:
    """Where a kernel writes rows: the rows themselves, or an array of the workspace, filled with what
    the rows hold if the kernel goes on from there.
    """
    if is_array(view):
        return view_array(view, memory)
    array = scratch.take((view.count, *view.shape), view.format.dtype)
    if load and not scratch.declares:
        calls.extend(copies(array, view, memory))
    return array


def _stored(views: Sequence[View], arrays: Sequence[np.ndarray], memory: Memory) -> list[Call]:
    """Calls that put results which were made in the workspace where their rows lie."""
    return [
        (np.copyto, (where, made))
        for view, array in zip(views, arrays, strict=True)
        if not is_array(view)
        for made, where in match_rows(array, view, memory)
    ]


# Copies among tensors that share buffers -----------------------------------------------------------


def _in_place(call: Call, scratch: Scratch) -> tuple[Call, ...]:
    """A copy as it is to run when tensors share buffers: not at all if the operand already lies
    there (a Concat that is a view), through the workspace if the two may interleave: numpy then
    would go through memory of its own.
    """
    function, arguments = call
    if function is run_turns:
        nested = ([p for one in calls for p in _in_place(one, scratch)] for calls in arguments[2:])
        return ((run_turns, (*arguments[:2], *nested)),)
    if function is not np.copyto or not isinstance(arguments[1], np.ndarray) or len(arguments) > 2:
        return (call,)
    target, source = arguments
    if target.dtype != source.dtype:
        return (call,)
    if get_address(target) == get_address(source) and _steps(target) == _steps(source):
        return ()
    if not _share_memory(target, source):
        return (call,)
    scratch.rewind(scratch.end)  # behind all that other calls use
    between = scratch.take(source.shape, source.dtype)
    return (np.copyto, (between, source)), (np.copyto, (target, between))


def _share_memory(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays have an element in common, or may have where that is hard to tell."""
    work: Any = 10_000  # of the exact answer, which numpy's own types do not foresee
    try:
        return np.shares_memory(one, other, max_work=work)
    except np.exceptions.TooHardError:
        return True


def _steps(array: np.ndarray) -> list[tuple[int, int]]:
    """(size, stride) of every dimension that is stepped along."""
    pairs = zip(array.shape, array.strides, strict=True)
    return [(size, stride) for size, stride in pairs if size > 1]
