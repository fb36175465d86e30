"""Functions of prepared calls that numpy does not offer with positional arguments alone.

A prepared call is a function and its arguments. Beside these, kernels name numpy's own: `copyto`,
ufuncs with their `reduce` and `accumulate`, `matmul`, `take`, `argmax`, `argmin`, `ndarray.clip` and
`ndarray.fill`. A backend that translates prepared calls instead of calling them (`csdfgen.backends.native`) knows all of
these.
"""

from __future__ import annotations

import numpy as np

__all__ = ["einsum", "looked_up", "maximum", "minimum", "negative"]


def maximum(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """`numpy.maximum` into `out` (numpy wants its `out` by name here)."""
    np.maximum(a, b, out=out)


def minimum(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """`numpy.minimum` into `out` (numpy wants its `out` by name here)."""
    np.minimum(a, b, out=out)


def negative(a: np.ndarray, out: np.ndarray) -> None:
    """`numpy.negative` into `out`, which may be `a`. Numpy's own negates some elements twice in place
    where these are 16 or 64 bytes apart (numpy 2.4, of four and of eight bytes).
    """
    np.multiply(a, -1, out=out)


def einsum(subscripts: str, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """`numpy.einsum` of two operands into `out`; subscripts are letters, a comma and an arrow."""
    np.einsum(subscripts, a, b, out=out)


def looked_up(table: np.ndarray, index: np.ndarray, out: np.ndarray) -> None:
    """out = table[index]. table: one dimension; index: intp, each within the table, of the output's
    shape.
    """
    np.take(table, index, None, out, "clip")  # any other mode goes through memory of numpy's own
