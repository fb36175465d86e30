"""Samples of the resampling family."""

from __future__ import annotations

from tests.op_harness import Sample

SAMPLES: list[Sample] = []
