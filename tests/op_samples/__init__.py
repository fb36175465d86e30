"""Sample layers of every operator; the same laws test them all
(tests/property/test_operator_laws.py).
"""

from __future__ import annotations

from tests.op_harness import Sample
from tests.op_samples import (
    activation,
    arithmetic,
    convolution,
    joining,
    linear,
    normalization,
    padding,
    pooling,
    quantized,
    reduction,
    resampling,
    reshaping,
)

SAMPLES: list[Sample] = [
    sample
    for family in (
        convolution,
        pooling,
        activation,
        arithmetic,
        normalization,
        reduction,
        linear,
        reshaping,
        joining,
        padding,
        resampling,
        quantized,
    )
    for sample in family.SAMPLES
]
