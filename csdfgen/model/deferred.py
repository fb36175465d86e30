"""A constant that is computed from others when its elements are read, and is not stored.

Weights that take in a factor (a BatchNormalization behind a convolution) are needed once, when they are packed. Until then
their shape and type are enough for everything that plans with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

_LEAST = 1 << 12
"""Bytes of an array below which it is computed at once."""


@dataclass(frozen=True, eq=False)
class Deferred(NDArrayOperatorsMixin):
    """Stands where an array of numpy is read: it has the shape and the type, and whatever else is asked for is asked of the
    array that is computed at that moment. make: computes it. given: arrays, deferred ones, numbers and words.
    """

    make: Callable[..., np.ndarray]
    given: tuple[Any, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    __hash__ = object.__hash__
    size = property(lambda self: int(np.prod(self.shape)))
    ndim = property(lambda self: len(self.shape))
    nbytes = property(lambda self: self.size * self.dtype.itemsize)

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.make(*map(compute_array, self.given)), dtype)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *given: Any, **named: Any) -> Any:
        return getattr(ufunc, method)(*map(compute_array, given), **named)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what copies, pickles and numpy ask of any object
            raise AttributeError(name)
        return getattr(np.asarray(self), name)

    # Views stay deferred: their shapes are those of the same views of an array that has one element.

    def _viewed(self, method: str, *how: Any) -> Deferred:
        like = getattr(np.broadcast_to(np.empty((), self.dtype), self.shape), method)(*how)
        return Deferred(_view, (self, method, *how), like.shape, like.dtype)

    def reshape(self, *shape: Any) -> Deferred:
        return self._viewed("reshape", *shape)

    def swapaxes(self, one: int, other: int) -> Deferred:
        return self._viewed("swapaxes", one, other)

    def __getitem__(self, at: Any) -> np.ndarray | Deferred:
        if any(isinstance(one, np.ndarray) for one in (at if isinstance(at, tuple) else (at,))):
            return compute_array(self)[at]  # whose elements are no name for it
        return self._viewed("__getitem__", at)


def _view(array: np.ndarray, method: str, *how: Any) -> np.ndarray:
    found: np.ndarray = getattr(array, method)(*how)
    return found


def defer(
    make: Callable[..., np.ndarray], like: np.ndarray, *given: Any, dtype: str = ""
) -> np.ndarray:
    """What a function makes of an array, with its shape, and of other operands; computed when it is read, unless it is small.
    dtype: the type, if it is not that of the array.
    """
    if like.nbytes < _LEAST:
        return make(like, *given)
    found = Deferred(make, (like, *given), like.shape, np.dtype(dtype or like.dtype))
    return cast("np.ndarray", found)


def compute_array(value: Any) -> Any:
    """A deferred array with its elements; anything else as it is."""
    return np.asarray(value) if isinstance(value, Deferred) else value


def sources(value: Any) -> Iterator[np.ndarray]:
    """The arrays that a constant is computed from."""
    if isinstance(value, Deferred):
        for one in value.given:
            yield from sources(one)
    elif isinstance(value, np.ndarray):
        yield value
