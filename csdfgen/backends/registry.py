"""Which backend computes? One by its name, and what "auto" stands for on this machine.

A backend is a folder here, whose module `backend` has a function `backend` that makes it, and a line in `FOLDERS`.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import cache, lru_cache
from importlib import import_module
from itertools import pairwise

from csdfgen.backends import FOLDERS
from csdfgen.errors import InputError, ToolError, option
from csdfgen.model.options import PlanOptions
from csdfgen.program.steps import Backend

_LOG = logging.getLogger(__name__)

_ON_DEVICES = "opencl"
"""The backend that has a choice of devices."""

AUTO = "auto"
"""The fastest backend that there is."""

BACKENDS = (AUTO, *FOLDERS)
"""Names of backends."""


def load_backend(
    backend: str,
    *,
    exact: bool = False,
    fallback: bool = False,
    ways: str = "",
    cl_device: str = "",
) -> Backend:
    """A backend by name; exact, fallback, ways, cl_device: see `PlanOptions`. Raises InputError for a name that is
    none, ways that are none, and a device that is not there; ToolError for a backend that cannot be had on this machine.
    """
    name = resolve_backend(backend)
    if cl_device and name != _ON_DEVICES:
        raise InputError(
            f"{option('cl_device', cl_device)} names a device of {option('backend', _ON_DEVICES)}, which is not asked for: "
            f"{option('backend', name)} computes"
        )
    return _made(name, exact, fallback, ways, cl_device)


def choose_backend(options: PlanOptions | None) -> Backend:
    """The backend that a plan with these options is made for; None: the fastest. Raises ToolError."""
    if options is None:
        return load_backend(AUTO)
    return load_backend(
        options.backend,
        exact=options.exact,
        fallback=options.fallback,
        ways=options.ways,
        cl_device=options.cl_device,
    )


def replace_backend(options: PlanOptions, backend: str = "", cl_device: str = "") -> PlanOptions:
    """The options of a plan that another backend, or another device, computes; "": its own. Raises InputError."""
    name = resolve_backend(backend or options.backend)
    device = cl_device or (options.cl_device if name == options.backend else "")
    ways = (
        options.ways if name == resolve_backend(options.backend) else ""
    )  # words are a backend's own
    return replace(options, backend=name, cl_device=device, ways=ways)


def resolve_backend(backend: str) -> str:
    """The name that a backend's name stands for: "auto" is the first that can be had, with a warning that
    says why others cannot. Raises InputError.
    """
    if backend not in BACKENDS:
        raise InputError(f"{option('backend', backend)}: not one of {', '.join(BACKENDS)}")
    return _fastest() if backend == AUTO else backend


def find_backend(trait: str) -> str:
    """The name of the first backend with a trait of `Backend` ("emits", "variants"). Raises ToolError where this machine
    can have none, with the reason why it lacks the first.
    """
    why: ToolError | None = None
    for name in FOLDERS:
        try:
            if getattr(load_backend(name), trait):
                return name
        except ToolError as error:
            why = why or error
    raise why or ToolError(f"no backend has the trait '{trait}'")


@cache
def _fastest() -> str:
    """What "auto" stands for; logged once."""
    names = list(FOLDERS)
    for name, other in pairwise(names):
        try:
            found = _made(name)
        except ToolError as error:
            _LOG.warning(
                "%s; %s computes instead, two to four times slower (%s says that this is meant)",
                error, other, option("backend", other),
            )  # fmt: skip
        else:
            _LOG.info("%s code computes (%s)", name, found.code)
            return name
    return names[-1]


@lru_cache(maxsize=64)
def _made(
    name: str, exact: bool = False, fallback: bool = False, ways: str = "", cl_device: str = ""
) -> Backend:
    """One backend of each kind: what it loads stays loaded, and plans remember what it declared."""
    make = import_module(f"{FOLDERS[name]}.backend").backend
    device = {"device": cl_device} if cl_device else {}
    found: Backend = make(exact=exact, fallback=fallback, ways=ways, **device)
    return found
