"""What can go wrong? One line for each error: what, where, both numbers, the way out.

Leaf code raises the short fact; the loop that knows the layer, the file or the
line adds `where` with `at`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy


class CsdfgenError(Exception):
    """Base of every error that a user may see; prints `where: message` on one line."""

    def __init__(self, message: str, *, where: str = "") -> None:
        super().__init__(message)
        self.message = " ".join(str(message).split())
        self.where = where

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message

    def at(self, where: str) -> CsdfgenError:
        """The same error, one level further out: `where` goes in front of what is there."""
        found = copy(self)
        found.where = f"{where}: {self.where}" if self.where else where
        return found


class ModelError(CsdfgenError):
    """The ONNX model is damaged, or uses something that csdfgen does not support."""


class UnsupportedOperatorError(ModelError):
    """The model uses operators that are not in the table; lists them all."""


class InputError(CsdfgenError):
    """A file or array given by the user does not fit what the network takes."""


class GraphError(CsdfgenError):
    """A CSDF graph is malformed."""


class InconsistentError(GraphError):
    """The balance equations of a CSDF graph have no solution."""


class DeadlockError(GraphError):
    """No actor can fire although the iteration is not complete."""


class ScheduleError(CsdfgenError):
    """A schedule breaks a data dependency."""


class CapacityExceededError(ScheduleError):
    """A schedule needs more tokens in a channel than its capacity."""


class PlanError(CsdfgenError):
    """A buffer plan does not hold what its schedule stores, or none keeps a budget.

    least: bytes in which a plan was found, where fewer were given; 0 where nothing is known of it.
    """

    def __init__(self, message: str, *, where: str = "", least: int = 0) -> None:
        super().__init__(message, where=where)
        self.least = least


class ToolError(CsdfgenError):
    """An external tool failed."""


@contextmanager
def prefix_errors(where: str, *, if_silent: bool = False) -> Iterator[None]:
    """While the block runs, errors say what they are about: `where` goes in front, unless it is there.

    if_silent: nothing is added either where an error names another place, such as the file that could not be written.

    >>> with prefix_errors("a.onnx"):
    ...     raise InputError("has no inputs", where="graph")
    Traceback (most recent call last):
        ...
    csdfgen.errors.InputError: a.onnx: graph: has no inputs
    >>> with prefix_errors("a.onnx", if_silent=True):
    ...     raise InputError("is a directory", where="out")
    Traceback (most recent call last):
        ...
    csdfgen.errors.InputError: out: is a directory
    """
    try:
        yield
    except CsdfgenError as error:
        told = bool(error.where) if if_silent else error.where.startswith(where)
        raise (error if told else error.at(where)) from None


# Options in messages ----------------------------------------------------------------------------

_MARK: ContextVar[str] = ContextVar("csdfgen_mark_of_options", default="")
"""What stands in front of an option: nothing in front of an argument of Python."""

_BEHIND: ContextVar[str] = ContextVar("csdfgen_network_of_inputs", default="")
"""What stands in front of an input's name: nothing where there is one network."""

_FLAGS = {"shapes": "shape"}
"""Arguments whose option on the command line is called otherwise."""


@contextmanager
def name_options_as_flags() -> Iterator[None]:
    """While the block runs, messages speak of options as they are typed: the command line's
    setting.
    """
    with _set(_MARK, "--"):
        yield


@contextmanager
def name_options_as_suffixes() -> Iterator[None]:
    """While the block runs, messages speak of options as those of one model of several: MODEL+rows=1."""
    with _set(_MARK, "+"):
        yield


@contextmanager
def name_options_as_arguments() -> Iterator[None]:
    """While the block runs, messages speak of options by their names, also within a command: for what is
    asked in a file.
    """
    with _set(_MARK, ""):
        yield


@contextmanager
def name_inputs_behind(network: str) -> Iterator[None]:
    """While the block runs, messages name inputs as those of one network of several: NETWORK.INPUT."""
    with _set(_BEHIND, f"{network}."):
        yield


@contextmanager
def _set(variable: ContextVar[str], value: str) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def option(name: str, *value: object) -> str:
    """An option as whoever reads the message writes it, with its value if that is given.

    >>> option("rows", "4x"), option("rows", 0), option("fuse")
    ("rows='4x'", 'rows=0', 'fuse')
    >>> with name_options_as_flags():
    ...     option("rows", "4x"), option("shapes"), option("arena_factor", 2)
    ('--rows 4x', '--shape', '--arena-factor 2')
    >>> with name_options_as_suffixes():
    ...     option("rows", "4x")
    '+rows=4x'
    """
    if mark := _MARK.get():
        flag = _FLAGS.get(name, name)
        flag = flag.replace("_", "-") if mark == "--" else flag
        return (" " if mark == "--" else "=").join([f"{mark}{flag}", *map(str, value)])
    return "=".join([name, *map(repr, value)])


def first_line(error: Exception) -> str:
    """The first line of an error of another library; its type where it has no message."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def shape_option(shapes: Mapping[str, Sequence[int | str]]) -> str:
    """The option that gives inputs their shapes, by name; a size of "N" is one for the reader to choose.

    >>> shape_option({"x": (1, 3, 8, 8)})
    "shapes={'x': (1, 3, 8, 8)}"
    >>> shape_option({"x": (1, 3, "N", "N"), "y": (1, 4)})
    "shapes={'x': '1x3xNxN', 'y': (1, 4)}"
    >>> with name_options_as_flags():
    ...     shape_option({"x": (1, 3, 8, 8), "y": (1, "N")})
    '--shape x=1x3x8x8 --shape y=1xN'
    >>> with name_inputs_behind("a"):
    ...     shape_option({"x": (1, 3, 8, 8)})
    "shapes={'a.x': (1, 3, 8, 8)}"
    """
    shapes = {f"{_BEHIND.get()}{name}": sizes for name, sizes in shapes.items()}
    texts = {name: "x".join(map(str, sizes)) for name, sizes in shapes.items()}
    if mark := _MARK.get():
        return ("" if mark == "+" else " ").join(
            option("shapes", f"{name}={text}") for name, text in texts.items()
        )
    known = {n: tuple(s) for n, s in shapes.items() if all(isinstance(k, int) for k in s)}
    return option("shapes", {name: known.get(name, text) for name, text in texts.items()})
