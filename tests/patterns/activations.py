"""Activations, whole as ONNX has them and in the pieces that exporters leave."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TypeVar

from tests.patterns.growing import Growing, Map, Signal, Tokens, Value

__all__ = ["activated", "gated", "parted", "softmax", "steps"]

Kind = TypeVar("Kind", Map, Tokens, Signal)


def _plain(op_type: str, **attributes: float) -> Callable[[Growing, str], str]:
    return lambda net, x: net.op(op_type, x, **attributes)


def _clip(net: Growing, x: str) -> str:
    low = net.pick("", net.scalar(-0.5), net.scalar(0))
    return (
        net.op("Clip", x, low, net.scalar(1.5))
        if net.chance() or not low
        else net.op("Clip", x, low)
    )


def _swish(net: Growing, x: str) -> str:
    factors = [x, net.op("Sigmoid", x)]
    return net.op("Mul", *(factors if net.chance() else factors[::-1]))


def _mish(net: Growing, x: str) -> str:
    return net.op("Mul", x, net.op("Tanh", net.op("Softplus", x)))


def _gelu(net: Growing, x: str) -> str:
    """As torch writes it: x * 0.5 * (1 + erf(x / sqrt 2)), in either order."""
    inner = (
        net.op("Div", x, net.scalar(2**0.5))
        if net.chance()
        else net.op("Mul", x, net.scalar(0.5**0.5))
    )
    bell = net.op("Add", net.op("Erf", inner), net.scalar(1))
    if net.chance():
        return net.op("Mul", net.op("Mul", x, bell), net.scalar(0.5))
    return net.op("Mul", net.op("Mul", x, net.scalar(0.5)), bell)


def _gelu_of_tanh(net: Growing, x: str) -> str:
    cube = (
        net.op("Pow", x, net.scalar(3)) if net.chance() else net.op("Mul", net.op("Mul", x, x), x)
    )
    inner = net.op("Add", x, net.op("Mul", cube, net.scalar(0.044715)))
    bell = net.op("Add", net.op("Tanh", net.op("Mul", inner, net.scalar(0.7978846))), net.scalar(1))
    return net.op("Mul", net.op("Mul", x, net.scalar(0.5)), bell)


def _hard_swish(net: Growing, x: str) -> str:
    """x * relu6(x + 3) / 6."""
    bounds = net.scalar(0), net.scalar(6)
    gate = net.op("Clip", net.op("Add", x, net.scalar(3)), *bounds)
    if net.chance():
        return net.op("Mul", x, net.op("Div", gate, net.scalar(6)))
    return net.op("Div", net.op("Mul", x, gate), net.scalar(6))


def _leaking(net: Growing, x: str) -> str:
    """Where(x > 0, x, a * x), or max(x, a * x)."""
    small = net.op("Mul", x, net.scalar(0.1))
    if net.chance():
        return net.op("Max", x, small)
    return net.op("Where", net.op("Greater", x, net.scalar(0)), x, small)


def _square(net: Growing, x: str) -> str:
    """Positive numbers, and a root of them."""
    squares = net.op("Mul", x, x) if net.chance() else net.op("Pow", x, net.scalar(2))
    return net.op("Sqrt", net.op("Add", squares, net.scalar(0.1))) if net.chance() else squares


def _softplus_of_parts(net: Growing, x: str) -> str:
    """log(1 + exp(-|x|)) + max(x, 0)."""
    small = net.op("Exp", net.op("Neg", net.op("Abs", x)))
    return net.op("Add", net.op("Log", net.op("Add", small, net.scalar(1))), net.op("Relu", x))


def _gelu_whole(net: Growing, x: str) -> str:
    if net.graph.opset < 20:
        return _gelu(net, x)
    return net.op("Gelu", x, approximate=net.pick("none", "tanh"))


ACTIVATIONS: Mapping[str, Callable[[Growing, str], str]] = MappingProxyType(
    {
        "Relu": _plain("Relu"),
        "LeakyRelu": _plain("LeakyRelu", alpha=0.1),
        "Clip": _clip,
        "Sigmoid": _plain("Sigmoid"),
        "Tanh": _plain("Tanh"),
        "HardSwish": _plain("HardSwish"),
        "HardSigmoid": _plain("HardSigmoid"),
        "Elu": _plain("Elu"),
        "Selu": _plain("Selu"),
        "Celu": _plain("Celu", alpha=0.7),
        "Softplus": _plain("Softplus"),
        "Softsign": _plain("Softsign"),
        "ThresholdedRelu": _plain("ThresholdedRelu", alpha=-3.0),
        "Abs": _plain("Abs"),
        "Neg": _plain("Neg"),
        "Erf": _plain("Erf"),
        "Sin": _plain("Sin"),
        "swish": _swish,
        "mish": _mish,
        "gelu": _gelu,
        "gelu of tanh": _gelu_of_tanh,
        "Gelu": _gelu_whole,
        "hard swish": _hard_swish,
        "leaking": _leaking,
        "square": _square,
        "softplus": _softplus_of_parts,
    }
)


def activated(net: Growing, x: Kind) -> Kind:
    """One of them; one with a constant a channel is among them."""
    choice = net.pick("Relu", "Relu", "PRelu", *ACTIVATIONS)
    if choice == "PRelu":
        shape = {3: (x.channels, 1), 4: (x.channels, 1, 1)}[len(x.shape)]
        if isinstance(x, Tokens):
            shape = (x.channels,)
        return replace(x, name=net.op("PRelu", x.name, net.uniform(shape, 0, 0.5)))
    return replace(x, name=ACTIVATIONS[choice](net, x.name))


def steps(net: Growing, x: Value) -> Value:
    """Several elementwise steps behind each other, with constants between them."""
    for _ in range(net.number(1, 3)):
        x = activated(net, x)
        if net.chance():
            sizes = [size if net.chance() else 1 for size in x.shape[1:]]
            operand = net.uniform(tuple(sizes), 0.5, 1.5)
            operands = (x.name, operand) if net.chance() else (operand, x.name)
            op_type = net.pick("Mul", "Add", "Sub", "Div", "Max", "Min")
            if op_type == "Div":
                operands = x.name, operand  # nothing is divided by what may be near 0
            x = replace(x, name=net.op(op_type, *operands))
    return x


def gated(net: Growing, x: Kind) -> Kind:
    """x times a bounded function of itself, or of a scaled copy."""
    inner = net.op("Mul", x.name, net.scalar(1.702)) if net.chance() else x.name
    gate = net.op(net.pick("Sigmoid", "Tanh", "HardSigmoid"), inner)
    factors = (x.name, gate) if net.chance() else (gate, x.name)
    return replace(x, name=net.op("Mul", *factors))


def _axis(x: Value) -> int:
    return -1 if isinstance(x, Tokens) else 1


def parted(net: Growing, x: Kind) -> Kind:
    """A gated linear unit: one half of the channels is a gate of the other."""
    half = x.channels // 2
    if not half:
        return gated(net, x)
    rest = x.channels - 2 * half
    parts = net.split(x.name, [half, half] + ([rest] if rest else []), _axis(x))
    one, gate = parts[:2]
    if net.chance():
        one = net.op("Tanh", one)
    found = net.op("Mul", one, net.op("Sigmoid", gate))
    return replace(x, name=found, channels=half)


def softmax(net: Growing, x: Kind) -> Kind:
    """Over any axis; in logarithms too."""
    op_type = net.pick("Softmax", "Softmax", "LogSoftmax")
    axis = net.number(1, len(x.shape) - 1)
    if net.chance():
        axis -= len(x.shape)
    return replace(x, name=net.op(op_type, x.name, axis=axis))
