"""Runs a network layer after layer in slabs of any height, with whole tensors between: slow, short,
and independent of plans.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from csdfgen.model.network import Layer, Network
from csdfgen.ops import get_operator
from csdfgen.ops.base import (
    CountingScratch,
    Work,
    allocate_targets,
    phases,
    present_slab,
    slice_targets,
    stored_rows,
)


def execute(
    network: Network, feeds: Mapping[str, np.ndarray], height: int = 10**9
) -> dict[str, np.ndarray]:
    """Outputs by name, in ONNX axis order. feeds: by input name, images along axis 0 where the
    network has a batch.

    height: rows a phase; every kernel is handed copies of the declared rows only.
    """
    with np.errstate(all="ignore"):
        images = [
            _one_image(network, _cut(feeds, network.batch, i), height) for i in range(network.batch)
        ]
    return {
        o.name: o.constant
        if o.constant is not None
        else images[0][o.name]
        if network.batch == 1
        else np.concatenate([image[o.name] for image in images])
        for o in network.outputs
    }


def _cut(feeds: Mapping[str, np.ndarray], batch: int, image: int) -> dict[str, np.ndarray]:
    return (
        dict(feeds)
        if batch == 1
        else {name: array[image : image + 1] for name, array in feeds.items()}
    )


def _one_image(
    network: Network, feeds: Mapping[str, np.ndarray], height: int
) -> dict[str, np.ndarray]:
    stored: dict[str, np.ndarray] = {}
    for tensor in network.inputs:
        assert feeds[tensor.name].shape == tensor.shape and feeds[tensor.name].dtype == tensor.dtype
        stored[tensor.name] = np.ascontiguousarray(tensor.to_storage(feeds[tensor.name]))
    for layer in network.layers:
        _run(layer, stored, height)
    return {
        o.name: o.tensor.to_onnx(stored[o.tensor.name])
        for o in network.outputs
        if o.tensor is not None
    }


def _run(layer: Layer, stored: dict[str, np.ndarray], height: int) -> None:
    operator = get_operator(layer)
    for tensor in layer.outputs:
        stored[tensor.name] = np.full(tensor.storage_shape, 77, tensor.dtype)
    emit = operator.kernel(layer)
    outputs = [stored[t.name] for t in layer.outputs]
    targets = allocate_targets(operator, layer, outputs)
    for phase in phases(operator, layer, height):
        slabs: list[np.ndarray | None] = []
        for position, rows in enumerate(phase.ins):
            if rows is None:
                slabs.append(None)
                continue
            source = layer.inputs[position]
            assert source is not None
            held = stored_rows(layer, position, rows)
            copy = stored[source.name][held.start : held.stop].copy()
            slabs.append(present_slab(copy, layer, position, rows))
        results = slice_targets(operator, layer, phase, targets)
        for function, arguments in emit(Work(phase, slabs, results, CountingScratch())):
            function(*arguments)
    for output, target in zip(outputs, targets, strict=True):
        if target is not output:
            np.copyto(output, target, "unsafe")
