"""How does native code compute a step? By a kernel of its family, else as numpy would, loop by loop.

A step of a family (`csdfgen.backends.native.families`) becomes a kernel over its rows wherever they lie, and what
follows it in the slab a step of its own unless the kernel does it on the way. The calls of any other
step are numpy's, each turned into a loop (`csdfgen.backends.native.strided`): in the same memory, with the same
workspace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from csdfgen.backends.native.bound import NativeBound, moves
from csdfgen.backends.native.build import sources_digest
from csdfgen.backends.native.families import AS_ESTIMATED, Family, list_variants, match_family
from csdfgen.backends.native.library import Library, load
from csdfgen.backends.native.strided import (
    Loop,
    compute_in_halves,
    fuse_loops,
    name_results,
    translate_call,
)
from csdfgen.backends.native.structures import kernel_structure
from csdfgen.backends.native.threads import Team
from csdfgen.backends.native.turns import Bodies, locate_step, lower_turns, run_family
from csdfgen.backends.native.ways import SUMS, VARIANTS, Ways
from csdfgen.backends.numpy.arrays import HostMemory, allocate_pools
from csdfgen.backends.numpy.backend import NUMPY
from csdfgen.backends.numpy.bound import record_call
from csdfgen.errors import PlanError
from csdfgen.model.network import Layer, memoize_layer
from csdfgen.ops import OPERATORS, get_operator
from csdfgen.ops.base import Mode, Phase
from csdfgen.ops.functions import FUNCTION, call_function
from csdfgen.ops.scan import ENDS_ELSEWHERE, run_turns, unroll_turns
from csdfgen.program.instructions import Constants, Instruction
from csdfgen.program.steps import (
    ALIGNMENT,
    Backend,
    Call,
    Code,
    End,
    Form,
    Move,
    Step,
    WholeCode,
    split_by_image,
)


class NativeKernels:
    """The native backend over a library that was built.

    team: threads that share what it computes; without one it is one. fallback: what has no native
    kernel is computed by numpy, instead of refused. ways: how convolutions are computed.
    """

    name = "native"

    rereads_weights, tall_slabs, emits, self_timed = False, True, True, True

    shares_memory = True

    profile, whole_variants = "native-core", False

    in_process = True
    """Whether it calls functions of this process."""

    loops = True
    """Whether a kernel works off turns; else they follow each other in the program."""

    def __init__(
        self,
        library: Library,
        *,
        fallback: bool = False,
        ways: Ways = AS_ESTIMATED,
        team: Team | None = None,
    ) -> None:
        self._library, self._fallback, self._ways, self._team = library, fallback, ways, team
        self._calls = Bodies(self._family, (self.name, ways))

    def peak(self) -> float | None:
        """See `Backend.peak`."""
        return self._library.peak()

    def alignment(self, pool: str) -> int:
        """See `Backend.alignment`."""
        return ALIGNMENT

    def shared(self, threads: int) -> NativeKernels:
        """See `Backend.shared`. Raises InputError for too many."""
        if threads == (1 if self._team is None else self._team.threads):
            return self
        team = Team(self._library, threads)
        return NativeKernels(self._library, fallback=self._fallback, ways=self._ways, team=team)

    def anywhere(self) -> NativeKernels:
        """The same for any processor: without what was chosen for this one."""
        ways = replace(self._ways, pairs=False, bfloat16=-1, float16=-1)
        if ways == self._ways:
            return self
        return NativeKernels(self._library, fallback=self._fallback, ways=ways, team=self._team)

    def write(
        self,
        path: str | Path,
        program: WholeCode,
        inputs: Sequence[End],
        outputs: Sequence[End],
        batch: int,
        about: Mapping[str, Any],
    ) -> int:
        """See `Compiling.write`."""
        from csdfgen.backends.native.compiled import write_compiled

        about = {**about, "library": self._library.path.name}
        threads = 1 if self._team is None else self._team.threads
        return write_compiled(path, program, self._library, inputs, outputs, batch, about, threads)

    @property
    def origin(self) -> tuple[str, str]:
        """See `Backend.origin`."""
        return self._library.compiler, sources_digest()

    @property
    def code(self) -> str:
        """The instruction set of its kernels."""
        return self._library.instructions

    def refusal(self, layer: Layer) -> str | None:
        """Whatever numpy computes native code does, too."""
        if layer.op_type == FUNCTION.op_type and not self.in_process:
            return "functions run on the processor; take backend native or numpy"
        wiring = None if self.loops else layer.attributes.get("wiring")
        if wiring is not None and (wiring.turns is None or wiring.going is not None):
            return f"its number of turns is computed; {ENDS_ELSEWHERE}"
        return None if layer.op_type in OPERATORS else f"{layer.op_type} has no native kernel"

    @property
    def variants(self) -> str:
        """See `Backend.variants`."""
        return SUMS if self._ways.exact else VARIANTS

    def variants_of(self, layer: Layer, rows: int) -> Sequence[str]:
        """See `Backend.variants_of`."""
        return tuple(map(str, list_variants(layer, rows)))

    def forms_of(self, layer: Layer, rows: int) -> Sequence[Form]:
        """See `Backend.forms_of`."""
        family = None if self._ways.exact else self._family(layer)
        return () if family is None else family.forms(layer, rows)

    def workspace(self, step: Step, limit: int | None = None) -> int:
        """See `Backend.workspace`."""
        return self._most(step, limit, lambda one: self._calls.workspace(one, limit))

    def used(self, step: Step, size: int) -> int:
        """See `Backend.used`."""
        return self._most(step, size, lambda one: self._calls.used(one, size))

    def _most(self, step: Step, limit: int | None, by_numpy: Callable[[Step], int]) -> int:
        """What the part of a step takes that takes the most; by_numpy: what one without a family takes."""
        parts = _parts(step, self._family)
        return max(
            (
                by_numpy(one) if family is None else family.workspace(one, limit)
                for one, family in parts
            ),
            default=0,
        )

    def lower(self, step: Step | Move, constants: Constants) -> list[Instruction]:
        """See `Backend.lower`. Raises PlanError too for a call that has no native kernel."""
        if isinstance(step, Move):
            return moves(step, constants)
        found: list[Instruction] = []
        try:
            for one, family in _parts(step, self._family):
                if family is None:
                    calls = self._calls.calls_of(one, constants.memory)
                    made = self._translated(compute_in_halves(calls, constants.memory), constants)
                    found += made if one.layer.stored is None else name_results(made)
                else:
                    found += self._lowered(one, family, constants)
        except PlanError as error:
            raise error.at(f"firing {step.firing} ({step.actor})") from None
        return found

    def _family(self, layer: Layer) -> Family | None:
        """The family whose kernels compute a layer."""
        return match_family(layer, self._ways)

    def _lowered(self, step: Step, family: Family, constants: Constants) -> list[Instruction]:
        """The instructions of a part that a family computes."""
        return family.lower(step, constants)

    def _translated(self, calls: Iterable[Call], constants: Constants) -> list[Instruction]:
        """Loops for prepared calls of numpy, as few as can be."""
        found: list[Instruction] = []
        loops: list[Loop] = []

        def take_loops() -> None:
            found.extend(loop.lower(constants) for loop in fuse_loops(loops, constants))
            loops.clear()

        for call in calls:
            if call[0] in (run_turns, run_family):
                take_loops()
                found += self._looped(call, constants)
                continue
            try:
                made = translate_call(call, constants)
                lacking = [one.kernel for one in made if not self._library.has(one.kernel)]
                if lacking:
                    raise PlanError(f"there is no native kernel '{lacking[0]}'")
            except PlanError:
                if not self._fallback and call[0] is not call_function:
                    raise
                take_loops()
                found.append(record_call(call, constants))
            else:
                loops += made
        take_loops()
        return found

    def _looped(self, call: Call, constants: Constants) -> list[Instruction]:
        """The instructions of turns, or of a layer of a body."""
        if call[0] is run_family:
            step, family = call[1]
            return self._lowered(locate_step(step, constants), family, constants)
        if not self.loops:
            return self._translated(unroll_turns(call), constants)
        return lower_turns(call, self._translated(call[1][3], constants), constants)

    def moves(self, made: Sequence[Instruction]) -> bool:
        """See `Backend.moves`: copies from several blocks may have become one loop."""
        kinds = {kernel_structure(one.kernel).name for one in made}
        return kinds.isdisjoint(("csdf_strided", "csdf_turns_step"))

    def allocate(self, pools: Mapping[str, int], *, shrinks: bool = False) -> HostMemory:
        """See `Backend.allocate`."""
        return allocate_pools(pools, shrinks=shrinks)

    def upload(self, constants: Constants) -> Constants:
        """See `Backend.upload`: they are read where they are."""
        return constants

    def bind(self, program: Code, memory: HostMemory, constants: Constants) -> NativeBound:
        """See `Backend.bind`."""
        return NativeBound(self._library, program, memory, constants, self._team)


def backend(*, exact: bool = False, fallback: bool = False, ways: str = "") -> Backend:
    """See `csdfgen.backends.registry`. Raises ToolError where no library can be built, InputError for ways that are none."""
    library = load()
    bfloat16, float16 = library.bf16_suits, library.f16_suits
    chosen = Ways(exact, ways, library.pairs_suit, bfloat16=bfloat16, float16=float16)
    return NativeKernels(library, fallback=fallback, ways=chosen)


def _parts(
    step: Step, families: Callable[[Layer], Family | None]
) -> list[tuple[Step, Family | None]]:
    """The step, image by image unless all are computed at once, and what follows it in the slab as steps of
    their own, where a family computes it; the whole step where none does.
    """
    family = families(step.layer)
    if family is None:
        return _numpy_parts(step, families)
    found: list[tuple[Step, Family | None]] = []
    for one in (step,) if family.joins else split_by_image(step):
        if not family.takes(one) or not _has_room(one, family):
            return _numpy_parts(step, families)
        on_the_way = family.follows(step.layer)
        found.append((one, family))
        if not one.phase.last and get_operator(step.layer).mode(step.layer) is Mode.ACCUMULATE:
            continue  # sums that are not finished
        for after in step.layer.following[on_the_way:]:
            rest = _parts(_after(one, after), families)
            if any(kind is None and not _numpy_has_room(part) for part, kind in rest):
                return [(step, None)]
            found.extend(rest)
    return found


def _numpy_parts(
    step: Step, families: Callable[[Layer], Family | None]
) -> list[tuple[Step, Family | None]]:
    """A step as numpy has it, up to what follows it and combines elements, if families compute all from there on."""
    following = step.layer.following
    count = next((k for k, after in enumerate(following) if _is_apart(after, families)), None)
    if count is None or get_operator(step.layer).mode(step.layer) is Mode.ACCUMULATE:
        return [(step, None)]
    rest = [part for after in following[count:] for part in _parts(_after(step, after), families)]
    if any(kind is None for _, kind in rest):
        return [(step, None)]
    return [(replace(step, layer=_beginning(step.layer, count)), None), *rest]


def _is_apart(layer: Layer, families: Callable[[Layer], Family | None]) -> bool:
    """Whether a layer that follows has a kernel, and combines elements, so that no loop of the layer before computes it, too."""
    return not get_operator(layer).pointwise and families(layer) is not None


def _beginning(layer: Layer, count: int) -> Layer:
    """A layer with so many of those that follow it."""
    known = _beginnings(layer)
    if count not in known:
        kept = len(layer.epilogue) - len(layer.following) + count
        known[count] = replace(layer, epilogue=layer.epilogue[:kept])
    return known[count]


@memoize_layer
def _beginnings(layer: Layer) -> dict[int, Layer]:
    """By the number of layers that follow."""
    return {}


def _has_room(step: Step, family: Family) -> bool:
    """Whether the workspace, where it is known, is enough for the kernel."""
    pad = step.workspace
    return not pad.pool or family.least(step) <= pad.size


def _numpy_has_room(step: Step) -> bool:
    """The same for what is computed as numpy does it. The plan of another backend has enough for the whole step alone."""
    pad = step.workspace
    return not pad.pool or NUMPY.used(step, pad.size) <= pad.size


def _after(step: Step, after: Layer) -> Step:
    """What a layer of the epilogue does, on the rows that the step has written."""
    out = step.phase.out
    ins = get_operator(after).input_rows(after, out)
    inputs = tuple(None if rows is None else step.outputs[0] for rows in ins)
    phase = Phase(out, ins, image=step.phase.image, images=step.phase.images)
    return replace(step, layer=after, phase=phase, inputs=inputs, states=())
