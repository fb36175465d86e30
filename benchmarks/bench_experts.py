"""What do branches save on a mixture of experts and on early exits? `make bench-experts`.

    python -m benchmarks.bench_experts [--pictures N] [--only TABLE ...] [--write]

`alexnet_moe` computes 4 of 16 experts of each picture. It is timed in both forms, and its dense form with
`--experts`, next to onnxruntime; one after the other on every picture, by the thread's processor time, median of
all pictures. All outputs are compared with those of the dense form. The arena is compared with that of the same
network with one expert. The dense form in float16, int16 and int8 (`csdfgen quantize`, observed on some of the
pictures) is timed as it is and with `--experts`. `b_alexnet` is timed on pictures that all leave at the same exit,
and on mixed ones, whose mean follows from these and from the part of the pictures that leave at each. All tables go
into docs/experts.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import onnx
import onnxruntime

import csdfgen
import runtime
from benchmarks.pages import ROOT, machine, write_between
from csdfgen.planning.plan import Plan
from zoo_models.branchy import b_alexnet
from zoo_models.experts import alexnet_moe, alexnet_moe_dense

PAGE = ROOT / "docs" / "experts.md"

BACKENDS = ("native", "numpy")
SIZES = 24
"""Columns and rows of the coloured squares of a picture, at most: experts depend on what there is to see."""

FORMATS = ("float32", "float16", "int16", "int8")
OBSERVED = 8
"""Pictures that ranges are taken from."""

LEFT = ((0.0, 0.0), (0.3, 0.0), (0.3, 0.5), (0.6, 0.5), (0.8, 0.8))
"""Parts of the pictures that leave at the first exit, and parts of the others that leave at the second."""

Run = Callable[[np.ndarray], np.ndarray]


def pictures(count: int, size: int) -> Iterator[np.ndarray]:
    """Coloured squares with noise, each picture of its own brightness."""
    rng = np.random.default_rng(2018)
    for _ in range(count):
        squares = int(rng.integers(1, SIZES))
        coarse = rng.uniform(-1, 1, (1, 3, squares, squares))
        scaled = np.kron(coarse, np.ones((-(-size // squares),) * 2))[..., :size, :size]
        noise = rng.uniform(-1, 1, (1, 3, size, size))
        part = rng.uniform()
        yield (part * scaled + (1 - part) * noise).astype(np.float32)


def by_csdfgen(plan: Plan) -> Run:
    frame = runtime.compile(plan)
    (name,) = (output.name for output in plan.network.outputs)
    return lambda image: frame(image)[name]


def by_onnxruntime(model: onnx.ModelProto) -> Run:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return lambda image: np.asarray(session.run(None, {"image": image})[0])


def timed(run: Run, image: np.ndarray) -> tuple[float, np.ndarray]:
    """Milliseconds of the thread, and a copy of the result."""
    start = time.thread_time_ns()
    result = run(image)
    return (time.thread_time_ns() - start) / 1e6, result.copy()


# Experts ------------------------------------------------------------------------------------------


def experts(count: int) -> list[str]:
    """The table of both forms, and a line below it."""
    dense, branches = alexnet_moe_dense.build(), alexnet_moe.build()
    one = csdfgen.load(alexnet_moe.build(experts=1, chosen=1))
    runs: dict[tuple[str, str], Run] = {
        ("onnxruntime", "dense"): by_onnxruntime(dense),
        ("onnxruntime", "If"): by_onnxruntime(branches),
    }
    arenas, alone = {}, {}
    for backend in BACKENDS:
        plans = {
            "dense": csdfgen.plan(csdfgen.load(dense), backend=backend),
            "dense, `--experts`": csdfgen.plan(csdfgen.load(dense), backend=backend, experts=True),
            "If": csdfgen.plan(csdfgen.load(branches), backend=backend),
        }
        alone[backend] = csdfgen.plan(one, backend=backend).figures["arena"]
        for form, plan in plans.items():
            runs[backend, form] = by_csdfgen(plan)
            arenas[backend, form] = plan.figures["arena"]
    spent: dict[tuple[str, str], list[float]] = {key: [] for key in runs}
    worst = 0.0
    for number, image in enumerate([*pictures(count + 1, alexnet_moe.height)]):
        results = {key: timed(run, image) for key, run in runs.items()}
        _, expected = results["onnxruntime", "dense"]
        for key, (milliseconds, result) in results.items():
            worst = max(worst, float(np.abs(result - expected).max() / expected.max()))
            if number:  # the first one warms up
                spent[key].append(milliseconds)
    ms = {key: float(np.median(times)) for key, times in spent.items()}
    lines = [
        "| computed by | form | arena, KiB | of one expert's | ms a picture | of dense | of onnxruntime with If |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for backend, form in runs:
        arena = arenas.get((backend, form))
        cells = (
            backend if backend == "onnxruntime" else f"csdfgen, {backend}",
            form,
            f"{arena / 1024:.1f}" if arena else "",
            f"{arena / alone[backend]:.2f}" if arena else "",
            f"{ms[backend, form]:.2f}",
            f"{ms[backend, form] / ms[backend, 'dense']:.2f}",
            f"{ms[backend, form] / ms['onnxruntime', 'If']:.2f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    below = f"{count} pictures; largest difference from onnxruntime's dense form, relative to the largest output: {worst:.1e}."
    return [*lines, "", below]


def formats(count: int) -> list[str]:
    """The table of the formats of Table 4.5 in paper 003, and a line below it."""
    images = [*pictures(count + 1, alexnet_moe_dense.height)]
    shown = np.concatenate(images[:OBSERVED])
    lines = [
        "| format | computed by | arena, KiB | with `--experts` | ms a picture | with `--experts` | of dense |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    most = 0.0
    for format_ in FORMATS:
        model = alexnet_moe_dense.build()
        if format_ != "float32":
            model = csdfgen.quantize(model, shown, format=format_).model
        network = csdfgen.load(model)
        plans = {
            (backend, given): csdfgen.plan(network, backend=backend, experts=given)
            for backend in BACKENDS
            for given in (False, True)
        }
        runs = {key: by_csdfgen(plan) for key, plan in plans.items()}
        spent: dict[tuple[str, bool], list[float]] = {key: [] for key in runs}
        for number, image in enumerate(images):
            results = {key: timed(run, image) for key, run in runs.items()}
            for (backend, given), (milliseconds, result) in results.items():
                _, dense = results[backend, False]
                most = max(most, float(np.abs(result - dense).max() / dense.max()))
                if number:
                    spent[backend, given].append(milliseconds)
        for backend in BACKENDS:
            arenas = [plans[backend, given].figures["arena"] / 1024 for given in (False, True)]
            ms = [float(np.median(spent[backend, given])) for given in (False, True)]
            shares = (f"{arena:.1f}" for arena in arenas), (f"{one:.2f}" for one in ms)
            cells = (format_, backend, *shares[0], *shares[1], f"{ms[1] / ms[0]:.2f}")
            lines.append(f"| {' | '.join(cells)} |")
    below = f"{count} pictures; largest difference from the dense form, relative to the largest output: {most:.1e}."
    return [*lines, "", below]


# Early exits --------------------------------------------------------------------------------------


def entropy(scores: np.ndarray) -> float:
    shares = np.exp(scores - scores.max())
    shares /= shares.sum()
    return float(-(shares * np.log(shares)).sum())


def exits(count: int) -> list[str]:
    """The table of mixed pictures, in native code."""
    images = [*pictures(count, b_alexnet.height)]

    def run_of(sure: Sequence[float]) -> tuple[Run, int]:
        plan = csdfgen.plan(csdfgen.load(b_alexnet.build(sure=tuple(sure))), backend="native")
        return by_csdfgen(plan), plan.figures["arena"]

    always = [run_of(sure)[0] for sure in ((9, 9), (0, 9), (0, 0))]
    unsure = np.array([[entropy(run(image)) for run in always[:2]] for image in images])
    mixed, rates, arenas = [], [], []
    for first, second in LEFT:
        at_first = np.quantile(unsure[:, 0], first) if first else 0.0
        staying = unsure[unsure[:, 0] >= at_first, 1]
        at_second = np.quantile(staying, second) if second else 0.0
        left = unsure[:, 0] < at_first, unsure[:, 1] < at_second
        rates.append([left[0].mean(), (~left[0] & left[1]).mean(), (~left[0] & ~left[1]).mean()])
        run, arena = run_of((at_first, at_second))
        mixed.append(run)
        arenas.append(arena)
    spent = np.array([[timed(run, image)[0] for run in (*always, *mixed)] for image in images])
    means = spent[len(images) // 10 :].mean(axis=0)
    lines = [
        "| leave at the first exit | at the second | stay | arena, KiB | ms, mean | expected | difference |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for rate, arena, mean in zip(rates, arenas, means[3:], strict=True):
        expected = float(np.dot(rate, means[:3]))
        parts = [f"{100 * part:.0f} %" for part in rate]
        cells = (
            *parts,
            f"{arena / 1024:.1f}",
            f"{mean:.3f}",
            f"{expected:.3f}",
            f"{100 * (mean / expected - 1):+.1f} %",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return [
        *lines,
        "",
        f"{count} pictures; all at one exit: {', '.join(f'{m:.3f}' for m in means[:3])} ms.",
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="make bench-experts", description="time branches of experts and early exits"
    )
    parser.add_argument("--pictures", type=int, default=50, metavar="N", help="of the mixture")
    parser.add_argument("--only", nargs="+", choices=("experts", "expert-formats", "exits"))
    parser.add_argument(
        "--write", action="store_true", help="rewrite the tables of docs/experts.md"
    )
    arguments = parser.parse_args()
    count = arguments.pictures
    parts = {
        "experts": lambda: experts(count),
        "expert-formats": lambda: formats(max(1, count // 2)),
        "exits": lambda: exits(20 * count),
    }
    for name in arguments.only or parts:
        lines = parts[name]()
        print("\n".join(lines), end="\n\n")
        if arguments.write:
            write_between(PAGE, name, ["", *lines, "", f"{machine('onnxruntime')}.", ""])
    return 0


if __name__ == "__main__":
    sys.exit(main())
