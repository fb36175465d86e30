"""All numbers of paper 001 that can be computed, part by part, and what cannot be, with the reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from csdfgen.paper.cells import Cell, Left, Progress
from csdfgen.paper.joining.claims import check_multi_sample_claims, claims, run_claims
from csdfgen.paper.joining.errata import errata
from csdfgen.paper.joining.fit import fit_cells
from csdfgen.paper.joining.gains import gains

LEFT = (
    Left("Figure 4", "measured and fitted times", 0, "a picture; no number of it is printed"),
    Left("Figure 5", "delays and throughputs at four rates", 0, "a picture; times of the authors' machine are not printed"),
    Left(
        "Figure 6", "batches above 500 ms of Serial and Batchsize(10)", 0,
        'a picture; in the text, LBCI\'s share is "much lower"',
    ),
    Left("Figure 7", "running times of nine tests", 0, "a picture; images of the requests are not printed"),
    Left("conclusion", "10.43 %", 1, "the text has 19.43 % in its place; no measurement has 10.43"),
)  # fmt: skip


def reproduce(
    progress: Progress = lambda name: None,
) -> tuple[Mapping[str, tuple[Cell, ...]], tuple[Left, ...]]:
    """Cells by part, and what is left out."""

    def multi() -> Iterator[Cell]:
        yield from check_multi_sample_claims()
        yield from run_claims()

    parts = {
        "single-sample requests": lambda: claims(progress),
        "requests of several images, runs at N_opt": multi,
        "fit and N_opt": fit_cells,
        "errata": errata,
        "beyond the paper": gains,
    }
    found = {}
    for name, made in parts.items():
        progress(name)
        found[name] = tuple(made())
    return MappingProxyType(found), LEFT
