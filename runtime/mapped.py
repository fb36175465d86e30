"""A network on several processors at the same time: a thread for each, which executes its turns and waits for those of others.

Processors wait by counters of turns (`csdfgen.planning.mapped`); a device has ended a turn when its queue is empty, which is the
event that its thread waits for before it counts. Arrays of slots are in the memory of the host: a device that shares it reads
them in place, others copy them behind the launches that were started before.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Condition, Thread
from time import perf_counter, perf_counter_ns, thread_time, thread_time_ns

import numpy as np

from csdfgen.backends.registry import choose_backend
from csdfgen.model.network import Network, Tensor
from csdfgen.planning.buffers import ARENA
from csdfgen.planning.mapped import MappedPlan, Part, Turn, check_mapped
from csdfgen.program.steps import Driven
from runtime.bound import BoundProgram, Runs, add_guards
from runtime.measurement import measure_memory

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Frames:
    """Outputs of frames, and when each began and ended, in seconds."""

    outputs: list[dict[str, np.ndarray]]
    began: list[float]
    ended: list[float]

    @property
    def ended_after(self) -> float:
        """Seconds from the beginning of the first frame to the end of the last one."""
        return max(self.ended) - min(self.began)

    def period(self, skipped: int) -> float:
        """Seconds between two frames, but for the first ones."""
        ends = self.ended[skipped:]
        return (ends[-1] - ends[0]) / max(1, len(ends) - 1)


def split_images(network: Network, feeds: Arrays) -> list[Arrays]:
    """The frames of a batch."""
    count = network.batch
    each = ({name: one[k : k + 1] for name, one in feeds.items()} for k in range(count))
    return [feeds] if count == 1 else [*each]


def join_images(network: Network, frames: Sequence[Arrays]) -> Arrays:
    """The outputs of a batch."""
    if network.batch == 1:
        return frames[0]
    computed = {one.name for one in network.outputs if one.tensor is not None}
    each = {name: [frame[name] for frame in frames] for name in frames[0]}
    return {
        name: np.concatenate(some) if name in computed else some[0] for name, some in each.items()
    }


class _Computing:
    """A part in memory."""

    def __init__(self, part: Part, bound: BoundProgram) -> None:
        self.part, self.bound = part, bound
        self._opened: dict[tuple[str, bool], np.ndarray] = {}
        self._turns: dict[int, Runs] = {}

    def open(self, name: str, output: bool, array: np.ndarray) -> None:
        """Use this array from now on."""
        if self._opened.get((name, output)) is not array:
            self.bound.open(name, 0, output, array)
            self._opened[name, output] = array

    def run(self, turn: int) -> None:
        """Execute a turn, to its end."""
        if turn not in self._turns:
            self._turns[turn] = self.bound.between(*self.part.starts[turn : turn + 2])
        for run in self._turns[turn]:
            run()
        self.bound.wait()


class MappedProgram:
    """A mapped plan in memory, an arena for each processor and a pool of slots. threads: of native code.

    Raises what `lowering.program.lower` raises, ScheduleError for a plan whose waits do not suffice.
    """

    def __init__(self, plan: MappedPlan, threads: int = 1) -> None:
        check_mapped(plan)
        self.plan, self._threads, self._parts = plan, threads, list[_Computing]()
        memories = {}
        for number in range(len(plan.processors)):
            own = [part for part in plan.parts if part.processor == number]
            pools: dict[str, int] = {}
            for part in own:
                for name, size in part.plan.pools.items():
                    pools[name] = max(size, pools.get(name, 0))
            if own:
                kernels = choose_backend(own[0].plan.options).shared(threads)
                memories[number] = kernels, kernels.allocate(add_guards(pools))
        for part in plan.parts:
            kernels, memory = memories[part.processor]
            self._parts.append(_Computing(part, BoundProgram(part.plan, kernels, memory=memory)))
        self._pool = np.zeros(plan.pool, np.uint8)
        self._slots = {
            one.name: [self._slot(one.tensor, offset) for offset in one.offsets]
            for one in plan.crossings
        }
        self._turned, self._failed = Condition(), False

    def _slot(self, tensor: Tensor, offset: int) -> np.ndarray:
        """Rows of a slot one behind the other, as an array in ONNX's order of axes."""
        rows = self._pool[offset : offset + tensor.nbytes].view(tensor.dtype)
        return tensor.to_onnx(rows.reshape(tensor.storage_shape))

    # Frames --------------------------------------------------------------------------------------

    def run(self, feeds: Sequence[Arrays], same: bool = False) -> Frames:
        """The outputs of frames, whose inputs are these; processors work at the same time. same: all frames have the same
        arrays for their outputs.
        """
        found, steps = self._begin(len(feeds), same), len(feeds) + self.plan.lag
        counts, self._failed = [0] * len(self.plan.processors), False
        errors: list[BaseException] = []

        def work(processor: int) -> None:
            try:
                for step in range(steps):
                    self._step(processor, step, feeds, found, counts)
            except BaseException as error:
                errors.append(error)
                self._stop()

        threads = [Thread(target=work, args=(k,), daemon=True) for k in range(len(counts))]
        for one in threads:
            one.start()
        try:
            for one in threads:
                one.join()
        except BaseException:  # Ctrl-C: turns end, no other begins
            self._stop()
            for one in threads:
                one.join()
            raise
        if errors:
            raise errors[0]
        return found

    def _stop(self) -> None:
        with self._turned:
            self._failed = True
            self._turned.notify_all()

    def _begin(self, frames: int, same: bool = False) -> Frames:
        made = [self._outputs() for _ in range(1 if same else frames)]
        outputs = made * frames if same else made
        return Frames(outputs, [0.0] * frames, [0.0] * frames)

    def _outputs(self) -> dict[str, np.ndarray]:
        """Arrays for the outputs of a frame."""
        network = self.plan.network
        return {
            one.name: np.empty(*network.whole_form(one)) if one.constant is None else one.constant
            for one in network.outputs
        }

    def _step(
        self, processor: int, step: int, feeds: Sequence[Arrays], found: Frames, counts: list[int]
    ) -> None:
        """The turns of a processor in a step."""
        for number, computing in enumerate(self._parts):
            if computing.part.processor != processor:
                continue
            frame = step - computing.part.lag
            for turn in range(computing.part.turns):
                with self._turned:
                    for other, shift in self.plan.waits[number, turn]:
                        count = shift + step * self.plan.per_step[other]
                        while counts[other] < count and not self._failed:
                            self._turned.wait()
                    if self._failed:
                        return
                if 0 <= frame < len(feeds):
                    self._execute(number, turn, frame, feeds[frame], found)
                with self._turned:
                    counts[processor] += 1
                    self._turned.notify_all()

    def _execute(self, number: int, turn: int, frame: int, feeds: Arrays, found: Frames) -> None:
        computing, outputs = self._parts[number], found.outputs[frame]
        if turn == 0:
            now = perf_counter()
            found.began[frame] = min(found.began[frame] or now, now)
            self._open(computing, frame, feeds, outputs)
        computing.run(turn)
        if turn == computing.part.turns - 1:
            for one in computing.part.plan.network.outputs:
                if one.name in self._slots and one.name in outputs:
                    np.copyto(outputs[one.name], self._at(one.name, frame))
            found.ended[frame] = max(found.ended[frame], perf_counter())

    def _open(self, computing: _Computing, frame: int, feeds: Arrays, outputs: Arrays) -> None:
        """Let the ports of a part have the arrays of a frame."""
        network = computing.part.plan.network
        for tensor in network.inputs:
            crosses = tensor.name in self._slots
            array = self._at(tensor.name, frame) if crosses else feeds[tensor.name]
            computing.open(tensor.name, False, array)
        for one in network.outputs:
            if one.tensor is not None:
                crosses = one.name in self._slots
                array = self._at(one.name, frame) if crosses else outputs[one.name]
                computing.open(one.name, True, array)

    def _at(self, tensor: str, frame: int) -> np.ndarray:
        slots = self._slots[tensor]
        return slots[frame % len(slots)]

    # Measuring -----------------------------------------------------------------------------------

    def time_turns(
        self, feeds: Arrays, repeats: int = 5, clock: Callable[[], float] = perf_counter
    ) -> dict[Turn, float]:
        """Seconds of each turn of a frame alone: median of `repeats`, behind one that is not timed."""
        found: dict[Turn, list[float]] = {}
        for _ in range(repeats + 1):
            frame = self._begin(1)
            for number, turn, _ in self.plan.turns(1):
                start = clock()
                self._execute(number, turn, 0, feeds, frame)
                found.setdefault((number, turn), []).append(clock() - start)
        return {turn: statistics.median(times[1:]) for turn, times in found.items()}

    def time_calls(self, feeds: Arrays) -> list[float]:
        """Of each part, processor time of the thread that executes it, but for that of firings where they are its own."""
        turns, actors = self.time_turns(feeds, clock=thread_time), self.time_actors(feeds)
        found = []
        for number, (computing, spent) in enumerate(zip(self._parts, actors, strict=True)):
            own = 0.0 if computing.bound.driven is not None else sum(spent.values())
            whole = sum(turns[number, turn] for turn in range(computing.part.turns))
            found.append(max(0.0, whole - own))
        return found

    def time_actors(self, feeds: Arrays, repeats: int = 5) -> list[dict[str, float]]:
        """Of each part, actor -> seconds of its firings in a frame: median of `repeats`, behind one that is not timed; processor
        time of native code on one thread, or the device's own.
        """
        clock = thread_time_ns if self._threads == 1 else perf_counter_ns
        found: list[dict[str, list[float]]] = [{} for _ in self._parts]
        for repeat in range(repeats + 1):
            outputs = self._outputs()
            for computing, spent in zip(self._parts, found, strict=True):
                self._open(computing, 0, feeds, outputs)
                sums: dict[str, float] = {}
                ends = computing.bound.time(clock)
                for (actor, _), start, end in zip(
                    computing.part.plan.order, ends, ends[1:], strict=False
                ):
                    sums[actor] = sums.get(actor, 0.0) + 1e-9 * (end - start)
                for actor, seconds in sums.items() if repeat else ():
                    spent.setdefault(actor, []).append(seconds)
        return [{actor: statistics.median(one) for actor, one in spent.items()} for spent in found]

    def touched_bytes(self, feeds: Arrays) -> dict[str, int]:
        """Bytes that a frame uses of each arena, and of the pool of slots in as many frames as it has. Raises PlanError if
        others were written.
        """
        plan, found = self.plan, {}
        for number, planned in enumerate(plan.arenas()):
            own = [one for one in self._parts if one.part.processor == number]
            if not own:
                continue
            largest = max(own, key=lambda one: one.part.plan.pools[ARENA]).bound

            def fire(first: int) -> None:
                self.run([feeds])

            def frame(run: Callable[[int], None]) -> dict[str, np.ndarray]:
                run(0)
                return {}

            _, measured = measure_memory(planned, largest.fill, frame, fire, largest.touched)
            found[plan.processors[number]] = measured.touched_bytes
        return found

    @property
    def driven(self) -> Driven | None:
        """What devices have done, together; None without one. Parts of a processor share a memory, whose copies each counts."""
        each = ((one.part.processor, one.bound.driven) for one in self._parts)
        found = [(number, one) for number, one in each if one is not None]
        if not found:
            return None
        copied = {k: max(one.copied for number, one in found if number == k) for k, _ in found}
        launches = sum(one.launches for _, one in found)
        return replace(found[0][1], launches=launches, copied=sum(copied.values()))
