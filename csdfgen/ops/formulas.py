"""Which operators of a graph are one function, spelled out? Formulas of functions, and where a graph has them.

Exporters write a function that the operator set of their file does not have as several operators: x * Sigmoid(x) for
Swish, which is new in set 24. Factors come in any order and place: as Mul, Div, Reciprocal, Sqrt and Pow. A product is
therefore compared as a number and powers of what is multiplied.

Source: the function bodies at https://onnx.ai/onnx/operators/ (Swish, HardSwish, HardSigmoid, Mish, Gelu,
LayerNormalization, RMSNormalization), and what torch, TensorFlow and their exporters write for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from math import pi, sqrt
from typing import Any, NamedTuple, Protocol

import numpy as np


class Operation(NamedTuple):
    """A node or a layer as formulas see it. operands: names of tensors, or constants. origin: what it is."""

    kind: str
    operands: tuple[str | np.ndarray, ...]
    settings: Mapping[str, Any]
    origin: Any


class Operations(Protocol):
    """A graph as formulas see it."""

    def made(self, name: str) -> Operation | None:
        """The operation that makes a tensor, None where none does or it has to stay."""

    def readers(self, name: str) -> Sequence[Any] | None:
        """What reads a tensor; None for an output of the graph."""


# Formulas ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Variable:
    """A tensor, the same one everywhere."""

    name: str


@dataclass(frozen=True)
class _Constant:
    """Any constant of floats."""

    name: str


@dataclass(frozen=True)
class _Call:
    """The result of an operator. settings: attributes, by name: a number, or what the formula calls it."""

    kind: str
    operands: tuple[_Formula, ...]
    settings: tuple[tuple[str, float | str], ...] = ()


@dataclass(frozen=True)
class _Product:
    """A number, any number under a name, or a constant, times powers of formulas."""

    factor: float | str | _Constant
    powers: tuple[tuple[_Formula, float], ...]


_Formula = _Variable | _Constant | _Call | _Product | float


@dataclass(frozen=True)
class Function:
    """An operator of one tensor, x, and a formula of it. settings: attributes, by name: a value, or what the formula
    calls it. constants: what it calls the operands behind x.
    """

    kind: str
    formula: _Formula
    settings: Mapping[str, float | str] = field(default_factory=dict)
    constants: tuple[str, ...] = ()


def _call(kind: str, *operands: _Formula, **settings: float | str) -> _Call:
    return _Call(kind, operands, tuple(settings.items()))


def _times(factor: float | str, *factors: _Formula) -> _Product:
    return _Product(factor, tuple((one, 1.0) for one in factors))


def _bell(tangent: _Formula) -> _Formula:
    return _call("Add", tangent, 1.0)


def _mean(of: _Formula) -> _Formula:
    return _call("ReduceMean", of, axes="axes", keepdims=1)


def _normalized(x: _Formula) -> _Formula:
    """x over its root mean square, times a constant."""
    squares = _call("Add", _mean(_Product(1.0, ((x, 2.0),))), _Constant("epsilon"))
    return _Product(_Constant("scale"), ((x, 1.0), (squares, -0.5)))


_X = _Variable("x")
_CENTRED = _call("Sub", _X, _mean(_X))
_GATES = (
    _call("Clip", _call("Add", _X, 3.0), 0.0, 6.0),
    _call("Min", _call("Relu", _call("Add", _X, 3.0)), 6.0),
)
"""ReLU6 of x + 3."""
_SIXTH = {"alpha": 1 / 6, "beta": 0.5}
_TANH_INNER = (
    _times(sqrt(2 / pi), _call("Add", _X, _Product(0.044715, ((_X, 3.0),)))),
    _times(sqrt(2 / pi), _X, _call("Add", _Product(0.044715, ((_X, 2.0),)), 1.0)),
)
"""What the tangent in the approximation of Gelu is of, in two factorings."""

_OVER_AXES = {"axis": "axes", "epsilon": "epsilon"}

FUNCTIONS: tuple[Function, ...] = (
    Function(
        "LayerNormalization",
        _call("Add", _normalized(_CENTRED), _Constant("bias")),
        _OVER_AXES,
        ("scale", "bias"),
    ),
    Function("LayerNormalization", _normalized(_CENTRED), _OVER_AXES, ("scale",)),
    Function("RMSNormalization", _normalized(_X), _OVER_AXES, ("scale",)),
    Function("Swish", _times(1.0, _X, _call("Sigmoid", _times("alpha", _X))), {"alpha": "alpha"}),
    Function("HardSwish", _times(1.0, _X, _call("HardSigmoid", _X, **_SIXTH))),
    *(Function("HardSwish", _times(1 / 6, _X, gate)) for gate in _GATES),
    *(Function("HardSigmoid", _times(1 / 6, gate), _SIXTH) for gate in _GATES),
    Function("Mish", _times(1.0, _X, _call("Tanh", _call("Softplus", _X)))),
    Function(
        "Gelu", _times(0.5, _X, _bell(_call("Erf", _times(sqrt(0.5), _X)))), {"approximate": "none"}
    ),
    *(
        Function("Gelu", _times(0.5, _X, _bell(_call("Tanh", inner))), {"approximate": "tanh"})
        for inner in _TANH_INNER
    ),
)
"""Functions that have an operator, the formula with more operations before one that is a part of it."""


# Where a graph has them ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Match:
    """What the names of a formula are in a graph, and the operations that compute it, the last one first."""

    function: Function
    values: Mapping[str, Any] = field(default_factory=dict)
    taken: tuple[Operation, ...] = ()

    @property
    def settings(self) -> dict[str, Any]:
        """Attributes of the operator."""
        given = self.function.settings.items()
        return {k: self.values.get(one, one) if isinstance(one, str) else one for k, one in given}

    def taking(self, *more: Operation) -> Match:
        known = {id(one.origin) for one in self.taken}
        new = (one for one in more if id(one.origin) not in known)
        return replace(self, taken=(*self.taken, *new))

    def naming(self, name: str, value: Any) -> Iterator[Match]:
        """The match with a name for a value, none if something else has that name."""
        known = self.values.get(name, value)
        if known is value or (not isinstance(value, np.ndarray) and known == value):
            yield replace(self, values={**self.values, name: value})


@dataclass(frozen=True)
class _Powers:
    """A number times powers of tensors. error: how near the number is to the one that is meant, relative."""

    factor: np.ndarray = field(default_factory=lambda: np.ones(()))
    powers: Mapping[str, float] = field(default_factory=dict)
    taken: tuple[Operation, ...] = ()
    error: float = 0.0

    def times(self, other: _Powers, exponent: float) -> _Powers:
        powers = dict(self.powers)
        for name, power in other.powers.items():
            powers[name] = powers.get(name, 0.0) + exponent * power
        return _Powers(
            np.asarray(self.factor * other.factor**exponent),
            powers,
            (*self.taken, *other.taken),
            max(self.error, other.error),
        )


@dataclass(frozen=True)
class Search:
    """Where a graph, which does not change meanwhile, has functions."""

    graph: Operations
    functions: Sequence[Function] = FUNCTIONS
    _flat: dict[tuple[str, bool], _Powers] = field(default_factory=dict)

    def spelled_out(self, name: str) -> Match | None:
        """The function of one tensor that operations compute of which the last one makes the tensor with the name, while
        no other result of theirs is an output or read elsewhere.
        """
        for function in self.functions:
            for match in self._matches(function.formula, name, Match(function), last=True):
                if self._alone(match):
                    return match
        return None

    def _alone(self, match: Match) -> bool:
        """Whether only operations of the match read what those before its last one make."""
        inside = {id(one.origin) for one in match.taken}
        for operand in (one for operation in match.taken for one in operation.operands):
            if isinstance(operand, np.ndarray):
                continue
            made = self.graph.made(operand)
            if made is None or id(made.origin) not in inside:
                continue
            readers = self.graph.readers(operand)
            if readers is None or any(id(reader) not in inside for reader in readers):
                return False
        return True

    def _matches(
        self, formula: _Formula, value: str | np.ndarray, match: Match, last: bool = False
    ) -> Iterator[Match]:
        """The ways in which a value is what a formula says. last: the value is that of the whole formula."""
        if isinstance(formula, float):
            number = _number(value)
            if number is not None and _near(number, formula, _error(value)):
                yield match
        elif isinstance(formula, _Product):
            yield from self._products(formula, value, match, last)
        elif isinstance(value, np.ndarray):
            if isinstance(formula, _Constant) and value.dtype.kind == "f":
                yield from match.naming(formula.name, value)
        elif isinstance(formula, _Constant):
            return
        elif isinstance(formula, _Variable):
            yield from match.naming(formula.name, value)
        else:
            yield from self._calls(formula, value, match)

    def _calls(self, formula: _Call, name: str, match: Match) -> Iterator[Match]:
        made = self.graph.made(name)
        if made is None or made.kind != formula.kind:
            return
        if len(made.operands) != len(formula.operands):
            return
        starts = [match.taking(made)]
        for setting, wanted in formula.settings:
            value = made.settings.get(setting, np.nan)
            if isinstance(wanted, str):
                starts = [more for one in starts for more in one.naming(wanted, value)]
            elif not _near(value, wanted, _CLOSE):
                return
        turned = formula.kind in ("Add", "Min")
        for start in starts:
            for operands in permutations(made.operands) if turned else [made.operands]:
                yield from self._all(formula.operands, operands, start)

    def _products(
        self, formula: _Product, value: str | np.ndarray, match: Match, last: bool
    ) -> Iterator[Match]:
        flat = self._product(value, last)
        if len(flat.powers) != len(formula.powers):
            return
        taken = match.taking(*flat.taken)
        number = _number(flat.factor)
        if isinstance(formula.factor, _Constant):
            starts = list(taken.naming(formula.factor.name, flat.factor))
        elif isinstance(formula.factor, str):
            starts = [] if number is None else list(taken.naming(formula.factor, number))
        else:
            near = number is not None and _near(number, formula.factor, flat.error)
            starts = [taken] if near else []
        parts, wanted = zip(*formula.powers, strict=True)
        for order in permutations(flat.powers) if starts else ():
            if tuple(flat.powers[name] for name in order) == wanted:
                yield from self._all(parts, order, starts[0])

    def _all(
        self, formulas: Sequence[_Formula], values: Sequence[str | np.ndarray], match: Match
    ) -> Iterator[Match]:
        """The ways in which several values are what several formulas say."""
        if not formulas:
            yield match
            return
        for found in self._matches(formulas[0], values[0], match):
            yield from self._all(formulas[1:], values[1:], found)

    def _product(self, value: str | np.ndarray, last: bool = False) -> _Powers:
        """A value as a product. What several operations read is one factor, unless it is the last."""
        if isinstance(value, np.ndarray):
            return _Powers(value.astype(np.float64), error=_error(value))
        if (value, last) not in self._flat:
            found = _Powers(powers={value: 1.0})
            made = self.graph.made(value)
            readers = self.graph.readers(value) or ()
            if made is not None and (last or len({id(one) for one in readers}) == 1):
                parts = _factors(made)
                if parts:
                    found = _Powers(taken=(made,), error=_CLOSE)
                for part, exponent in parts:
                    # the root of a product of two negative factors is no product of roots
                    whole = exponent.is_integer() or isinstance(part, np.ndarray)
                    one = self._product(part) if whole else _Powers(powers={str(part): 1.0})
                    found = found.times(one, exponent)
            self._flat[value, last] = found
        return self._flat[value, last]


def _factors(made: Operation) -> list[tuple[str | np.ndarray, float]]:
    """What an operation multiplies, and with which exponent; nothing where it does something else."""
    match made.kind, *made.operands:
        case "Mul", first, second:
            return [(first, 1.0), (second, 1.0)]
        case "Div", first, second if not isinstance(second, np.ndarray) or np.all(second):
            return [(first, 1.0), (second, -1.0)]
        case "Pow", str() as first, np.ndarray() as power if _number(power) in _EXPONENTS:
            return [(first, float(power.reshape(())))]
        case "Sqrt", str() as first:
            return [(first, 0.5)]
        case "Reciprocal", str() as first:
            return [(first, -1.0)]
    return []


_EXPONENTS = (-1.0, -0.5, 0.5, 2.0, 3.0)
_CLOSE = 1e-6
"""How near a number must be to the one that is meant, relative: a sixth has no last digit."""


def _number(value: str | np.ndarray) -> float | None:
    one = isinstance(value, np.ndarray) and value.size == 1
    return float(value.reshape(())) if one else None  # type: ignore[union-attr]


def _error(value: str | np.ndarray) -> float:
    """How near a constant of a type is to the number that is meant."""
    assert isinstance(value, np.ndarray)
    return max(_CLOSE, float(np.finfo(value.dtype).eps)) if value.dtype.kind == "f" else _CLOSE


def _near(found: float, wanted: float, error: float) -> bool:
    return abs(found - wanted) <= error * abs(wanted)
