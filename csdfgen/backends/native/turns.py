"""How is the body of a Scan or a Loop computed? Its layers by their families, in the workspace of the loop; what has none by
numpy's calls. A turn is a program of its own, which a kernel works off once a turn.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from csdfgen.backends.native.families import Family
from csdfgen.backends.native.strided import translate_call
from csdfgen.backends.native.structures import (
    get_record,
    instruction,
    kernel_structure,
    list_slots,
    structure,
)
from csdfgen.backends.numpy.backend import NumpyKernels
from csdfgen.model.formats import Format
from csdfgen.model.network import Layer
from csdfgen.ops.base import Emit, Work, stored_rows
from csdfgen.ops.scan import EmitInner, make_kernel
from csdfgen.program.instructions import (
    RECORDS,
    Constants,
    Instruction,
    Ref,
    get_address,
    place_kernel,
)
from csdfgen.program.steps import Call, Scratchpad, Step, View

Record = structure(RECORDS).record
TurnRows = structure("csdf_turn_rows").record
TurnsStep = structure("csdf_turns_step").record


class Bodies(NumpyKernels):
    """Numpy's calls, among which layers of bodies are steps of families (`run_family`). family: what computes a layer. key: equal
    for those that find the same families.
    """

    def __init__(self, family: Callable[[Layer], Family | None], key: Hashable) -> None:
        super().__init__()
        self._family, self._bodies = family, key

    def kernel(self, layer: Layer) -> Emit:
        """See `NumpyKernels.kernel`."""
        loops = "wiring" in layer.attributes
        return make_kernel(layer, self._inner) if loops else super().kernel(layer)

    def _inner(self, layer: Layer) -> EmitInner:
        kernel, family = self.kernel(layer), self._family(layer)

        def emit(work: Work, values: Sequence[np.ndarray | None]) -> Iterable[Call]:
            step = None if family is None else _inner_step(layer, work, values)
            if family is None or step is None or not family.takes(step):
                return kernel(work)
            size = family.workspace(step, work.scratch.room)
            at = str(get_address(work.scratch.take((size,), "uint8")))
            return [(run_family, (replace(step, workspace=Scratchpad(at, 0, size)), family))]

        return emit


def run_family(step: Step, family: Family) -> None:
    """Stands for the instructions of a step whose pools are addresses in memory that nobody touches."""
    raise AssertionError(f"{step.layer.name} is lowered by {family}")


def _inner_step(layer: Layer, work: Work, values: Sequence[np.ndarray | None]) -> Step:
    inputs: list[View | None] = []
    for position, (value, rows) in enumerate(zip(values, work.phase.ins, strict=True)):
        inputs.append(None)
        if value is not None and rows is not None:
            stored = stored_rows(layer, position, rows)
            rows_there = layer.computed(position).to_storage(value)
            inputs[-1] = _view(rows_there[stored.start : stored.stop])
    outputs, pad = tuple(map(_view, work.results)), Scratchpad("", 0, 0)
    return Step(0, layer.name, layer, work.phase, tuple(inputs), outputs, (), pad)


def _view(rows: np.ndarray) -> View:
    places = tuple(k * rows.strides[0] for k in range(len(rows)))
    format_ = Format(rows.dtype.name)
    return View(str(get_address(rows)), places, rows.shape[1:], rows.strides[1:], format_)


def locate_step(step: Step, constants: Constants) -> Step:
    """A step of `run_family` whose places are those of the program."""

    def find(address: str) -> Ref:
        found = constants.find(int(address))
        assert found is not None
        return found

    def located(view: View) -> View:
        pool, offset = find(view.pool)
        return replace(view, pool=pool, rows=tuple(row + offset for row in view.rows))

    inputs = tuple(view and located(view) for view in step.inputs)
    pad, outputs = step.workspace, tuple(map(located, step.outputs))
    pad = Scratchpad(*find(pad.pool), pad.size) if pad.size else pad
    return replace(step, inputs=inputs, outputs=outputs, workspace=pad)


def lower_turns(call: Call, body: Sequence[Instruction], constants: Constants) -> list[Instruction]:
    """The instruction of turns. body: those of one turn."""
    turns, going, before, _, behind = call[1]

    def rows(calls: Iterable[Call], written: bool) -> tuple[Ref, int]:
        found = []
        for function, (target, source) in calls:
            of_turns = target if written else source
            first = of_turns[0, ...]
            one = (function, (first, source) if written else (target, first))
            for loop in translate_call(one, constants) if first.size else ():
                copy = get_record(loop.lower(constants))
                kernel = place_kernel(loop.kernel)
                found.append(TurnRows(kernel, copy, of_turns.strides[0], int(written)))
        return constants.table("csdf_turn_rows", found), len(found)

    records = []
    for one in body:
        kind = kernel_structure(one.kernel)
        step = constants.table(kind.name, [kind.nested(list_slots(one))])
        records.append(Record(place_kernel(one.kernel), step))
    (read, reads), (written, writes) = rows(before, False), rows(behind, True)
    made = TurnsStep(
        constants.table(RECORDS, records), read, written, None if going is None else constants.place(going),
        -1 if turns is None else turns, len(body), reads, writes,
    )  # fmt: skip
    return [instruction("turns_of", made)]
