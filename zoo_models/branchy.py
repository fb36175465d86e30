"""Networks with early exits: a side classifier answers, and where it is sure, the rest is not run.

Source: BranchyNet, Teerapittayanon, McDanel, Kung 2016 (arXiv:1709.01686), networks/alex_cifar10.py of
the code published with it (GitHub kunglab/branchynet). A side is sure where the entropy of its
probabilities is below a threshold. Published thresholds are of trained weights; here they are such that
some images leave at either side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zoo_models._builder import Builder, Value
from zoo_models._entry import network

_CLASSES = 10


@network("BranchyNet")
def b_alexnet(b: Builder, x: Value, *, sure: tuple[float, float] = (2.11, 2.09)) -> Value:
    """B-AlexNet for 32x32 images, with two early exits, one in the branch of the other (If). sure:
    entropy in nats below which a side's scores are those of the network.
    """

    def behind_first() -> Value:
        y = b.conv(_pooled(b, x), 96, 3, padding=1)
        return _exit(b, y, "side2", (32,), sure[1], lambda: behind_second(y))

    def behind_second(y: Value) -> Value:
        y = b.relu(y)
        for channels in (96, 64):
            y = b.relu(b.conv(y, channels, 3, padding=1))
        y = _flat(b, y)
        for features in (256, 128):
            y = b.dropout(b.relu(b.gemm(y, features)))
        return b.gemm(y, _CLASSES)

    x = b.conv(_pooled(b, b.conv(x, 32, 5, padding=2)), 64, 5, padding=2)
    return _exit(b, x, "side1", (32, 32), sure[0], behind_first, "scores")


def _exit(
    b: Builder,
    x: Value,
    side: str,
    channels: Sequence[int],
    sure: float,
    rest: Callable[[], Value],
    name: str | None = None,
) -> Value:
    """The scores of a side with so many channels of its convolutions, if it is sure, or what the rest
    gives.
    """
    with b.scope(side):
        y = _pooled(b, x)
        for count in channels:
            y = b.relu(b.conv(y, count, 3, padding=1))
        scores = b.gemm(_flat(b, y), _CLASSES)
        condition = b.compared("Less", b.entropy(scores), sure)
    return b.either(condition, lambda: scores, rest, name)


def _pooled(b: Builder, x: Value) -> Value:
    """Chainer's LRN does not divide by its size, and adds to 2."""
    x = b.max_pool(b.relu(x), 3, 2, ceil=True)
    return b.lrn(x, 3, alpha=3 * 5e-5, bias=2.0)


def _flat(b: Builder, x: Value) -> Value:
    return b.rows_of(b.max_pool(x, 3, 2, ceil=True))
