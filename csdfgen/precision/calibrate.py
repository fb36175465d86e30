"""Which values do the tensors of a network take? The network is executed in slabs, which watchers observe.

No tensor is kept whole: calibration takes the arena of a plan, and 16 KiB for each tensor. Weights are rounded for some of
the inputs and noise is measured on others, because weights fit the former better than any other input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

import runtime
from csdfgen.errors import InputError
from csdfgen.goals.choice import plan
from csdfgen.model.given import name_arrays
from csdfgen.model.network import Network
from csdfgen.precision.ranges import Observer

_FEW = 4
"""From this number of inputs on, one of as many is kept for measuring."""

Sample = Mapping[str, np.ndarray]
"""Arrays by input, as the network takes them."""

Inputs = Iterable[Sample] | Sample | np.ndarray
"""What inputs may be given as; arrays with one picture or several along axis 0."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was seen of every tensor, by its name. frames: inputs that were run; arena_bytes: memory of the
    plan that ran them.
    """

    observed: Mapping[str, Observer]
    frames: int
    arena_bytes: int


def calibrate(
    network: Network,
    inputs: Inputs,
    *,
    tensors: Iterable[str] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Calibration:
    """Run inputs through a float network, and observe its tensors.

    inputs: an array, or arrays by input name, with one picture or several along axis 0; or several
        such. tensors: names to observe; by default all of them. progress: called with the number of inputs so far.
    Raises InputError where there is no input, where one does not fit, or is no number.
    """
    wanted = set(network.tensors) if tensors is None else set(tensors) & set(network.tensors)
    watched = {
        name: Observer()
        for name in sorted(wanted)
        if network.tensors[name].dtype.startswith("float")
    }
    # unfused, so that every tensor of the model exists
    settled = plan(network, fuse="none", weights="copied")
    program = runtime.compile(settled, watchers={name: one.see for name, one in watched.items()})
    count = 0
    for sample in split_samples(network, inputs):
        program(sample)
        count += 1
        if progress is not None:
            progress(count)
    if not count:
        raise InputError("there is no input to calibrate on; give at least one")
    wrong = [name for name, one in watched.items() if not one.finite]
    if wrong:
        raise InputError(
            f"tensor '{wrong[0]}' has values that are no numbers on these inputs; calibrate on others"
        )
    return Calibration(watched, count, settled.figures["arena"])


def split_samples(network: Network, inputs: Inputs) -> Iterator[Sample]:
    """Inputs one sample after the other: what has several along axis 0 is cut. Raises InputError."""
    if isinstance(inputs, np.ndarray):
        inputs = name_arrays(inputs, [tensor.name for tensor in network.inputs])
    several: Sequence[Sample] | Iterable[Sample] = (
        [inputs] if isinstance(inputs, Mapping) else inputs
    )
    for one in several:
        if not isinstance(one, Mapping):
            raise InputError(f"inputs has {type(one).__name__}; a dict of arrays is needed")
        yield from _cut(network, one)


def _cut(network: Network, given: Sample) -> Iterator[Sample]:
    arrays, counts = name_arrays(given, [tensor.name for tensor in network.inputs]), {}
    for tensor in network.inputs:
        array, shape = arrays[tensor.name], network.whole_shape(tensor)
        if array.ndim == len(shape) - 1 and array.shape == shape[1:] and shape[0] == 1:
            array = array[None]
        per = shape[0] if shape else 1
        if (
            array.ndim != len(shape)
            or array.shape[1:] != shape[1:]
            or (shape and (array.shape[0] % per or not array.size))
        ):
            raise InputError(
                f"input '{tensor.name}' has shape {array.shape}, the network takes {shape}, or several of them along axis 0"
            )
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise InputError(f"input '{tensor.name}' has values that are no numbers; take them out")
        counts[tensor.name] = array.shape[0] // per if shape else 1
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise InputError(
            f"inputs have different numbers of pictures: {listed}; give as many of each"
        )
    for k in range(next(iter(counts.values()), 0)):
        sample = {}
        for tensor in network.inputs:
            shape = network.whole_shape(tensor)
            array = (
                np.asarray(given[tensor.name]).reshape(-1, *shape[1:])
                if shape
                else np.asarray(given[tensor.name])
            )
            sample[tensor.name] = array[k * shape[0] : (k + 1) * shape[0]] if shape else array
        yield sample


# Which inputs serve for what ---------------------------------------------------------------------


def split_images(samples: list[Sample], batch: int) -> list[Sample]:
    """The inputs, those of a batch as single images: tensors are looked at one image at a time."""
    if batch == 1:
        return samples
    return [
        {name: array[k : k + 1] for name, array in sample.items()}
        for sample in samples
        for k in range(batch)
    ]


def take_fitting_samples(samples: list[Sample], count: int) -> Sequence[Sample]:
    """At most so many of those that weights are fitted to."""
    return take_evenly(_split(samples)[0], count)


def take_measuring_samples(samples: list[Sample], count: int) -> Sequence[Sample]:
    """At most so many of those that noise is measured on."""
    return take_evenly(_split(samples)[1], count)


def take_evenly(samples: Sequence[Sample], count: int) -> Sequence[Sample]:
    """At most so many inputs, evenly taken from those given."""
    return samples[:: max(1, -(-len(samples) // count))][:count]


def _split(samples: list[Sample]) -> tuple[list[Sample], list[Sample]]:
    """Inputs to fit weights to, and others to measure on; of few inputs all are both."""
    if len(samples) < _FEW:
        return samples, samples
    others = samples[_FEW - 1 :: _FEW]
    return [one for k, one in enumerate(samples) if k % _FEW != _FEW - 1], others
