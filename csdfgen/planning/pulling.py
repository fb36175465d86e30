"""In which order do phases fire that are pulled, one layer after another? As late as each of them allows.

Layers are named in turn; each is completed before the next begins, and a phase fires when a phase that
needs what it writes is about to. What one of these layers pulls runs as a stream of rows, and all of it
is done before the next stream starts: tiles run one after the other like this.
"""

from __future__ import annotations

from collections.abc import Iterable

from csdfgen.phases.conversion import ActorWork, Conversion

__all__ = ["pulled"]


def pulled(conversion: Conversion, sinks: Iterable[str]) -> tuple[tuple[str, int], ...]:
    """Firings (actor, phase) that complete each of these actors in turn, then the network's outputs,
    and last what nobody reads.
    """
    writer: dict[str, ActorWork] = {}
    for work in conversion.actors:
        writer.update((write.tensor.name, work) for write in work.writes)
    fired = dict.fromkeys(conversion.actor, 0)
    order: list[tuple[str, int]] = []

    def pull(wanted: ActorWork, count: int) -> None:
        waiting = [(wanted, count)]
        while waiting:
            work, goal = waiting[-1]
            phase = fired[work.name]
            if phase >= goal:
                waiting.pop()
                continue
            missing = _missing(work, phase, writer, fired)
            if missing is None:
                order.append((work.name, phase))
                fired[work.name] += 1
            else:
                waiting.append(missing)

    ends = [work for work in conversion.actors if work.kind == "output"]
    for work in [*(conversion.actor[name] for name in sinks), *ends, *conversion.actors]:
        pull(work, len(work.phases))
    return tuple(order)


def _missing(
    work: ActorWork, phase: int, writer: dict[str, ActorWork], fired: dict[str, int]
) -> tuple[ActorWork, int] | None:
    """The first actor that has to go on before a phase can fire, and to how many phases."""
    for read in work.reads:
        need = read.need[phase]
        source = writer[read.tensor.name]
        done = fired[source.name]
        write = next(w for w in source.writes if w.tensor.name == read.tensor.name)
        if need > (write.complete[done - 1] if done else 0):
            return source, done + 1
    return None
