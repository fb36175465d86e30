"""Which layers of a network in floats of two bytes stay in float32? Those whose rounding adds most noise, as few as reach a
quality.

A layer in float32 reads float32 and makes float32, so that a tensor is not rounded where the layers that make and read it
all are. Noises of single tensors and weights add up (`noise`), which predicts what a set will do; whether it does is
measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import onnx

from csdfgen.errors import InputError
from csdfgen.model.formats import Format
from csdfgen.model.network import Network
from csdfgen.precision.calibrate import Sample
from csdfgen.precision.noise import Sensitivity, measure_separate_noise
from csdfgen.precision.ranges import fake_quantize


@dataclass(frozen=True)
class Halves:
    """A prepared model, all of whose nodes have names, and the noise of its tensors and weights in two bytes."""

    model: onnx.ModelProto
    noise: Sensitivity

    @cached_property
    def _touched(self) -> dict[str, set[str]]:
        """Tensor -> the nodes that make and read it; layer with weights, by its output -> the node."""
        found: dict[str, set[str]] = {}
        for node in self.model.graph.node:
            for name in (*node.input, *node.output):
                found.setdefault(name, set()).add(node.name)
        return found

    @cached_property
    def _maker(self) -> dict[str, str]:
        return {name: node.name for node in self.model.graph.node for name in node.output}

    @cached_property
    def sets(self) -> list[frozenset[str]]:
        """Names of nodes that stay in float32, from none to all of them, each with what takes away most noise behind the one
        before.
        """
        worth = [(noise, self._touched[name]) for name, noise in self.noise.tensors.items()]
        worth += [
            (noise, {self._maker[name]})
            for name, noise in self.noise.weights.items()
            if name in self._maker
        ]
        kept, found = frozenset[str](), [frozenset[str]()]
        for _, nodes in sorted(worth, key=lambda one: -one[0]):
            if not nodes <= kept:
                kept |= nodes
                found.append(kept)
        whole = frozenset(node.name for node in self.model.graph.node)
        return found if found[-1] == whole else [*found, whole]

    def predicted(self, kept: frozenset[str]) -> float:
        """The noise with these nodes in float32."""
        rounded = {
            name: form
            for name, form in self.noise.formats.items()
            if not self._touched[name] <= kept
        }
        wide = [name for name, node in self._maker.items() if node in kept]
        return self.noise.noise(rounded, wide)


def _name(model: onnx.ModelProto) -> None:
    """Give every node a name of its own, in place."""
    taken: set[str] = set()
    for number, node in enumerate(model.graph.node):
        name = node.name
        while not name or name in taken:
            name = f"{node.op_type}_{number}{'_' if name in taken else ''}"
            number += len(model.graph.node)
        node.name = name
        taken.add(name)


def measure_half_noise(
    model: onnx.ModelProto,
    network: Network,
    samples: Sequence[Sample],
    others: Sequence[Sample],
    form: Format,
    progress: Callable[[int, int], None],
) -> Halves:
    """A prepared model whose tensors and weights are tried in a float of two bytes one by one. network: that of the model.
    samples, others: see `measure_separate_noise`. Nodes without a name of their own get one.
    """
    _name(model)
    made = {name for node in model.graph.node for name in node.output}
    ends = {one.name for one in model.graph.output}
    names = [
        tensor.name
        for tensor in network.tensors.values()
        if tensor.dtype == "float32" and tensor.name in made - ends
    ]
    weights: dict[str, tuple[np.ndarray, np.ndarray | None]] = {}
    for layer in network.layers:
        own, bias = layer.constants.get(1), layer.constants.get(2)
        if own is not None and own.dtype == np.float32:
            same = bias is not None and bias.dtype == np.float32
            weights[layer.output.name] = (
                fake_quantize(own, form),
                fake_quantize(bias, form) if same else None,  # type: ignore[arg-type]
            )
    formats = dict.fromkeys(names, form)
    groups = {name: (name,) for name in names}
    return Halves(
        model, measure_separate_noise(network, samples, others, groups, formats, weights, progress)
    )


def choose_float32_nodes(
    halves: Halves, quality: float, measured: Callable[[frozenset[str]], float]
) -> frozenset[str]:
    """Nodes that stay in float32 so that the signal-to-noise ratio is at least `quality` dB. measured: that of some, dB.
    Raises InputError where all of them in float32 have less.
    """
    sets, wanted = halves.sets, 10 ** (-quality / 10)
    allowed, at = wanted, -1
    while at + 1 < len(sets):
        at = next(
            (k for k in range(at + 1, len(sets)) if halves.predicted(sets[k]) <= allowed),
            len(sets) - 1,
        )
        found = measured(sets[at])
        if found >= quality:
            return sets[at]
        # more than predicted: less is allowed
        allowed = halves.predicted(sets[at]) * min(1.0, wanted / 10 ** (-found / 10))
    (form, *_) = halves.noise.formats.values()
    raise InputError(
        f"with all layers in float32, between tensors in {form}, it has {found:.1f} dB, {quality:g} are asked for; ask for less"
    )
