"""Which kernels compute? A backend by its name, and what "auto" stands for on this machine."""

from __future__ import annotations

from functools import cache

from csdfgen.errors import InputError, ToolError, option
from csdfgen.kernels.numpy_set import NUMPY
from csdfgen.kernels.steps import KernelSet

__all__ = ["BACKENDS", "kernels_of", "settled"]

BACKENDS = ("auto", "native", "numpy")
"""Names of backends, "auto" for the fastest that there is."""


def kernels_of(backend: str) -> KernelSet:
    """A backend by name. Raises InputError for a name that is none; ToolError where native code
    cannot be built.
    """
    name, _ = settled(backend)
    return NUMPY if name == "numpy" else _native()


def settled(backend: str) -> tuple[str, str]:
    """The name that a backend's name stands for, and why: "auto" is native code where it can be
    built. Raises InputError.
    """
    if backend not in BACKENDS:
        raise InputError(f"{option('backend', backend)}: not one of {', '.join(BACKENDS)}")
    if backend != "auto":
        return backend, "as asked for"
    try:
        kernels = _native()
    except ToolError as error:
        return "numpy", str(error)
    return kernels.name, "a C compiler was found"


@cache
def _native() -> KernelSet:
    """One set: its library stays loaded, and plans remember what it declared."""
    from csdfgen.native.kernel_set import NativeKernels
    from csdfgen.native.library import load

    return NativeKernels(load())
