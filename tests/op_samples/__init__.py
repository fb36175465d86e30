"""Sample layers of every operator; the same laws test them all
(tests/property/test_operator_laws.py).
"""

from __future__ import annotations

from tests.op_harness import Sample
from tests.op_samples import (
    attention,
    convolution,
    drawn,
    linear,
    normalization,
    pooling,
    quantized,
    recurrent,
    resampling,
    selection,
    special,
)

ELEMENTWISE: list[Sample] = [*drawn.ELEMENTWISE, *special.ELEMENTWISE]

SAMPLES: list[Sample] = [
    *ELEMENTWISE,
    *drawn.REDUCING,
    *drawn.MOVING,
    *special.OTHERS,
    *(
        sample
        for family in (
            convolution,
            pooling,
            attention,
            normalization,
            recurrent,
            linear,
            selection,
            resampling,
            quantized,
        )
        for sample in family.SAMPLES
    ),
]
