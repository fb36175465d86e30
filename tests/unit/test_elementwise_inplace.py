"""Elementwise layers write their result over an operand: the values stay the same, and nothing is
allocated.
"""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from csdfgen.ops.base import AliasKind, CountingScratch, Scratch, Work, phases
from tests.op_harness import Arg, Sample, run_in_place, run_in_slabs
from tests.op_samples import ELEMENTWISE

INPLACE = [
    pytest.param(sample, alias.position, id=f"{sample}@{alias.position}")
    for sample in ELEMENTWISE
    for alias in sample.operator.aliases(sample.layer())
    if alias.kind is AliasKind.INPLACE
]


@pytest.mark.parametrize(("sample", "position"), INPLACE)
def test_a_result_over_its_operand_is_the_same_result(sample: Sample, position: int) -> None:
    layer = sample.layer()
    feeds = sample.feeds()
    for height in {1, layer.output.rows}:
        (want,) = run_in_slabs(sample, layer, feeds, height)
        np.testing.assert_array_equal(run_in_place(sample, layer, feeds, position, height), want)


def enlarged(sample: Sample) -> Sample | None:
    """The sample on maps of 64 Ki columns, if it is float32 and free to grow there."""
    if any(
        not isinstance(i, Arg)
        or i.dtype != "float32"
        or len(i.shape) != 4
        or i.shape[3] < 2
        or i.row_axis == 3
        for i in sample.inputs
    ):
        return None
    wide = tuple(
        replace(i, shape=(*i.shape[:3], 1 << 16)) for i in sample.inputs if isinstance(i, Arg)
    )
    return replace(sample, inputs=wide)


LARGE = [big for sample in ELEMENTWISE if (big := enlarged(sample)) is not None]
LARGE = list({(big.op_type, len(big.inputs), str(big.attributes)): big for big in LARGE}.values())
LARGE.append(
    Sample("Add", (Arg((64, 4096)), np.ones((64, 1), np.float32)), label="broadcast_without_rows_")
)


@pytest.mark.parametrize("sample", LARGE, ids=[str(s) for s in LARGE])
def test_no_call_allocates_anything_of_a_slabs_size(sample: Sample) -> None:
    layer = sample.layer()
    (phase, *_) = phases(sample.operator, layer, 1)
    slabs = [
        t.to_storage(sample.feeds()[k])[: len(rows)].copy()
        if t is not None and rows is not None
        else None
        for k, (t, rows) in enumerate(zip(layer.inputs, phase.ins, strict=True))
    ]
    in_place = [a.position for a in sample.operator.aliases(layer) if a.kind is AliasKind.INPLACE]
    apart = np.empty((len(phase.out), *layer.output.row_shape), layer.output.dtype)
    for result in (apart, *(slabs[k] for k in in_place)):
        assert result is not None
        emit = sample.operator.kernel(layer)
        count = CountingScratch()
        list(emit(Work(phase, slabs, [result], count)))
        scratch = Scratch(np.zeros(count.end + Scratch.ALIGN, np.uint8))
        calls = list(emit(Work(phase, slabs, [result], scratch)))
        tracemalloc.start()
        for function, arguments in calls:
            function(*arguments)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        # numpy converts types through a buffer of fixed size (8192 elements).
        assert peak < result.nbytes / 2, (peak, result.nbytes)
