"""Which arrays are the inputs of a network? The caller has one array, or arrays by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from csdfgen.errors import InputError


def name_arrays(given: Any, names: Sequence[str]) -> dict[str, np.ndarray]:
    """The arrays of all inputs, in their order; what else is named is left out. Raises InputError."""
    if isinstance(given, np.ndarray) or not isinstance(given, Mapping):  # the first is quick to ask
        if len(names) != 1:
            raise InputError(
                f"one array for {len(names)} inputs; give a dict with {', '.join(names)}"
            )
        given = {names[0]: given}
    found = {}
    for name in names:
        if name not in given:
            known = ", ".join(sorted(map(str, given))) or "nothing"
            raise InputError(f"input '{name}' is missing; given: {known}")
        try:
            found[name] = np.asarray(given[name])
        except (TypeError, ValueError) as error:
            raise InputError(f"input '{name}' is no array: {error}") from None
    return found
