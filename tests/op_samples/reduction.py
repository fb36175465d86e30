"""Samples of the reduction family."""

from __future__ import annotations

from tests.op_harness import Sample

SAMPLES: list[Sample] = []
