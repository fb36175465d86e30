"""Which units may a device profile use, and what is each in base units (s, B, FLOP/s, B/s, W, J)?"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from csdfgen.model.units import SIZES
from csdfgen.model.units import TIMES as TIMES

LANES = 16
"""Output channels that a vector of the native kernels has."""

WORK: Mapping[str, str] = MappingProxyType(
    {
        "MAC": "multiply-accumulates of convolutions and matrix products",
        "lane": f"those that Winograd's forms leave, with output channels filled up to vectors of {LANES}",
        "element": "elements of the output",
        "input": "elements that are read",
        "tap": "window positions times pixels of the output, channels not counted (how the published model sizes LRN)",
    }
)
"""Units of work that a time can be given per, besides bytes and rows."""

Units = Mapping[str, float]
"""Unit -> factor to the base unit."""

TIMES_OF_WORK: Units = MappingProxyType(
    {f"{unit}/{work}": size for unit, size in TIMES.items() for work in WORK}
)
TIMES_A_ROW: Units = MappingProxyType({f"{unit}/row": size for unit, size in TIMES.items()})
TIMES_A_BYTE: Units = MappingProxyType({f"{unit}/B": size for unit, size in TIMES.items()})
BYTES: Units = MappingProxyType({unit: size for unit, size in SIZES.items() if unit != "KB"})
"""Kilobytes are written kB in a profile."""

RATES: Units = MappingProxyType(
    {"MFLOP/s": 1e6, "GFLOP/s": 1e9, "TFLOP/s": 1e12, "GOP/s": 1e9, "TOP/s": 1e12}
)
"""OP/s is for operations on integers, which are no floating point operations."""

BANDWIDTHS: Units = MappingProxyType({"MB/s": 1e6, "GB/s": 1e9, "GiB/s": 2**30})
POWERS: Units = MappingProxyType({"W": 1.0, "mW": 1e-3})
_ENERGIES: Units = MappingProxyType({"nJ": 1e-9, "pJ": 1e-12})
ENERGIES_OF_WORK: Units = MappingProxyType(
    {f"{unit}/FLOP": size for unit, size in _ENERGIES.items()}
)
ENERGIES_A_BYTE: Units = MappingProxyType({f"{unit}/B": size for unit, size in _ENERGIES.items()})
CORES: Units = MappingProxyType({"cores": 1.0})
COUNTS: Units = MappingProxyType({"multiprocessors": 1.0})
PIXELS: Units = MappingProxyType({"pixels": 1.0})
FRACTIONS: Units = MappingProxyType({"%": 1e-2})

FACTORS: Units = MappingProxyType(
    {
        **TIMES,
        **TIMES_OF_WORK,
        **TIMES_A_ROW,
        **TIMES_A_BYTE,
        **BYTES,
        **CORES,
        **FRACTIONS,
        **POWERS,
    }
)
"""Units of what csdfgen measures."""
