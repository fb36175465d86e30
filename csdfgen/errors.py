"""What can go wrong, said in one line: what, where, both numbers, the way out.

Leaf code raises the short fact; the loop that knows the layer, the file or the
line adds `where` with `at`.
"""

from __future__ import annotations

__all__ = [
    "CapacityExceededError",
    "CsdfgenError",
    "DeadlockError",
    "GraphError",
    "InconsistentError",
    "InputError",
    "ModelError",
    "PlanError",
    "ScheduleError",
    "ToolError",
    "UnsupportedOperatorError",
]


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
        joined = f"{where}: {self.where}" if self.where else where
        return type(self)(self.message, where=joined)


class ModelError(CsdfgenError):
    """The ONNX model is damaged, or says something this program cannot run."""


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
    """A schedule needs more room in a channel than its capacity."""


class PlanError(CsdfgenError):
    """A buffer plan does not hold what its schedule stores."""


class ToolError(CsdfgenError):
    """An external tool failed."""
