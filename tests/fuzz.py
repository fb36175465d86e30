"""Random networks by the thousand, in both backends, at every height and goal, compared with onnxruntime.

    python -m tests.fuzz --networks 20000 --seed 1      (make fuzz ARGS="--minutes 30")

Each seed draws a few networks of the patterns of `tests.patterns`, each with its options. A network fails by a wrong
output, a traceback, a refusal, or by touching more memory than is planned; hypothesis shrinks it, a line says what
failed and where, and `out/fuzz/SEED.onnx` is the network. The summary counts what was covered.

Outputs are compared with those of onnxruntime without its optimizations; where the two differ, the network is
evaluated in float64 by onnx's reference, and ours may be as far from that as onnxruntime's is, four times.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from onnx import numpy_helper

import csdfgen
import runtime
from csdfgen.errors import CsdfgenError
from csdfgen.planning.checker import check as check_plan
from csdfgen.planning.plan import Plan
from csdfgen.rewriting.fuse import fuse
from runtime.reference import FLOAT32, NOISE
from tests.native_steps import compiler_missing
from tests.networks import check_touched, feeds
from tests.patterns.quantizing import is_quantized
from tests.planning import LITTLE
from tests.random_networks import (
    branched_networks,
    controlled_networks,
    networks,
    patterns_of,
    row_choices,
)

__all__ = ["SETTINGS", "Coverage", "Failure", "Setting", "examine", "examined", "float64_outputs"]

HEIGHTS = ("auto", "1", "3", "whole")


@dataclass(frozen=True)
class Setting:
    """How a network is planned: heights or a goal, and what else the plan depends on."""

    rows: str = "auto"
    goal: str = "balanced"
    recompute: float = 1
    fuse: str = "full"
    image: str = "streamed"
    effort: str = "low"

    def __str__(self) -> str:
        return " ".join(f"--{name} {value}" for name, value in self.given.items())

    @property
    def given(self) -> Mapping[str, str | float]:
        """Options that are not the default."""
        default = Setting()
        return {
            name: getattr(self, name)
            for name in self.__dataclass_fields__
            if getattr(self, name) != getattr(default, name)
        }


SETTINGS = (
    *(Setting(rows) for rows in HEIGHTS),
    Setting(goal="memory"),
    Setting(goal="memory", recompute=1.5),
)


class Failure(AssertionError):  # noqa: N818  (what failed is the network)
    """What is wrong with how a network was planned or executed."""


@dataclass
class Coverage:
    """What was tried: numbers of networks by pattern, of layers by operator with where its operands lie, what
    follows it, and how it was planned.
    """

    networks: int = 0
    skipped: int = 0
    patterns: Counter[str] = field(default_factory=Counter)
    settings: Counter[str] = field(default_factory=Counter)
    operators: Counter[str] = field(default_factory=Counter)
    places: Counter[tuple[str, str]] = field(default_factory=Counter)
    epilogues: Counter[tuple[str, str]] = field(default_factory=Counter)
    pairs: set[tuple[str, str]] = field(default_factory=set)
    planned: set[tuple[str, str]] = field(default_factory=set)

    def count(self, model: onnx.ModelProto, setting: Setting, plan: Plan) -> None:
        kinds = {node.op_type for node in model.graph.node}
        for pattern in patterns_of(model):
            self.patterns[pattern] += 1
            self.pairs.update((kind, pattern) for kind in kinds)
        self.settings[_kind(setting)] += 1
        sharing = plan.sharing
        for layer in plan.network.layers:
            self.operators[layer.op_type] += 1
            self.planned.add((layer.op_type, _kind(setting)))
            for after in layer.epilogue:
                self.epilogues[layer.op_type, after.op_type] += 1
            for tensor in (t for t in layer.inputs if t is not None):
                homes = sharing.homes(tensor.name)
                place = "whole"
                if len(homes) > 1:
                    place = "in pieces"
                elif sharing.buffers[homes[0].buffer].row_shape != tensor.row_shape:
                    place = "in another tensor"
                self.places[layer.op_type, place] += 1
                if homes == sharing.homes(layer.output.name) and layer.name not in sharing.silent:
                    self.places[layer.op_type, "in place"] += 1

    def lines(self) -> Iterator[str]:
        """The summary, as Markdown."""
        yield f"{self.networks} networks ({self.skipped} more that onnxruntime does not take)"
        for title, counted in (("patterns", self.patterns), ("settings", self.settings)):
            yield f"{len(counted)} {title}: " + ", ".join(
                f"{name} {n}" for name, n in counted.most_common()
            )
        behind = {kind for kind, _ in self.epilogues}
        yield (
            f"{len(self.operators)} operators; {len(self.pairs)} pairs of an operator and a pattern; "
            f"{len(self.planned)} of an operator and a setting; {len(self.epilogues)} of an operator and one that is "
            f"computed in its slab ({len(behind)} operators)"
        )
        yield ""
        columns = ("whole", "in another tensor", "in pieces", "in place")
        yield "| operator | layers | " + " | ".join(columns) + " | epilogues |"
        yield "|---|" + "---:|" * (len(columns) + 2)
        for kind, count in sorted(self.operators.items()):
            places = " | ".join(str(self.places[kind, column]) for column in columns)
            kinds = sum(1 for one, _ in self.epilogues if one == kind)
            yield f"| {kind} | {count} | {places} | {kinds} |"


def _kind(setting: Setting) -> str:
    """The heights or the goal alone; single layers at heights of their own are "rows mixed"."""
    if setting.goal != "balanced":
        return "recompute" if setting.recompute > 1 else "memory"
    return f"rows {setting.rows}" if setting.rows in HEIGHTS else "rows mixed"


# One network -------------------------------------------------------------------------------------


def onnxruntime_outputs(
    model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray] | None:
    """What onnxruntime computes without optimizations; None if it does not take the model."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = ort.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        names = [entry.name for entry in session.get_outputs()]
        return dict(zip(names, session.run(None, dict(inputs)), strict=True))
    except Exception:  # its exceptions have no class in common
        return None


def float64_outputs(
    model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The network in float64, by onnx's reference implementation."""
    from onnx.reference import ReferenceEvaluator

    single, double = onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE
    model = onnx.ModelProto.FromString(model.SerializeToString())
    graph = model.graph
    graphs = [graph]
    for one in graphs:
        graphs += [a.g for node in one.node for a in node.attribute if a.HasField("g")]
    nodes = [node for one in graphs for node in one.node]
    for one in graphs:
        del one.value_info[:]
        for value in (*one.input, *one.output):
            if value.type.tensor_type.elem_type == single:
                value.type.tensor_type.elem_type = double
    resized = {name for node in nodes if node.op_type == "Resize" for name in node.input[1:3]}
    for tensor in (tensor for one in graphs for tensor in one.initializer):
        if tensor.data_type == single and tensor.name not in resized:
            wide = numpy_helper.to_array(tensor).astype(np.float64)
            tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))
    for node in nodes:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == single:
                attribute.i = double
    given = {
        name: a.astype(np.float64) if a.dtype == np.float32 else a for name, a in inputs.items()
    }
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = ReferenceEvaluator(model).run(None, given)
    return dict(zip((value.name for value in graph.output), map(np.asarray, found), strict=True))


def _exact_outputs(
    model: onnx.ModelProto, inputs: Mapping[str, np.ndarray], wanted: Mapping[str, np.ndarray]
) -> Mapping[str, np.ndarray]:
    """The network in float64; as onnxruntime has it where onnx's reference cannot run it."""
    try:
        return float64_outputs(model, inputs)
    except Exception:  # whatever it does not implement: other types in functions, a Scan backwards
        return wanted


STEPS, FEW = 2.0, 0.3
"""Of quantized networks: how far a value may be off, where a mean met a tie between two integers, and how many may."""


def _far(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """How far each value is off, in tolerances; not a number where only one of the two is one."""
    finite = np.abs(want[np.isfinite(want)].astype(np.float64))
    largest = float(finite.max(initial=0.0))
    allowed = 1e-4 + FLOAT32.allowed(np.abs(want), largest, 0.0)  # what cancels may be tiny
    with np.errstate(all="ignore"):
        off = np.abs(got.astype(np.float64) - want.astype(np.float64))
        far = np.where((got == want) | (np.isnan(got) & np.isnan(want)), 0.0, off / allowed)
    return np.where(np.isnan(far), np.inf, far)


def compared(
    found: Mapping[str, np.ndarray],
    wanted: Mapping[str, np.ndarray],
    exact: Callable[[], Mapping[str, np.ndarray]],
    ties: bool,
) -> None:
    """Raises Failure where outputs differ. exact: the same in float64, asked where they do. ties: values may be
    rounded to the other one of two neighbouring integers, and are compared with onnxruntime's alone.
    """
    for name, want in wanted.items():
        got = found[name]
        if (got.shape, got.dtype) != (want.shape, want.dtype):
            raise Failure(f"output {name} is {got.dtype}{got.shape}, not {want.dtype}{want.shape}")
        far = _far(got, want)
        if not far.size or far.max() <= 1:
            continue
        few = max(1, FEW * far.size)  # a small output may be one such value
        if ties and np.sum(far > 1) <= few and np.abs(got - want).max() <= STEPS:
            continue
        true = want.astype(np.float64) if ties else exact()[name]
        if _far(got, true).max() <= max(1.0, NOISE * _far(want, true).max()):
            continue
        wrong = int((far > 1).sum())
        at = np.unravel_index(int(far.argmax()), far.shape)
        raise Failure(
            f"wrong output {name}: {wrong} of {far.size} values, at {tuple(map(int, at))} {got[at]:.6g} instead of "
            f"{want[at]:.6g} (float64: {true[at]:.6g})"
        )


def examined(
    model: onnx.ModelProto,
    setting: Setting,
    wanted: Sequence[Mapping[str, np.ndarray]],
    backend: str,
) -> Plan:
    """Plan and execute a network and compare everything that can be compared. wanted: outputs for each of `combinations`.
    Raises Failure.
    """
    each = combinations(model)
    found: list[tuple[Mapping[str, np.ndarray], ...]] = []
    try:
        plan = csdfgen.plan(csdfgen.load(model), backend=backend, **setting.given)
        check_plan(plan)
        frame, touched = runtime.compile(plan), 0
        by_native_code = None
        if backend == "numpy" and not compiler_missing():
            by_native_code = runtime.compile(plan, backend="native")
        for inputs in each:
            got, measured = frame.measure(inputs)
            touched = max(touched, measured.touched_bytes)
            found.append((got, by_native_code(inputs) if by_native_code else got))
        if all(map(all, frame.branches.values())):  # what no image takes touches nothing
            check_touched(plan, touched)
    except CsdfgenError as error:
        raise Failure(f"refused: {error}") from error
    except Exception as error:
        raise Failure(f"{_raised(error)}{error}") from error
    for inputs, both, want in zip(each, found, wanted, strict=True):
        for got in both:
            exact = partial(_exact_outputs, model, inputs, want)
            compared(got, want, exact, is_quantized(model))
    figures = plan.figures
    if not figures["lower_bound"] <= figures["peak_live"] <= figures["arena"]:
        raise Failure(f"a bound above what is reached: {dict(figures)}")
    return plan


def combinations(model: onnx.ModelProto) -> list[dict[str, np.ndarray]]:
    """Inputs of a network: those of `feeds`, others with every combination of its bools."""
    chosen = [name for name, array in feeds(model).items() if array.dtype == bool]
    found = []
    for number, some in enumerate(product((True, False), repeat=len(chosen))):
        given = feeds(model, 7 + number)
        flags = {k: np.full(given[k].shape, v) for k, v in zip(chosen, some, strict=True)}
        found.append({**given, **flags})
    return found


def _raised(error: BaseException) -> str:
    """What was raised, and where."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}: "


def backends() -> tuple[str, ...]:
    return ("numpy",) if compiler_missing() else ("numpy", "native")


def examine(model: onnx.ModelProto, chosen: Setting, coverage: Coverage) -> bool:
    """A network in both backends; whether onnxruntime takes it. Raises Failure."""
    outputs = [onnxruntime_outputs(model, inputs) for inputs in combinations(model)]
    wanted = [one for one in outputs if one is not None]
    if len(wanted) < len(outputs):
        coverage.skipped += 1
        return False
    for backend in backends():
        try:
            plan = examined(model, chosen, wanted, backend)
        except Failure as error:
            raise Failure(f"{backend} {chosen or '--rows auto'}: {error}") from error
        if backend == "numpy":
            coverage.count(model, chosen, plan)
    coverage.networks += 1
    return True


@st.composite
def cases(
    draw: st.DrawFn, drawn: Callable[[], st.SearchStrategy[onnx.ModelProto]]
) -> tuple[onnx.ModelProto, Setting]:
    """A network, and how it is planned: mostly as people do."""
    model, chosen = draw(drawn()), draw(st.sampled_from(SETTINGS))
    if draw(st.integers(0, 5)) == 5:
        chosen = replace(chosen, fuse=draw(st.sampled_from(("none", "fold"))))
    if chosen.rows != "auto" and draw(st.booleans()):
        chosen = replace(chosen, rows=row_choices(draw, _layers(model, chosen.fuse)))
    image = draw(st.sampled_from(("streamed", "streamed", "resident")))
    return model, replace(
        chosen, image=image, effort=draw(st.sampled_from((LITTLE,) * 4 + ("low",)))
    )


def _layers(model: onnx.ModelProto, level: str) -> list[str]:
    """Names of the layers of a network; none of one that is refused."""
    try:
        return [layer.name for layer in fuse(csdfgen.load(model), level).layers]
    except Exception:  # it is reported when it is planned
        return []


# Many --------------------------------------------------------------------------------------------


class Enough(BaseException):
    """The time to shrink a failing network is over."""


@dataclass
class _Smallest:
    """The smallest network that failed so far, and how."""

    limit: float
    model: onnx.ModelProto | None = None
    message: str = ""
    ends: float = 0.0

    def offer(self, model: onnx.ModelProto, message: str) -> None:
        if self.model is None:
            self.ends = time.monotonic() + self.limit
        size = len(model.graph.node), model.ByteSize()
        if self.model is None or size < (len(self.model.graph.node), self.model.ByteSize()):
            self.model, self.message = model, message

    def over(self) -> bool:
        """Whether the time to shrink it is."""
        return self.model is not None and time.monotonic() > self.ends


def run_seed(
    number: int,
    count: int,
    coverage: Coverage,
    shrink_s: float,
    drawn: Callable[[], st.SearchStrategy[onnx.ModelProto]] = networks,
) -> _Smallest:
    """The networks of one seed, until one fails; the smallest network that failed."""
    smallest = _Smallest(shrink_s)

    @seed(number)
    @settings(
        max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(cases(drawn))
    def run(case: tuple[onnx.ModelProto, Setting]) -> None:
        model, chosen = case
        if smallest.over():
            raise Enough
        try:
            examine(model, chosen, coverage if smallest.model is None else Coverage())
        except Exception as error:
            smallest.offer(model, f"{'' if isinstance(error, Failure) else _raised(error)}{error}")
            raise

    try:
        run()
    except (Failure, Enough):
        pass
    except (
        Exception
    ) as error:  # hypothesis found that a failure does not repeat, or several of them
        smallest.message = smallest.message or f"{type(error).__name__}: {error}"
    return smallest


def main(arguments: list[str]) -> int:
    """Run as long as asked; the number of failures, at most 1, is the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--networks", type=int, default=0, help="how many networks")
    parser.add_argument("--minutes", type=float, default=0, help="for how long")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--each", type=int, default=20, help="networks of a seed")
    parser.add_argument("--branches", action="store_true", help="networks with Ifs")
    parser.add_argument("--control", action="store_true", help="Ifs, Loops, Scans in each other")
    parser.add_argument(
        "--shrink", type=float, default=30, help="seconds to shrink a failing network"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("out/fuzz"), help="where failing networks are written"
    )
    asked = parser.parse_args(arguments)
    networks_wanted = asked.networks or (sys.maxsize if asked.minutes else 400)
    ends = time.monotonic() + 60 * asked.minutes if asked.minutes else float("inf")
    coverage, failures, number = Coverage(), 0, asked.seed
    try:
        while coverage.networks < networks_wanted and time.monotonic() < ends:
            drawn = branched_networks if asked.branches else networks
            drawn = controlled_networks if asked.control else drawn
            found = run_seed(number, asked.each, coverage, asked.shrink, drawn)
            if found.message:
                failures += 1
                path = asked.out / f"{number}.onnx"
                if found.model is not None:
                    asked.out.mkdir(parents=True, exist_ok=True)
                    onnx.save(found.model, path)
                print(f"seed {number}: {' '.join(found.message.split())[:300]}: {path}", flush=True)
            number += 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    print(f"seeds {asked.seed} to {number - 1}: {failures} failed")
    print(*coverage.lines(), sep="\n")
    return min(failures, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
