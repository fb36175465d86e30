"""How does native code compute a step? By a kernel of its family, else as numpy would, loop by loop.

A step of a family (`csdfgen.native.families`) becomes a kernel over its rows wherever they lie, and what
follows it in the slab a step of its own unless the kernel does it on the way. The calls of any other
step are numpy's, each turned into a loop (`csdfgen.native.strided`): in the same memory, with the same
workspace.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, cast

from csdfgen.errors import PlanError
from csdfgen.kernels.numpy_set import NUMPY
from csdfgen.kernels.steps import Call, Memory, Step, by_image
from csdfgen.model.network import Layer
from csdfgen.native.families import AS_ESTIMATED, Family, family_of
from csdfgen.native.library import Library, Record
from csdfgen.native.ports import NativePort
from csdfgen.native.strided import Native, joined, translated
from csdfgen.native.threads import Team
from csdfgen.native.ways import Ways
from csdfgen.ops import operator_of
from csdfgen.ops.base import Mode, Phase

__all__ = ["NativeKernels"]


class NativeKernels:
    """The native backend over a library that was built.

    team: threads that share what it computes; without one it is one. fallback: what has no native
    kernel is computed by numpy, instead of refused. ways: how convolutions are computed.
    """

    name = "native"

    def __init__(
        self,
        library: Library,
        *,
        fallback: bool = False,
        ways: Ways = AS_ESTIMATED,
        team: Team | None = None,
    ) -> None:
        self._library, self._fallback, self._ways, self._team = library, fallback, ways, team

    def shared(self, threads: int) -> NativeKernels:
        """See `KernelSet.shared`. Raises InputError for too many."""
        if threads == 1:
            return self
        team = Team(self._library, threads)
        return NativeKernels(self._library, fallback=self._fallback, ways=self._ways, team=team)

    @property
    def code(self) -> str:
        """The instruction set of its kernels."""
        return self._library.instructions

    def refusal(self, layer: Layer) -> str | None:
        """Operators are numpy's."""
        return NUMPY.refusal(layer)

    def workspace(self, step: Step, sizes: Mapping[str, int], limit: int | None = None) -> int:
        """See `KernelSet.workspace`."""
        return self._most(step, limit, lambda one: NUMPY.workspace(one, sizes, limit))

    def used(self, step: Step, size: int) -> int:
        """See `KernelSet.used`."""
        return self._most(step, size, lambda one: NUMPY.used(one, size))

    def _most(self, step: Step, limit: int | None, by_numpy: Callable[[Step], int]) -> int:
        """What the part of a step takes that takes the most; by_numpy: what one without a family takes."""
        parts = _parts(step, self._ways)
        return max(
            (
                by_numpy(one) if family is None else family.workspace(one, limit)
                for one, family in parts
            ),
            default=0,
        )

    def bind(self, step: Step, memory: Memory) -> list[Call]:
        """See `KernelSet.bind`. Raises PlanError too for a call that has no native kernel."""
        calls: list[Call] = []
        try:
            for one, family in _parts(step, self._ways):
                if family is None:
                    calls.extend(self._translated(NUMPY.bind(one, memory)))
                else:
                    calls.extend((self._known(made), ()) for made in family.kernels(one, memory))
        except PlanError as error:
            raise error.at(f"firing {step.firing} ({step.actor})") from None
        return calls

    def _translated(self, calls: Iterable[Call]) -> Iterable[Call]:
        kernels: list[Native] = []
        for call in calls:
            try:
                made = [self._known(kernel) for kernel in translated(call)]
            except PlanError:
                if not self._fallback:
                    raise
                yield from self._in_few(kernels)
                yield call
                kernels = []
            else:
                kernels += made
        yield from self._in_few(kernels)

    def _in_few(self, kernels: Sequence[Native]) -> list[Call]:
        return [(self._known(kernel), ()) for kernel in joined(kernels)]

    def _known(self, made: Native) -> Native:
        """A kernel that the library has."""
        try:
            made.bound_to(self._library)
        except KeyError:
            raise PlanError(f"there is no native kernel '{made.kernel}'") from None
        return made

    def port(self, dtype: str) -> NativePort:
        """See `KernelSet.port`."""
        return NativePort(self._library, dtype)

    def packed(self, calls: Iterable[Call]) -> int | None:
        """See `KernelSet.packed`."""
        arrays = {
            id(array): array.nbytes
            for function, _ in calls
            if isinstance(function, Native)
            for array in function.packed
        }
        return sum(arrays.values())

    def chained(self, calls: Sequence[Call]) -> Sequence[Call]:
        """See `KernelSet.chained`: kernels that follow each other are one call."""
        found: list[Call] = []
        for native, group in groupby(calls, lambda call: isinstance(call[0], Native)):
            some = list(group)
            if not native or (len(some) == 1 and self._team is None):
                found.extend(some)
                continue
            if self._team is not None:
                found.append(self._team.call([cast(Native, call[0]) for call in some]))
            else:
                found.append((self._library.run, (_table(some), len(some))))
        return found


def _table(calls: Sequence[Call]) -> Any:
    """Records of kernels, which keep alive what they point to."""
    kernels = [cast(Native, call[0]) for call in calls]
    records = [Record(kernel.function, ctypes.addressof(kernel.step)) for kernel in kernels]
    table: Any = (Record * len(records))(*records)
    table.kept = kernels  # arrays of ctypes take attributes, and who calls holds nothing else
    return table


def _parts(step: Step, ways: Ways) -> list[tuple[Step, Family | None]]:
    """The step, image by image unless all are computed at once, and what follows it in the slab as steps of
    their own, where a family computes it; the whole step where none does.
    """
    family = family_of(step.layer, ways)
    if family is None:
        return [(step, None)]
    found: list[tuple[Step, Family | None]] = []
    for one in (step,) if family.joins else by_image(step):
        if not family.takes(one):
            return [(step, None)]
        on_the_way = family.follows(step.layer)
        found.append((one, family))
        if not one.phase.last and operator_of(step.layer).mode(step.layer) is Mode.ACCUMULATE:
            continue  # sums that are not finished
        for after in step.layer.following[on_the_way:]:
            found.extend(_parts(_after(one, after), ways))
    return found


def _after(step: Step, after: Layer) -> Step:
    """What a layer of the epilogue does, on the rows that the step has written."""
    out = step.phase.out
    ins = operator_of(after).input_rows(after, out)
    inputs = tuple(None if rows is None else step.outputs[0] for rows in ins)
    phase = Phase(out, ins, image=step.phase.image, images=step.phase.images)
    return replace(step, layer=after, phase=phase, inputs=inputs, states=())
