"""How much work is it? Calls, which are the same on every machine, where seconds are not."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from math import inf
from typing import Any

__all__ = ["count_calls"]


def count_calls(function: Callable[[], Any], most: float = inf) -> tuple[int, Any]:
    """How many functions, of Python and of others, a function calls, and what it returns; one that calls more than `most`
    ends the process.

    >>> count_calls(lambda: len("abc"))
    (2, 3)
    """
    count = 0

    def counted(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")
        if count > most:
            os._exit(1)

    sys.setprofile(counted)
    try:
        found = function()
    finally:
        sys.setprofile(None)
    return count - 1, found  # without the one that ends it
