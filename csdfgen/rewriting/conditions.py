"""Conditions of rewritings, checked every time one is applied; a violation is a bug of ours.

A rewriting must not be visible to the rest of the network. It makes the same tensors from the same ones,
reads nothing more often or more rarely, keeps element types, and names the ONNX nodes that it took in.
The checks look at names, shapes and types, never at values, so that they take a few microseconds a layer
and stay on (also with python -O).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from csdfgen.model.network import Guard, Layer, Network, Tensor


class BrokenRewritingError(AssertionError):
    """A rewriting did not keep its conditions: a bug in the rule that is named, not in the model."""

    def __init__(self, rule: str, where: str, what: str) -> None:
        super().__init__(f"rewriting '{rule}' at '{where}': {what}")
        self.rule = rule


def onnx_nodes(*layers: Layer) -> tuple[str, ...]:
    """Names of the ONNX nodes that the layers stand for."""
    return tuple(name for layer in layers for name in (layer.onnx_nodes or (layer.name,)))


def check_pair(rule: str, producer: Layer, layer: Layer, merged: Layer) -> None:
    """`merged` may stand for `producer` and `layer`, the only reader of what it makes. Raises
    BrokenRewritingError.
    """
    for found in _faults(producer, layer, merged):
        raise BrokenRewritingError(rule, layer.name, found)


def _faults(producer: Layer, layer: Layer, merged: Layer) -> Iterator[str]:
    """What is wrong with the layer that stands for both."""
    if merged.outputs != layer.outputs:
        yield f"makes {_names(merged.outputs)}, {_names(layer.outputs)} is wanted"
    between = {t.name for t in producer.outputs}
    lost = between - set(_reads(layer))
    if lost:
        yield f"'{min(lost)}', another output of '{producer.name}', is made no more"
    wanted = Counter(n for n in (*_reads(producer), *_reads(layer)) if n not in between)
    if Counter(_reads(merged)) != wanted:
        yield f"reads {_listed(_reads(merged))}, {_listed(wanted.elements())} is wanted"
    if len(merged.input_axes) != len(merged.inputs):
        yield f"has {len(merged.input_axes)} row axes for {len(merged.inputs)} inputs"
    twice = [k for k in merged.constants if k < len(merged.inputs) and merged.inputs[k] is not None]
    if twice:
        yield f"input {twice[0]} is both computed and a constant"
    if merged.name not in (producer.name, layer.name):
        yield f"is named '{merged.name}', neither '{producer.name}' nor '{layer.name}'"
    yield from _epilogue_faults(producer, layer, merged)
    yield from _constant_faults(producer, layer, merged)
    if merged.onnx_nodes != onnx_nodes(producer, layer):
        yield (
            f"stands for the ONNX nodes {_listed(merged.onnx_nodes)}, "
            f"{_listed(onnx_nodes(producer, layer))} is wanted"
        )


def _epilogue_faults(producer: Layer, layer: Layer, merged: Layer) -> Iterator[str]:
    applied = {e.name for e in merged.epilogue}
    for inner in (*producer.epilogue, *layer.epilogue):
        if inner.name not in applied:
            yield f"'{inner.name}', which was applied to a slab, is applied no more"


def _constant_faults(producer: Layer, layer: Layer, merged: Layer) -> Iterator[str]:
    """Element types of constants; a new one (a bias) has the type of one that was there."""
    parts = (producer, layer, *producer.epilogue, *layer.epilogue)
    before = {(part.name, k): array.dtype for part in parts for k, array in part.constants.items()}
    for part in (merged, *merged.epilogue):
        held = {k for name, k in before if name == part.name}
        if held - part.constants.keys():
            yield f"constant {min(held - part.constants.keys())} of '{part.name}' is lost"
        for k, array in part.constants.items():
            types = {before[part.name, k]} if k in held else set(before.values())
            if array.dtype not in types:
                yield (
                    f"constant {k} of '{part.name}' is {array.dtype}, "
                    f"{_listed(map(str, types))} is wanted"
                )


def check_network(
    rule: str,
    before: Network,
    after: Network,
    may_vanish: frozenset[str] = frozenset(),
    may_repeat: frozenset[str] = frozenset(),
    joined: Iterable[tuple[Layer, Sequence[Layer]]] = (),
) -> None:
    """`after`, with other layers, may stand for `before`: the same inputs and outputs, every tensor
    made once and before it is read, no reader lost, every ONNX node kept.

    may_vanish: operators whose layers may go with their nodes. may_repeat: ONNX nodes of which several layers may
    compute parts, reading the same tensors. joined: layers of `after`, each with the layers of `before` that it stands
    for, of which several may read the same tensor. Raises BrokenRewritingError.
    """
    joined = tuple(joined)
    for merged, parts in joined:
        for found in _joined_faults(before, merged, parts):
            raise BrokenRewritingError(rule, merged.name, found)
    for found in _network_faults(before, after, may_vanish, may_repeat, joined):
        raise BrokenRewritingError(rule, before.name, found)


def _joined_faults(before: Network, merged: Layer, parts: Sequence[Layer]) -> Iterator[str]:
    """What is wrong with a layer that stands for several: it makes what the last one makes from the tensors that they
    read, and nobody else reads what they make in between.
    """
    *inner, last = parts
    if merged.outputs != last.outputs:
        yield f"makes {_names(merged.outputs)}, {_names(last.outputs)} is wanted"
    between = {t.name for part in inner for t in part.outputs}
    wanted = {name for part in parts for name in _reads(part)} - between
    if Counter(_reads(merged)) != Counter(wanted):
        yield f"reads {_listed(_reads(merged))}, {_listed(wanted)} is wanted"
    inside = {id(part) for part in parts}
    for name in sorted(between):
        others = [one.name for one, _ in before.readers[name] if id(one) not in inside]
        if others or name in before.output_tensors:
            yield f"'{name}', which {others[0] if others else 'the caller'} reads, is made no more"
    if merged.name != last.name:
        yield f"is named '{merged.name}', '{last.name}' is wanted"
    if merged.onnx_nodes != onnx_nodes(*parts):
        yield (
            f"stands for the ONNX nodes {_listed(merged.onnx_nodes)}, "
            f"{_listed(onnx_nodes(*parts))} is wanted"
        )
    for part in parts:
        rounds = part.stored is not None and not part.stored.is_bfloat16
        if rounds or part.epilogue or part.guards != merged.guards:
            yield f"does not round, apply or depend on what '{part.name}' does"


def _network_faults(
    before: Network,
    after: Network,
    may_vanish: frozenset[str],
    may_repeat: frozenset[str],
    joined: Sequence[tuple[Layer, Sequence[Layer]]],
) -> Iterator[str]:
    if after.inputs != before.inputs:
        yield f"the inputs are {_names(after.inputs)}, {_names(before.inputs)} are wanted"
    made = {t.name: t for t in after.inputs}
    for layer in after.layers:
        for tensor in layer.inputs:
            if tensor is not None and made.get(tensor.name) != tensor:
                yield f"'{layer.name}' reads '{tensor.name}' before it is made, or not as it is made"
        twice = [t.name for t in layer.outputs if t.name in made]
        if twice:
            yield f"'{twice[0]}' is made twice"
        made.update((t.name, t) for t in layer.outputs)
    yield from _output_faults(before, after)
    absent = [o.name for o in after.outputs if o.tensor and made.get(o.tensor.name) != o.tensor]
    if absent:
        yield f"output '{absent[0]}' is made by no layer"
    yield from branch_faults(after)
    alone = {id(part) for merged, parts in joined for part in (merged, *parts)}
    pair = [[one for one in net.layers if id(one) not in alone] for net in (before, after)]
    gone = len(pair[0]) - len(pair[1])
    reads, left = (sum(len(list(_reads(n))) for n in layers) for layers in pair)
    if reads - left != gone and not may_repeat:
        yield f"{gone} layers are gone with {reads - left} reads, each has one of its own"
    nodes, kept = Counter(onnx_nodes(*before.layers)), Counter(onnx_nodes(*after.layers))
    free = Counter(
        n for part in before.layers if part.op_type in may_vanish for n in onnx_nodes(part)
    )
    more = Counter(
        {name: count for name, count in (kept - nodes).items() if name not in may_repeat}
    )
    wrong = more or (nodes - kept - free)
    if wrong:
        yield f"ONNX node '{min(wrong)}' is in {kept[min(wrong)]} layers, {nodes[min(wrong)]} before"


def branch_faults(network: Network) -> Iterator[str]:
    """What is read from a branch outside of it, but by the layer that joins its results with those of the other one."""
    if not any(layer.guards for layer in network.layers):
        return
    for layer in network.layers:
        lost = [guard.branch for guard in layer.guards if guard.branch not in network.conditions]
        if lost:
            yield f"'{layer.name}' is in a branch of '{lost[0]}', whose condition nothing reads"
        for position, tensor in enumerate(layer.inputs):
            maker = network.producer.get(tensor.name) if tensor else None
            if tensor is None or maker is None:
                continue
            inside = set(layer.guards)
            if position and "branch" in layer.attributes:
                inside.add(Guard(layer.attributes["branch"], position == 1))
            if not inside.issuperset(maker.guards):
                yield f"'{layer.name}' reads '{tensor.name}' of a branch that it is not in"
    kept = network.output_tensors
    for layer in network.layers:
        given = [tensor.name for tensor in layer.outputs if layer.guards and tensor.name in kept]
        if given:
            yield f"output '{given[0]}' is made in one branch only"


def _output_faults(before: Network, after: Network) -> Iterator[str]:
    if [o.name for o in after.outputs] != [o.name for o in before.outputs]:
        names = [[o.name for o in net.outputs] for net in (after, before)]
        yield f"the outputs are {_listed(names[0])}, {_listed(names[1])} are wanted"
        return
    for old, new in zip(before.outputs, after.outputs, strict=True):
        same = (
            old.constant is new.constant
            and (old.tensor is None) == (new.tensor is None)
            and (
                old.tensor is None
                or new.tensor is None
                or (old.tensor.shape, old.tensor.dtype, old.tensor.row_axis)
                == (new.tensor.shape, new.tensor.dtype, new.tensor.row_axis)
            )
        )
        if not same:
            found, wanted = (_names([o.tensor] if o.tensor else []) for o in (new, old))
            yield f"output '{new.name}' is {found or 'a constant'}, {wanted or 'the constant'} is wanted"


def _reads(layer: Layer) -> Iterator[str]:
    return (t.name for t in layer.inputs if t is not None)


def _names(tensors: Iterable[Tensor]) -> str:
    """Tensors as an error shows them.

    >>> _names([Tensor("y", (1, 3, 4), row_axis=1)])
    "'y' float32 1x3x4 (row axis 1)"
    """
    return ", ".join(
        f"'{t.name}' {t.dtype} {'x'.join(map(str, t.shape)) or 'scalar'} (row axis {t.row_axis})"
        for t in tensors
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"
