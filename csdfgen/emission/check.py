"""NAME_check: a self-test of emitted C on a board, whose inputs are computed there and whose outputs are compared with ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from csdfgen.backends.native.template import fill_template
from csdfgen.emission.source import TEXT, Unit
from csdfgen.emission.times import SAMPLES, list_inputs
from csdfgen.errors import PlanError, option

_TOLERANCE = 1e-3
"""Largest difference of floats, relative to the largest of them; integers are equal."""


def check_source(unit: Unit, outputs: Mapping[str, np.ndarray]) -> Iterator[str]:
    """NAME_check.c. outputs: the expected ones for the inputs that `times.make_inputs` makes. Raises PlanError if none of them
    can be compared.
    """
    expected = []
    for word, kind, name in unit.results():
        flat = outputs[name].ravel()
        values = flat[:: max(1, -(-flat.size // SAMPLES))]
        halves = kind == "uint16_t" and flat.dtype != np.uint16
        if values.size and not halves and np.isfinite(values).all():
            floats = kind in ("float", "double")
            texts = [f"{value:.9e}" if floats else str(int(value)) for value in values]
            expected.append(
                {
                    "word": word,
                    "type": "double" if floats else kind,
                    "count": values.size,
                    "step": max(1, -(-flat.size // SAMPLES)),
                    "limit": f"{_TOLERANCE * float(np.abs(flat).max()) if floats else 0.0:.3e}",
                    "values": [
                        f"{', '.join(texts[at : at + 4])}," for at in range(0, len(texts), 4)
                    ],
                }
            )
    if not expected:
        raise PlanError(
            f"{option('check')} compares floats of 32 and 64 bits and integers that are finite; no output is one"
        )
    return fill_template(
        TEXT / "net_check.c",
        **unit.words,
        members=unit.members(),
        inputs=list_inputs(unit),
        expected=expected,
        passed=unit.passed(),
    )
