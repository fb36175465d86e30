"""How do all channels of a tensor use their integers alike? Each is multiplied so that all have the same reach, and
the weights that read it divide again.

A tensor has one scale, set by its largest channel; a channel that reaches a tenth as far has a tenth of the
integers. Between two layers with weights, a factor for each channel moves freely: into the weights that make
it, through what is homogeneous (Relu, pools), and out of those that read it. Factors are powers of two, so that
the float network computes what it did, bit for bit. Source: Nagel et al., "Data-free quantization through weight
equalization" (2019), section 4.1; here by what channels were seen to reach, as integers of weights have a
scale for each filter anyway.

How far: what is gained in a tensor is lost in weights that read several channels with one scale. Both noises are
known from the channels' reach and power, and the exponent with the least sum is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from csdfgen.model.network import Network
from csdfgen.precision.calibrate import Sample
from csdfgen.precision.noise import trace_values
from csdfgen.precision.products import Products

_HOMOGENEOUS = ("Relu", "LeakyRelu", "MaxPool", "AveragePool", "GlobalAveragePool", "PRelu")
"""Operators that keep channels apart, and a factor above 0."""

_EXPONENTS = (0.0, 0.5, 1.0)
"""How far channels are levelled: not at all, half way, all the way."""

_MOST = 2.0**10
"""The largest factor: a channel that hardly ever is but zero may be more on another picture."""

_STEPS = 255
"""Steps of an int8."""

_WEIGHT_STEPS = 127
"""Steps of weights in int8 on each side of zero."""


@dataclass(frozen=True, slots=True)
class _Passage:
    """A way from a product to those that read its channels. tensors: on it, the maker's result first.
    reading: (product, the tensor that it reads).
    """

    maker: onnx.NodeProto
    tensors: tuple[str, ...]
    reading: tuple[tuple[onnx.NodeProto, str], ...]


@dataclass(frozen=True, slots=True)
class _Channels:
    """What was seen of a tensor's channels, (channels,): largest magnitude, mean square."""

    reach: np.ndarray
    power: np.ndarray


def equalize_channels(
    model: onnx.ModelProto, network: Network, samples: Sequence[Sample]
) -> onnx.ModelProto:
    """A float model with levelled channels, which computes the same. network: the model's. samples: inputs."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    work = Products(copy.graph)
    found = list(_passages(work))
    names = {name for one in found for name in one.tensors}
    seen = _seen(network, samples, names)
    for one in found:
        if set(one.tensors) <= seen.keys():
            _level(work, one, seen)
    return copy


def _passages(work: Products) -> Iterator[_Passage]:
    """Ways whose every end takes in a factor."""
    for node in work.graph.node:
        if not work.is_one(node):
            continue
        tensors, reading, left = [], [], [node.output[0]]
        while left:
            name = left.pop()
            readers = work.readers.get(name, [])
            if name in work.ends or not readers:
                break
            tensors.append(name)
            for reader in readers:
                if reader.op_type in _HOMOGENEOUS and reader.input[0] == name:
                    left.append(reader.output[0])
                else:
                    reading.append((reader, name))
        else:
            unit = _beside(work, node, np.ones(work.made_channels(node)))
            if all(work.scaled_input(reader, name, unit) is not None for reader, name in reading):
                yield _Passage(node, tuple(tensors), tuple(reading))


def _seen(network: Network, samples: Sequence[Sample], names: set[str]) -> Mapping[str, _Channels]:
    """Channels of tensors on these inputs."""
    found: dict[str, _Channels] = {}
    for sample in samples:
        values = trace_values(network, sample)
        for name in names & values.keys():
            array = network.tensors[name].to_onnx(values[name])
            if array.ndim < 2:
                continue
            axis = 1 if array.ndim > 2 else -1
            flat = np.moveaxis(array, axis, 0).reshape(array.shape[axis], -1).astype(np.float64)
            reach, power = np.abs(flat).max(1), (flat**2).mean(1)
            before = found.get(name)
            if before is not None:
                reach, power = np.maximum(reach, before.reach), power / len(samples) + before.power
            else:
                power = power / len(samples)
            found[name] = _Channels(reach, power)
    return found


def _level(work: Products, one: _Passage, seen: Mapping[str, _Channels]) -> None:
    """Scale the channels of a passage, where that is less noise."""
    count = work.made_channels(one.maker)
    if any(len(seen[name].reach) != count for name in one.tensors):
        return
    factors = [_factors(seen[one.tensors[-1]].reach, exponent) for exponent in _EXPONENTS]
    noises = [_noise(work, one, seen, factor) for factor in factors]
    best = factors[int(np.argmin(noises))]
    if np.all(best == 1):
        return
    back = _beside(work, one.maker, 1 / best)
    changes = [work.scaled_input(node, name, back) for node, name in one.reading]
    work.change_made(one.maker, best, np.zeros(count))
    for change in changes:
        assert change is not None
        change()


def _beside(work: Products, maker: onnx.NodeProto, values: np.ndarray) -> np.ndarray:
    """One number for each channel that a product makes, in the shape of a constant that is combined with it."""
    if maker.op_type not in ("Conv", "ConvTranspose"):
        return values
    return values.reshape(-1, *(1,) * (work.constants[maker.input[1]].ndim - 2))


def _factors(reach: np.ndarray, exponent: float) -> np.ndarray:
    """What brings each channel nearer to the largest one, powers of two from 1 on."""
    ratio = np.divide(reach.max(), reach, out=np.ones_like(reach), where=reach > 0)
    return np.asarray(2.0 ** np.floor(np.log2(np.minimum(ratio**exponent, _MOST))))


def _noise(
    work: Products, one: _Passage, seen: Mapping[str, _Channels], factor: np.ndarray
) -> float:
    """The squared error at what reads a passage, of its tensors' integers and of the weights' own."""
    total = 0.0
    for node, name in one.reading:
        weights = work.grouped_weights(node)
        shape = len(weights), 1, -1, 1
        reach, power, times = (
            array.reshape(shape) for array in (seen[name].reach, seen[name].power, factor)
        )
        step = (reach * times).max() / _STEPS
        total += float(step**2 / 12 * ((weights / times) ** 2).sum())
        steps = np.abs(weights / times).max((2, 3)) / _WEIGHT_STEPS
        each = (power * times**2).sum((2, 3)) * weights.shape[3]
        total += float((steps**2 / 12 * each).sum())
    return total
