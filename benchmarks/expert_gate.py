"""Which experts does a sample go to, and what is an uneven load charged? Formulas 1.9 to 1.11.

A gate gives one number for each of N experts, the best K are kept and share the sample by weights that
sum to 1.
"""

from __future__ import annotations

import numpy as np

from csdfgen.errors import InputError

_SIGMA = 10.0
"""Deviation of the second noise of formula 1.9."""


def gate(
    wanted: np.ndarray,
    noise: np.ndarray | None = None,
    spread: np.ndarray | None = None,
    seed: int = 0,
) -> np.ndarray:
    """Formulas 1.9 and 1.10: shares (samples, experts) that sum to 1 along experts.

    wanted: wa_i x. noise: wb_i x, that a normal number multiplies; spread: wc_i, that a normal number
    of deviation 10 does; both are None once training is over.

    >>> gate(np.log([[1.0, 3.0]])).round(6).tolist()
    [[0.25, 0.75]]
    """
    rng = np.random.default_rng(seed)
    exponent = np.asarray(wanted, np.float64).copy()
    if noise is not None:
        exponent += noise * rng.normal(size=exponent.shape)
    if spread is not None:
        exponent += spread * rng.normal(scale=_SIGMA, size=exponent.shape)
    raised = np.exp(exponent - exponent.max(axis=-1, keepdims=True))  # of a quotient, all the same
    return raised / raised.sum(axis=-1, keepdims=True)


def choose_experts(shares: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The experts of the largest shares, (samples, count), and their shares, made to sum to 1. Of equal
    shares the lower index is taken. Raises InputError for a count that there are not enough experts for.

    >>> choose_experts(np.array([[0.2, 0.3, 0.2, 0.3]]), 3)[0].tolist()
    [[1, 3, 0]]
    """
    experts = shares.shape[-1]
    if not 1 <= count <= experts:
        raise InputError(f"{count} of {experts} experts cannot be chosen; 1 to {experts} can")
    best = np.argsort(-shares, axis=-1, kind="stable")[..., :count]
    kept = np.take_along_axis(shares, best, axis=-1)
    return best, kept / kept.sum(axis=-1, keepdims=True)


def mix_outputs(shares: np.ndarray, count: int, outputs: np.ndarray) -> np.ndarray:
    """What a sample gets: sum of p_i E_i(x) over its experts. outputs: (experts, samples, values);
    (samples, values).
    """
    best, weights = choose_experts(shares, count)
    samples = np.arange(len(shares))[:, None]
    return np.einsum("sk,skv->sv", weights, outputs[best, samples])


def load_loss(best: np.ndarray, experts: int) -> float:
    """Formula 1.11: the mean square of how far each expert's part of a batch is from K/N.

    best: (batch, K), the experts of every sample. 0 for an even load.

    >>> load_loss(np.array([[0, 1], [2, 3]]), 4), load_loss(np.array([[0, 1], [0, 1]]), 4)
    (0.0, 0.25)
    """
    batch, count = best.shape
    times = np.bincount(best.reshape(-1), minlength=experts)
    return float(np.mean((count / experts - times / batch) ** 2))
