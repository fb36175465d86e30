"""Which kernels compute? A backend by its name, and what "auto" stands for on this machine."""

from __future__ import annotations

import logging
from functools import cache, lru_cache

from csdfgen.errors import InputError, ToolError, option
from csdfgen.kernels.numpy_set import NUMPY
from csdfgen.kernels.steps import KernelSet
from csdfgen.model.options import PlanOptions

__all__ = ["AUTO", "BACKENDS", "kernels_for", "kernels_of", "settled"]

_LOG = logging.getLogger(__name__)

AUTO = "auto"
"""The fastest backend that there is."""

BACKENDS = (AUTO, "native", "numpy")
"""Names of backends."""


def kernels_of(
    backend: str, *, exact: bool = False, fallback: bool = False, ways: str = ""
) -> KernelSet:
    """A backend by name; exact, fallback, ways: see `PlanOptions`. Raises InputError for a name that is
    none, and ways that are none; ToolError where native code cannot be built.
    """
    return NUMPY if settled(backend) == NUMPY.name else _native(exact, fallback, ways)


def kernels_for(options: PlanOptions | None) -> KernelSet:
    """The backend that a plan with these options is made for; None: the fastest. Raises ToolError."""
    if options is None:
        return kernels_of(AUTO)
    return kernels_of(
        options.backend, exact=options.exact, fallback=options.fallback, ways=options.ways
    )


def settled(backend: str) -> str:
    """The name that a backend's name stands for: "auto" is native code where it can be built, and
    else numpy, with a warning that says why. Raises InputError.
    """
    if backend not in BACKENDS:
        raise InputError(f"{option('backend', backend)}: not one of {', '.join(BACKENDS)}")
    return _fastest() if backend == AUTO else backend


@cache
def _fastest() -> str:
    """What "auto" stands for; said once."""
    try:
        kernels = _native(exact=False, fallback=False, ways="")
    except ToolError as error:
        _LOG.warning(
            "%s; numpy computes instead, two to four times slower (%s says that this is meant)",
            error, option("backend", NUMPY.name),
        )  # fmt: skip
        return NUMPY.name
    _LOG.info("native code computes (%s)", kernels.code)
    return kernels.name


@lru_cache(maxsize=64)
def _native(exact: bool, fallback: bool, ways: str) -> KernelSet:
    """One set of each kind: its library stays loaded, and plans remember what it declared."""
    from csdfgen.native.kernel_set import NativeKernels
    from csdfgen.native.library import load
    from csdfgen.native.ways import Ways

    return NativeKernels(load(), fallback=fallback, ways=Ways(exact, ways))
