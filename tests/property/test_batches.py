"""Whatever the loader splits into images gives what the whole batch gives; for every operator's
samples.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict

import numpy as np
import pytest

from csdfgen.errors import ModelError
from csdfgen.reading.loader import load
from csdfgen.reading.onnx_file import OLDEST_OPSET
from tests.op_harness import Arg, Sample, named_outputs
from tests.op_samples import SAMPLES
from tests.op_samples.ranks import Fixed
from tests.simple_executor import execute

BATCH = 3
BY_OPERATOR: dict[str, list[Sample]] = defaultdict(list)
for _sample in SAMPLES:
    if _sample.opset < OLDEST_OPSET or any(isinstance(i, Fixed) for i in _sample.inputs):
        continue
    if _sample.op_type == "LRN" and any(
        isinstance(i, Arg) and i.dtype == "float64" for i in _sample.inputs
    ):
        continue  # onnxruntime has no such kernel, and onnx's reference evaluator takes the batch for the channels
    BY_OPERATOR[_sample.op_type].append(_sample)


def with_batch(sample: Sample) -> Sample:
    """The sample with another size along axis 0 of every computed input."""
    inputs = tuple(
        dataclasses.replace(i, shape=(BATCH, *i.shape[1:])) if isinstance(i, Arg) else i
        for i in sample.inputs
    )
    return dataclasses.replace(sample, inputs=inputs)


@pytest.mark.parametrize("op_type", sorted(BY_OPERATOR))
def test_split_batches_give_what_whole_ones_give(op_type: str) -> None:
    for sample in map(with_batch, BY_OPERATOR[op_type]):
        if any(isinstance(i, Arg) and not i.shape for i in sample.inputs):
            continue
        try:
            layer = sample.layer()
        except ModelError:  # the sample's constants hold for its own batch only
            continue
        network = load(sample.model(layer))
        if network.batch == 1:
            continue
        feeds = sample.feeds()
        got = execute(network, {f"i{k}": v for k, v in feeds.items()})
        for tensor, want in zip(named_outputs(layer), sample.reference(layer, feeds), strict=True):
            tolerance = 1e-2 if want.dtype == np.float16 else 1e-4
            np.testing.assert_allclose(
                got[tensor.name], want, rtol=tolerance, atol=tolerance, err_msg=str(sample)
            )


@pytest.mark.parametrize(
    "op_type",
    [
        "Conv",
        "ConvTranspose",
        "MaxPool",
        "BatchNormalization",
        "Relu",
        "Add",
        "Resize",
        "Gemm",
        "Softmax",
    ],
)
def test_what_usual_networks_are_made_of_is_split(op_type: str) -> None:
    split = 0
    for sample in map(with_batch, BY_OPERATOR[op_type]):
        try:
            split += load(sample.model(sample.layer())).batch == BATCH
        except ModelError:
            continue
    assert split
