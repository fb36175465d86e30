"""How much noise does a tensor in integers add at the outputs? Each is tried alone, on values of the
float network.

Source: paper 003, section 1.3 (pseudo-quantization: float arithmetic on binned values). Noises of single
tensors and weights add up, so that what a set of formats will do is known without running it: it is the
sum. Noise is relative: squared errors of an output over its squared values, both summed over all samples, the
mean over outputs; signal to noise is its inverse, in dB.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from csdfgen.model.formats import Format
from csdfgen.model.network import Layer, Network, Tensor
from csdfgen.ops import get_operator
from csdfgen.ops.evaluated import run_in_slabs
from csdfgen.precision.calibrate import Sample
from csdfgen.precision.ranges import fake_quantize, quantization_step

Values = dict[str, np.ndarray]
"""Tensor -> its rows as stored, of one image."""

Weights = Mapping[str, tuple[np.ndarray, np.ndarray | None]]
"""Layer's output -> its weights and bias as they are once they have been integers."""

_SLAB = 64
"""Rows computed at once."""

_LEAST = 1e-12
"""Noise of outputs that agree: 120 dB."""


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Relative noise at the outputs of single tensors (with those that share their scale) and of single
    layers' weights, all else float.

    together: of all of them at once. formats: of the tensors when they were tried. samples: inputs that each
    was tried on; `together` is the mean over more.
    """

    tensors: Mapping[str, float]
    weights: Mapping[str, float]
    together: float
    formats: Mapping[str, Format]
    samples: int

    def noise(self, formats: Mapping[str, Format], wide_weights: Collection[str] = ()) -> float:
        """What a choice of formats will add up to; tensors without a format are float. wide_weights: layers whose
        weights have 16 bits. Where noise is so large that it is clipped on its way, all of it together is less
        than the sum; the same share of it is taken off every choice.
        """
        alone = sum(self.weights.values()) + sum(self.tensors.values())
        narrow = sum(noise for name, noise in self.weights.items() if name not in wide_weights)
        total = narrow + self.of_tensors(formats)
        return total * (self.together / alone if alone else 1.0)

    def of_tensors(self, formats: Mapping[str, Format]) -> float:
        """The sum of the noises of tensors in these formats: rounding falls with the square of the step."""
        total = 0.0
        for name, form in formats.items():
            same = form == self.formats[name]  # floats have no step
            ratio = 1.0 if same else quantization_step(form) / quantization_step(self.formats[name])
            total += self.tensors[name] * min(1.0, ratio * ratio)
        return total


def decibels(noise: float) -> float:
    """Signal to noise in dB.

    >>> decibels(0.01)
    20.0
    """
    return float(-10 * np.log10(max(noise, _LEAST)))


def measure_joint_noise(
    network: Network,
    samples: Sequence[Sample],
    groups: Mapping[str, Sequence[str]],
    formats: Mapping[str, Format],
    weights: Weights,
) -> float:
    """The noise of all tensors and all weights in integers at once, in float arithmetic on binned values.

    Arguments are those of `measure_separate_noise`.
    """
    swaps = _swapped(network, weights)
    everywhere = {name: formats[leader] for leader, names in groups.items() for name in names}
    powers = [
        _powers(network, _reference(network, sample), everywhere, swaps) for sample in samples
    ]
    return _relative(powers)


def measure_separate_noise(
    network: Network,
    samples: Sequence[Sample],
    others: Sequence[Sample],
    groups: Mapping[str, Sequence[str]],
    formats: Mapping[str, Format],
    weights: Weights,
    progress: Callable[[int, int], None] | None = None,
) -> Sensitivity:
    """The noise of each group of tensors and of each layer's weights.

    samples, others: inputs that each is tried on, and more on which all are tried at once.
    groups: leader -> tensors that have its scale. formats: by leader. weights: layer's output -> its
    weights and bias as they are once they have been integers. progress: (done, in all).
    """
    swaps = _swapped(network, weights)
    trials: list[tuple[dict[str, Format], dict[str, Layer]]] = [
        *((dict.fromkeys(names, formats[leader]), {}) for leader, names in groups.items()),
        *(({}, {name: swap}) for name, swap in swaps.items()),
    ]
    powers: list[list[_Powers]] = [[] for _ in trials]
    together = measure_joint_noise(network, [*samples, *others], groups, formats, weights)
    for number, sample in enumerate(samples):
        known = _reference(network, sample)
        for done, (bins, swap) in enumerate(trials):
            powers[done].append(_powers(network, known, bins, swap))
            if progress is not None:
                progress(number * len(trials) + done + 1, len(samples) * len(trials))
    noises = [_relative(found) for found in powers]
    tensors = dict(zip(groups, noises, strict=False))
    layered = dict(zip(swaps, noises[len(groups) :], strict=True))
    return Sensitivity(
        MappingProxyType(tensors),
        MappingProxyType(layered),
        together,
        MappingProxyType(dict(formats)),
        len(samples),
    )


def relative_noise(
    clean: Sequence[Mapping[str, np.ndarray]], found: Sequence[Mapping[str, np.ndarray]]
) -> float:
    """Squared errors over squared values of several samples, the mean over the outputs that are floating point."""
    return _relative([_powers_of(a, b) for a, b in zip(clean, found, strict=True)])


_Powers = np.ndarray
"""Squared errors and squared values of each output that is floating point, (2, outputs)."""


def _powers_of(clean: Mapping[str, np.ndarray], found: Mapping[str, np.ndarray]) -> _Powers:
    errors, values = [], []
    for name, array in clean.items():
        if array.dtype.kind == "f" and array.size:
            wanted = array.astype(np.float64)
            with np.errstate(invalid="ignore"):  # values without end: the noise is no number
                errors.append(((wanted - found[name].astype(np.float64)) ** 2).sum())
                values.append((wanted**2).sum())
    return np.array([errors, values])


def _relative(powers: Sequence[_Powers]) -> float:
    """The noise of samples together."""
    errors, values = np.sum(powers, 0) if powers else np.zeros((2, 0))
    with np.errstate(invalid="ignore"):
        return float(np.mean(errors / np.maximum(values, 1e-30))) if errors.size else 0.0


def _swapped(network: Network, weights: Weights) -> dict[str, Layer]:
    """Layers with these weights, by their outputs."""
    layers = {layer.output.name: layer for layer in network.layers}
    return {
        name: _with_weights(layers[name], array, bias)
        for name, (array, bias) in weights.items()
        if name in layers
        and 1 in layers[name].constants
        and layers[name].constants[1].shape == array.shape
    }


_Known = tuple[Values, dict[str, np.ndarray]]
"""Every tensor of a sample, and the outputs."""


def _reference(network: Network, sample: Sample) -> _Known:
    values = trace_values(network, sample)
    return values, _outputs(network, values)


def _powers(
    network: Network, known: _Known, bins: Mapping[str, Format], swaps: Mapping[str, Layer]
) -> _Powers:
    values, clean = known
    found = _again(network, values, bins, swaps)
    return _powers_of(clean, _outputs(network, ChainMap(found, values)))


# A network on whole tensors ----------------------------------------------------------------------


def _with_weights(layer: Layer, weights: np.ndarray, bias: np.ndarray | None) -> Layer:
    constants = {**layer.constants, 1: weights}
    if bias is not None and 2 in constants and constants[2].shape == bias.shape:
        constants[2] = bias
    return replace(layer, constants=MappingProxyType(constants))


def trace_values(network: Network, sample: Sample) -> Values:
    """Every tensor of a sample, as it is stored."""
    values: Values = {}
    for tensor in network.inputs:
        stored = tensor.to_storage(np.asarray(sample[tensor.name]).astype(tensor.dtype))
        values[tensor.name] = np.ascontiguousarray(stored)
    with np.errstate(all="ignore"):
        for layer in network.layers:
            values.update(_computed(layer, values))
    return values


def _again(
    network: Network, values: Values, bins: Mapping[str, Format], swaps: Mapping[str, Layer]
) -> Values:
    """Tensors that differ once some are binned, and some layers are others."""
    found: Values = {
        tensor.name: fake_quantize(values[tensor.name], bins[tensor.name])
        for tensor in network.inputs
        if tensor.name in bins
    }
    with np.errstate(all="ignore"):
        for layer in network.layers:
            names = [tensor.name for tensor in layer.outputs]
            other = swaps.get(layer.output.name)
            if other is None and not any(t is not None and t.name in found for t in layer.inputs):
                made = {name: values[name] for name in names if name in bins}
            else:
                made = _computed(other or layer, ChainMap(found, values))
            for name in bins.keys() & made.keys():
                made[name] = fake_quantize(made[name], bins[name])
            found.update(made)
    return found


def _computed(layer: Layer, values: Mapping[str, np.ndarray]) -> Values:
    """The outputs of a layer, slab after slab."""
    stored = [None if t is None else values[t.name] for t in layer.inputs]
    outputs = run_in_slabs(get_operator(layer), layer, stored, _SLAB)
    return dict(zip((t.name for t in layer.outputs), outputs, strict=True))


def _outputs(network: Network, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    for output in network.outputs:
        tensor: Tensor | None = output.tensor
        if tensor is not None:
            found[output.name] = tensor.to_onnx(values[tensor.name])
    return found
