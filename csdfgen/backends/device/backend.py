"""How does a device compute a step? As native code does: by the kernels of families, else loop by loop.

Steps become the instructions of native code (`csdfgen.backends.native`), whose structures and tables have places on the
device instead of addresses; the kernels that work on them are in `text`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from csdfgen.backends.device.bound import DeviceBound, Touched, Uploaded, is_move
from csdfgen.backends.device.chains import fuse_chains
from csdfgen.backends.device.driver import Driver
from csdfgen.backends.device.elements import definitions
from csdfgen.backends.device.memory import DeviceMemory
from csdfgen.backends.device.shapes import FILES, USUAL, WORDS, Blocks, candidates
from csdfgen.backends.device.sources import digest, kernels
from csdfgen.backends.native.backend import NativeKernels
from csdfgen.backends.native.families import Family
from csdfgen.backends.native.families.widened import Widened
from csdfgen.backends.native.ways import Ways
from csdfgen.backends.numpy.bound import moves
from csdfgen.model.formats import BFLOAT16
from csdfgen.model.network import Layer
from csdfgen.model.options import parse_ways
from csdfgen.program.instructions import Constants, Instruction, Ref
from csdfgen.program.steps import Code, Form, Move, Step, View


class DeviceKernels(NativeKernels):
    """The kernels of a device. title: what the language of its kernels is called. ways: blocks of layers, see
    `PlanOptions.ways`.
    """

    rereads_weights, tall_slabs, emits, self_timed = False, True, False, False

    variants, whole_variants = WORDS, True

    def __init__(self, driver: Driver, title: str, ways: str = "") -> None:
        self._driver, self._title, self.name = driver, title, driver.name
        self._chosen = parse_ways(ways, _word, f"{USUAL} is, and blocks like {driver.blocks}")
        super().__init__(_Text(), ways=Ways(exact=True, pairs=not driver.dots, fused=True))  # type: ignore[arg-type]

    in_process, loops = False, False

    def refusal(self, layer: Layer) -> str | None:
        """See `Backend.refusal`."""
        tensors = (*layer.inputs, *layer.outputs)
        if any(tensor is not None and tensor.dtype == BFLOAT16.dtype for tensor in tensors):
            return (
                "bfloat16 has no kernels on devices; store the float model with csdfgen quantize "
                "--format float16, or take another backend"
            )
        return super().refusal(layer)

    @property
    def shares_memory(self) -> bool:  # type: ignore[override]
        """See `Backend.shares_memory`."""
        return self._driver.device.unified

    def peak(self) -> float | None:
        """See `Backend.peak`: unknown."""
        return None

    def alignment(self, pool: str) -> int:
        """See `Backend.alignment`: as host memory, which plans for it may use."""
        return super().alignment(pool)

    def shared(self, threads: int) -> DeviceKernels:
        """See `Backend.shared`: a device has as many as it has."""
        return self

    @property
    def origin(self) -> tuple[str, str]:
        """See `Backend.origin`."""
        device = self._driver.device
        return f"{device.name}, {device.version}, driver {device.driver}", digest()

    @property
    def code(self) -> str:
        """The device."""
        return f"{self._title} on {self._driver.device.name}"

    def variants_of(self, layer: Layer, rows: int) -> Sequence[str]:
        """See `Backend.variants_of`."""
        family = self._family(layer)
        return () if family is None else candidates(family.kernels, self._driver.blocks)

    def forms_of(self, layer: Layer, rows: int) -> Sequence[Form]:
        """See `Backend.forms_of`: weights stay as they are."""
        return ()

    def allocate(self, pools: Mapping[str, int], *, shrinks: bool = False) -> DeviceMemory:  # type: ignore[override]
        """See `Backend.allocate`. Raises ToolError where the device has not as much."""
        return DeviceMemory(self._driver, pools)

    def upload(self, constants: Constants) -> Uploaded:  # type: ignore[override]
        """See `Backend.upload`. Raises ToolError where the device has not as much memory."""
        size = max((block.start + block.values.nbytes for block in constants.blocks), default=0)
        weights = self._driver.buffer(size, "weights", constant=True)
        for block in constants.blocks:
            if block.values.nbytes:
                self._driver.store(weights, block.start, block.values)
        return Uploaded(constants, weights)

    def bind(self, program: Code, memory: Any, constants: Any) -> Any:
        """See `Backend.bind`. Raises ToolError for a kernel that does not build."""
        return DeviceBound(program, memory, constants)

    def lower(self, step: Step | Move, constants: Constants) -> list[Instruction]:
        """See `Backend.lower`."""
        if isinstance(step, Move):
            return moves(step)
        return fuse_chains(super().lower(step, constants), constants)

    def _family(self, layer: Layer) -> Family | None:
        """The family that computes a layer, if the device has its kernels."""
        found = super()._family(layer)
        if isinstance(found, Widened) and not found.weights:
            found = replace(found, direct=None)  # of which it has no kernels
        return found if found is not None and FILES.keys() >= set(found.kernels) else None

    def _lowered(self, step: Step, family: Family, constants: Constants) -> list[Instruction]:
        """Instructions that say which bytes they touch."""
        reads = _spans(step.inputs)
        writes = _spans((*step.outputs, *step.states))
        pad = step.workspace
        if pad.size:
            writes.append((Ref(pad.pool, pad.offset), pad.size))
        spans = reads + writes
        refs = tuple(ref for ref, _ in spans)
        heights = self._chosen.get(step.layer.name, {})
        lower = (n for n in heights if n <= len(step.phase.out))
        blocks = heights[max(lower, default=min(heights))] if heights else ""
        touched = Touched(len(reads), len(writes), tuple(size for _, size in spans), blocks)
        return [
            one
            if definitions(one.kernel) is not None
            else Instruction(one.kernel, (*one.fields, touched), (*one.refs, *refs))
            for one in super()._lowered(step, family, constants)
        ]

    def moves(self, made: Sequence[Instruction]) -> bool:
        """See `Backend.moves`."""
        return not any(definitions(one.kernel) is not None for one in made if not is_move(one))


def _word(word: str) -> str:
    """A word for blocks that are some. Raises ValueError."""
    if word != USUAL:
        Blocks.read(word)
    return word


def _spans(views: Iterable[View | None]) -> list[tuple[Ref, int]]:
    """Where runs of rows begin, and how far each reaches in bytes."""
    found = []
    for view in views:
        for one in () if view is None else view.pieces or (view,):
            reach = sum((n - 1) * s for n, s in zip(one.shape, one.strides, strict=True))
            size = reach + one.format.itemsize
            found += [
                (Ref(one.pool, one.rows[a]), one.rows[b - 1] - one.rows[a] + size)
                for a, b in one.runs
            ]
    return found


class _Text:
    """Which kernels there are, as a library of native code tells it."""

    def has(self, kernel: str) -> bool:
        """Whether there is a kernel of this name."""
        return kernels(kernel)
