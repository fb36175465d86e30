"""The dataflow graph of a network on several processors: the actors of its parts, and what copies rows between them.

A token is a row. The actor that copies a tensor for a part is the input actor of the part, on the processor that reads it; it
takes rows of the actor that makes them, and gives free rows of the slots back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from csdfgen.dataflow.graph import Actor, Channel, CsdfGraph
from csdfgen.model.rows import differences
from csdfgen.phases.conversion import csdf_graph
from csdfgen.planning.mapped import Crossing, MappedPlan

_NANOSECONDS = 1e9


def build_mapped_graph(
    plan: MappedPlan, spent: Sequence[Mapping[str, float]]
) -> tuple[CsdfGraph, dict[str, str]]:
    """The graph, and the processor of each actor. spent: of each part, actor -> seconds of its firings in a frame."""
    actors, channels, processors = list[Actor](), list[Channel](), dict[str, str]()
    crossing = {one.name for one in plan.crossings}
    outputs = {one.name for one in plan.network.outputs}
    for number, (part, times) in enumerate(zip(plan.parts, spent, strict=True)):
        graph, works = csdf_graph(part.plan.conversion, tokens="rows"), part.plan.conversion.actors
        names, left_out = {}, set[str]()
        for work in works:
            tensor = (work.writes or work.reads)[0].tensor.name
            names[work.name] = work.name
            if work.kind == "input" and tensor in crossing:
                names[work.name] = _copy_name(tensor, number)
            elif work.kind == "output" and outputs.isdisjoint(
                one.name
                for one in part.plan.network.outputs
                if one.tensor is not None and one.tensor.name == tensor
            ):
                left_out.add(work.name)
        for actor in graph.actors:
            if actor.name not in left_out:
                each = round(_NANOSECONDS * times.get(actor.name, 0.0) / actor.phases)
                name = names[actor.name]
                copies = "copy" if name != actor.name else actor.function
                actors.append(Actor(name, (each,) * actor.phases, copies))
                processors[name] = plan.processors[part.processor]
        for channel in graph.channels:
            if channel.target not in left_out:
                source, target = names[channel.source], names[channel.target]
                named = f"{channel.name}:{number}"
                channels.append(replace(channel, name=named, source=source, target=target))
    for one in plan.crossings:
        channels += _crossing_channels(plan, one)
    return CsdfGraph(plan.network.name, tuple(actors), tuple(channels)), processors


def _copy_name(tensor: str, part: int) -> str:
    return f"copy:{tensor}:{part}"


def _crossing_channels(plan: MappedPlan, one: Crossing) -> Iterator[Channel]:
    """Rows for each reader, and the free rows of the slots."""
    source, write = next(
        (work.name, write)
        for work in plan.parts[one.source].plan.conversion.actors
        for write in work.writes
        if write.tensor.name == one.tensor.name
    )
    made = tuple(differences(write.complete))
    for target in one.targets:
        conversion = plan.parts[target].plan.conversion
        copy = next(
            work
            for work in conversion.actors
            if work.kind == "input" and work.writes[0].tensor.name == one.name
        )
        taken = tuple(differences(copy.writes[0].complete))
        reader, size, given = _copy_name(one.name, target), one.tensor.row_bytes, made
        if sum(given) != sum(taken):  # its rows are others: it is read as a whole
            given, size = (*(0 for _ in made[1:]), 1), one.tensor.nbytes
            taken = (1, *(0 for _ in taken[1:]))
        free = len(one.offsets) * sum(given)
        yield Channel(f"{one.name}=>{target}", source, reader, given, taken, 0, size, "data")
        yield Channel(f"{one.name}<={target}", reader, source, taken, given, free, 0, "space")
