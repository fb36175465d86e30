"""Sample layers of every operator; the same laws test them all
(tests/property/test_operator_laws.py).
"""

from __future__ import annotations

from tests.op_harness import Sample
from tests.op_samples import (
    activation,
    arithmetic,
    attention,
    convolution,
    indexing,
    joining,
    linear,
    normalization,
    padding,
    pooling,
    quantized,
    recurrent,
    reduction,
    resampling,
    reshaping,
    selection,
)

SAMPLES: list[Sample] = [
    sample
    for family in (
        convolution,
        pooling,
        activation,
        arithmetic,
        attention,
        normalization,
        recurrent,
        reduction,
        linear,
        reshaping,
        joining,
        indexing,
        selection,
        padding,
        resampling,
        quantized,
    )
    for sample in family.SAMPLES
]
