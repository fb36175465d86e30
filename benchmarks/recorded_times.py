"""How long did SDF3 and Kiter take? Quoted from section 7 of the README of the recorded runs (2
shared cores, gcc -O3).
"""

from __future__ import annotations

__all__ = ["RECORDED", "SDF3_BY_CAPACITY", "STORAGE_BY_LAYERS"]

RECORDED = (
    (
        "SDF3",
        "throughput",
        "chains, residual, inception, dense; 5 to 50 layers of 16 to 224 rows",
        "0.01 to 0.8 s",
    ),
    ("Kiter", "throughput", "the same", "0.01 to 0.15 s"),
    ("SDF3", "throughput", "two actors, capacity 1,000 / 10,000 / 30,000", "0.06 / 4 / 28 s"),
    ("Kiter", "throughput", "two actors, large capacities", "0.01 to 0.15 s"),
    ("SDF3", "storage", "chains without overlap loops, up to 10 layers", "0.01 to 5 s"),
    ("SDF3", "storage", "chains without overlap loops, 20 layers", "over 20 s"),
    ("Kiter", "storage", "without overlap loops, 20 layers", "0.1 to 2 s"),
    ("Kiter", "storage", "without overlap loops, 50 layers of 8 rows", "over 20 s"),
    ("Kiter", "storage", "with overlap loops, 5 layers of 112 rows, or 10 of 16", "over 20 s"),
)
"""Tool, question, graphs, time."""

SDF3_BY_CAPACITY = {1_000: 0.06, 10_000: 4.0, 30_000: 28.0}
"""Capacity -> seconds for the throughput of two actors."""

STORAGE_BY_LAYERS = {"SDF3": {10: 5.0, 20: 20.0}, "Kiter": {20: 2.0, 50: 20.0}}
"""Tool -> layers of a chain without overlap loops -> seconds at most; 20 is where it was ended."""
