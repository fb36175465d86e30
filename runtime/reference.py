"""The reference run in onnxruntime, and the tolerances of a comparison with it.

onnxruntime reads the model from the file (or the zoo), not through our loader. Two things are changed: the input shapes that
the network was loaded with are set, and weights are no longer listed as inputs, as old exporters did (onnxruntime does not
fold weights that are inputs). If the model's file takes one image, the images of a batch are run one by one. For a comparison
of every layer, the outputs of layers are added to the model's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from math import inf, isnan, log10, nan
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError, EncodeError  # type: ignore[import-untyped]
from onnx import helper, numpy_helper

from csdfgen.errors import CsdfgenError, ModelError, option
from csdfgen.model.formats import ARITHMETIC, BFLOAT16
from csdfgen.model.network import Network, Shape
from csdfgen.ops.selection import fill_value
from csdfgen.reading.fixed import WEIGHTS_NEED_NOT_BE_INPUTS, hold_constant
from csdfgen.reading.fronts import convert_foreign
from csdfgen.reading.input_shapes import ShapeOf, declare_shapes
from csdfgen.reading.onnx_graph import Place, find_node
from runtime.images import top_classes
from runtime.steps import ALLOWED, StepDifference, StepSize, count_steps
from runtime.widened import widen_array, widen_model

Source = str | os.PathLike[str] | onnx.ModelProto
"""A file, a name of the zoo, or a model in memory."""

_SILENT = 4
"""onnxruntime's log level "fatal"."""

_SHOWN = 160
"""Characters of a message of onnxruntime that an error repeats."""

_SOURCE_PLACE = re.compile(r"/onnxruntime_src/\S+ ")


def refusals() -> tuple[type[Exception], ...]:
    """Exceptions of onnxruntime for a model that it cannot load or run."""
    from onnxruntime.capi import onnxruntime_pybind11_state as capi  # 20 MiB, for comparisons alone

    return (
        capi.EPFail,
        capi.Fail,
        capi.InvalidArgument,
        capi.InvalidGraph,
        capi.InvalidProtobuf,
        capi.NoModel,
        capi.NoSuchFile,
        capi.NotImplemented,
        capi.RuntimeException,
        RuntimeError,
        ValueError,
    )


class MismatchError(CsdfgenError):
    """Outputs differ from onnxruntime's."""


# What is equal ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tolerance:
    """A value may differ by relative * |reference| + of_largest * max |reference|: the tolerance scales with the output, so
    that one of at most 1e-9 does not equal zeros.

    The last term is rounding of large sums: an element near 0 carries the error of the terms that cancelled in it.
    """

    relative: float
    of_largest: float

    def allowed(self, size: Any, largest: float, noise: float) -> Any:
        """The largest accepted error of values with reference |values| `size`. largest: the largest of these; noise: see
        `result_noise`.
        """
        return _SUBNORMAL + self.of_largest * largest + self.relative * size + NOISE * noise

    def __str__(self) -> str:
        return f"{self.relative:g}*|reference| + {self.of_largest:g}*max|reference|"


_SUBNORMAL = 1e-37
"""What kernels may flush to 0."""

FLOAT32 = Tolerance(5e-4, 5e-5)
"""See docs/decisions/0035-check-tolerance.md; for float64 too, since networks of float64 are trained in float32."""

TOLERANCES: Mapping[str, Tolerance] = MappingProxyType(
    {
        "bfloat16": Tolerance(5e-2, 5e-2),
        "float16": Tolerance(1e-2, 1e-2),
        "float32": FLOAT32,
        "float64": FLOAT32,
    }
)
"""By dtype, the coarsest first; float16 has 11 bits, bfloat16 has 8, and onnxruntime keeps intermediate results in float32.
Other dtypes are compared exactly.
"""


NOISE = 4.0
"""The tolerance is increased by this multiple of the difference of onnxruntime from itself: without optimisations, and with
inputs that are moved by rounding errors. These runs share most of their kernels, so that ours may differ more.
"""


def get_tolerance(dtype: np.dtype) -> Tolerance | None:
    """The tolerance for a dtype, None where values must be equal."""
    return TOLERANCES.get(dtype.name)


def comparison_types(network: Network) -> Mapping[str, np.dtype]:
    """Tensor name -> the dtype with the tolerance that applies: the tensor's own, or the coarsest of two bytes that it is
    computed from, because csdfgen rounds there and onnxruntime may not.
    """
    found = {tensor.name: np.dtype(tensor.dtype) for tensor in network.tensors.values()}
    order = list(TOLERANCES)
    coarse: dict[str, str] = {}
    for layer in network.layers:
        before = [coarse[t.name] for t in layer.inputs if t is not None and t.name in coarse]
        for tensor in layer.outputs:
            known = before + [name for name in (tensor.dtype,) if name in ARITHMETIC]
            if known:
                coarse[tensor.name] = min(known, key=order.index)
    return {
        name: np.dtype(coarse[name]) if name in coarse and dtype.name in TOLERANCES else dtype
        for name, dtype in found.items()
    }


@dataclass(frozen=True, slots=True)
class Spread:
    """What values onnxruntime computes for an output, and so what a comparison with them can show.

    low, high: of its finite values; NaN where there is none. extent: how far they are from being one value everywhere, high -
    low, or for a tensor compared by its root mean square the standard deviation. allowed: the largest accepted difference.
    fixed: no input reaches the output, a constant of the network. found: of a tensor of as many positions as are found, whether
    there are any. varied: whether other inputs change it by more than is allowed; False if that was not tried.
    """

    low: float
    high: float
    extent: float
    allowed: float
    fixed: bool = False
    found: bool = True
    varied: bool = False

    @property
    def inconclusive(self) -> str:
        """Why outputs that are equal prove nothing; "" where they do."""
        if self.fixed or self.extent > self.allowed:
            return ""
        if isnan(self.low):
            return "none of its values is a finite number"
        if not self.found:
            return "nothing was found in these inputs"
        if max(-self.low, self.high) <= self.allowed:
            small = f"all values are at most {max(-self.low, self.high):.3g}, {self.allowed:.3g} is allowed"
            return small if self.low < self.high else f"all values are {self.low:g}"
        if self.varied:
            return ""
        same = f"all values are {self.low:g}"
        if self.low < self.high:
            same = (
                f"its values are within {self.high - self.low:.3g}, {self.allowed:.3g} is allowed"
            )
        return f"{same}, for other inputs too"


def measure_spread(reference: np.ndarray, standard: Standard, fixed: bool, bounded: bool) -> Spread:
    """The spread of an output of onnxruntime's. bounded: it has as many positions as are found, and `FILL` behind them."""
    kind = np.promote_types(reference.dtype, np.float32)
    finite = reference[np.isfinite(reference)].astype(kind) if reference.size else reference
    if not finite.size:
        return Spread(nan, nan, 0.0, 0.0, fixed=fixed or not reference.size)
    low, high = float(finite.min()), float(finite.max())
    step, tolerance = standard.step, get_tolerance(standard.dtype or reference.dtype)
    extent, allowed = high - low, 0.0
    if step is not None and not step.exact:
        extent, allowed = float(finite.std()), ALLOWED * step.range * step.size
    elif tolerance is not None:
        most = max(-low, high)
        allowed = float(tolerance.allowed(most, most, standard.noise))
    found = not bounded or low < high or low != fill_value(reference.dtype)
    return Spread(low, high, extent, allowed, fixed, found)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A tensor compared with onnxruntime's.

    wrong: number of values outside the tolerance. classes_ok: see `has_same_classes`. max_abs_error: over all values; infinite if
    only one side is a number. first_wrong_row: along the tensor's row axis. steps: difference of a quantized tensor in steps.
    noise: difference of onnxruntime from itself, without optimisations or with moved inputs; 0 if it was not measured.
    powers: of a float tensor that is computed in a type of two bytes, the sums of squared errors and of squared reference values.
    spread: of an output, what values it has in onnxruntime.
    """

    name: str
    values: int
    wrong: int
    max_abs_error: float
    first_wrong_row: int | None
    classes_ok: bool | None = None
    steps: StepDifference | None = None
    noise: float = 0.0
    powers: tuple[float, float] | None = None
    spread: Spread | None = None

    @property
    def inconclusive(self) -> str:
        """Why equality proves nothing, see `Spread.inconclusive`; "" where it does, and where values differ."""
        return self.spread.inconclusive if self.ok and self.spread is not None else ""

    @property
    def sqnr_db(self) -> float | None:
        """Signal to noise in dB, infinite where nothing differs; None if it was not measured."""
        if self.powers is None:
            return None
        errors, values = self.powers
        return 10 * log10(values / errors) if errors and values else (-inf if errors else inf)

    @property
    def ok(self) -> bool:
        if self.steps is not None and not self.steps.step.exact and self.steps.ok:
            return True
        return self.wrong == 0 and self.classes_ok is not False


@dataclass(frozen=True, slots=True)
class Standard:
    """How a tensor is compared: its row axis, its step if it is quantized, the dtype with the tolerance that applies (None:
    its own, see `comparison_types`), and the difference of onnxruntime from itself (`result_noise`).
    """

    axis: int | None = None
    step: StepSize | None = None
    dtype: np.dtype | None = None
    noise: float = 0.0


_PLAIN = Standard()


def compare(
    name: str,
    ours: np.ndarray,
    reference: np.ndarray,
    standard: Standard = _PLAIN,
    largest: float | None = None,
) -> Comparison:
    """Compare a tensor with onnxruntime's; equal infinities, and NaN on both sides, are equal.

    largest: the largest |value| of the whole tensor, if only some of its rows are given.
    Raises MismatchError if shape or dtype differ.
    """
    if ours.shape != reference.shape or ours.dtype != reference.dtype:
        raise MismatchError(
            f"has shape {ours.shape} and dtype {ours.dtype}, onnxruntime's {reference.shape} and {reference.dtype}",
            where=f"'{name}'",
        )
    if not ours.size:
        return Comparison(name, 0, 0, 0.0, None)
    tolerance = get_tolerance(standard.dtype or reference.dtype)
    if tolerance is None:
        wrong = ours != reference
        error = np.abs(ours.astype(np.float64) - reference.astype(np.float64))
    else:
        error, wrong = _float_errors(ours, reference, tolerance, largest, standard.noise)
    axis = standard.axis or 0
    rows = (
        wrong.any(axis=tuple(i for i in range(wrong.ndim) if i != axis))
        if wrong.ndim
        else wrong.reshape(1)
    )
    first = int(rows.argmax()) if standard.axis is not None and rows.any() else None
    steps = None if standard.step is None else count_steps(ours, reference, standard.step)
    wrongs, most = int(wrong.sum()), float(error.max())
    powers = None
    if standard.dtype is not None and standard.dtype.name in ARITHMETIC:
        values = reference.astype(np.float64)
        powers = float(np.square(error, dtype=np.float64).sum()), float(np.square(values).sum())
    noise = standard.noise
    return Comparison(name, ours.size, wrongs, most, first, steps=steps, noise=noise, powers=powers)


def result_noise(one: np.ndarray, other: np.ndarray) -> float:
    """The largest finite difference between two results of onnxruntime; 0 for integers."""
    if one.dtype.kind != "f" or (one.shape, one.dtype) != (other.shape, other.dtype):
        return 0.0
    wide = np.promote_types(one.dtype, np.float32)
    with np.errstate(all="ignore"):
        difference = np.abs(one.astype(wide, copy=False) - other.astype(wide, copy=False))
    return float(difference.max(where=np.isfinite(difference), initial=0.0))


def largest_magnitude(reference: np.ndarray) -> float:
    """The largest finite |value|; 0 if there is none."""
    if reference.dtype.kind != "f":
        return 0.0
    wide = reference.astype(np.promote_types(reference.dtype, np.float32), copy=False)
    with np.errstate(all="ignore"):
        return float(np.abs(wide).max(where=np.isfinite(wide), initial=0.0))


def _float_errors(
    ours: np.ndarray,
    reference: np.ndarray,
    tolerance: Tolerance,
    largest: float | None,
    noise: float,
) -> tuple[np.ndarray, np.ndarray]:
    """(absolute errors, mask of those that are too large)."""
    wide = np.promote_types(ours.dtype, np.float32)
    a, b = ours.astype(wide, copy=False), reference.astype(wide, copy=False)
    with np.errstate(all="ignore"):
        size = np.abs(b)
        finite = np.isfinite(b)
        largest = largest_magnitude(reference) if largest is None else largest
        error = np.abs(a - b)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        error = np.where(same, 0.0, np.where(np.isnan(error), np.inf, error))
        allowed = tolerance.allowed(size, largest, noise)
        return error, ~same & ~(finite & (error <= allowed))


def has_same_classes(
    ours: np.ndarray, reference: np.ndarray, standard: Standard = _PLAIN
) -> bool | None:
    """Whether a classifier's top 1 and top 5 classes equal onnxruntime's for every image; None for other outputs.

    Classes with reference values that differ by less than the tolerance may be exchanged.
    """
    found, wanted = top_classes(ours), top_classes(reference)
    tolerance = get_tolerance(standard.dtype or reference.dtype)
    if found is None or wanted is None or tolerance is None:
        return None
    values = reference.reshape(reference.shape[:2]).astype(np.float64)
    with np.errstate(all="ignore"):
        size = np.abs(values)
        allowed = tolerance.allowed(size, np.nanmax(size), standard.noise)
        for image, (mine, theirs) in enumerate(zip(found, wanted, strict=True)):
            row, slack = values[image], allowed[image]
            for count in (1, len(theirs)):
                least = theirs[count - 1]
                if any(row[c] < row[least] - slack[least] for c in mine[:count]):
                    return False
    return True


# The reference run ------------------------------------------------------------------------------

SIGNED = "session.qdqisint8allowed"
"""The setting of onnxruntime without which it computes layers between int8 tensors in float32 on x86."""


def signed_integers(network: Network) -> bool:
    """Whether tensors of a network are int8, so that `SIGNED` is set for the comparison."""
    return any(tensor.dtype == "int8" for tensor in network.tensors.values())


class Reference:
    """The model of a network in onnxruntime, on `threads` threads: a function of inputs by name.

    source: a file, a name of the zoo, or a model in memory. extra_outputs: ONNX names of tensors inside the graph that are
    also returned; names that the model does not have are ignored. sparing: neither an arena nor a memory pattern, so that
    every tensor is a separate allocation and is freed after its last use. optimised: whether onnxruntime may rewrite the
    graph. forced: name of an If of the network -> the branch that it takes, whatever its condition is; see `find_forceable`.
    Without extra outputs, one of which csdfgen computes a bounded number of positions is filled up to that number as
    csdfgen does it (`csdfgen.reading.bounded`). Raises ModelError if onnxruntime cannot load the model.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | onnx.ModelProto,
        network: Network,
        extra_outputs: Iterable[str] = (),
        threads: int = 1,
        sparing: bool = False,
        optimised: bool = True,
        forced: Mapping[str, bool] = MappingProxyType({}),
    ) -> None:
        self.network, self.source = network, network.source or network.name
        extra = list(extra_outputs)
        given = source, network, extra, threads, sparing
        self._unoptimised = partial(Reference, *given, optimised=False, forced=forced)
        self._one_by_one, self._images = network.lifted, network.batch
        self._fixed = network.fixed
        self._names, data, folder = _prepared(source, network, extra, forced)
        types = {tensor.name: tensor.dtype for tensor in network.tensors.values()}
        self._rounded = {name for name, dtype in types.items() if dtype == BFLOAT16.dtype}
        self._sizes = {
            output.name: output.tensor.shape
            for output in network.outputs
            if output.tensor is not None and output.tensor.name in network.bounded and not extra
        }
        import onnxruntime

        _quiet()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = _SILENT
        if signed_integers(network):
            options.add_session_config_entry(SIGNED, "1")
        plain = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        if forced or not optimised:  # which may not survive an If of a constant
            options.graph_optimization_level = plain
        if sparing:
            options.enable_cpu_mem_arena = options.enable_mem_pattern = False
        if folder is not None:
            options.add_session_config_entry(
                "session.model_external_initializers_file_folder_path", str(folder)
            )
        try:
            try:
                self._session = _opened(data, options)
            except refusals():  # a branch that is never taken may fit no shapes: its optimiser minds, its execution does not
                options.graph_optimization_level = plain
                self._session = _opened(data, options)
        except refusals() as error:
            raise self._refused("load", error) from None

    def unoptimised(self) -> Reference:
        """The same, where onnxruntime may not rewrite the graph."""
        return self._unoptimised()

    def __call__(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The outputs and the extra outputs by name. Raises ModelError if onnxruntime cannot run the model."""
        takes = {entry.name for entry in self._session.get_inputs()}
        # asarray, because ascontiguousarray makes an array of shape (1,) of a scalar
        arrays = {**self._fixed, **feeds}
        given = {
            name: np.asarray(widen_array(a), order="C")
            for name, a in arrays.items()
            if name in takes
        }
        if not self._one_by_one:
            return self._run(given)
        images = [
            self._run({name: array[k : k + 1] for name, array in given.items()})
            for k in range(self._images)
        ]
        return {name: np.concatenate([one[name] for one in images]) for name in self._names}

    def _run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        from onnxruntime import RunOptions

        options = RunOptions()
        options.log_severity_level = _SILENT
        try:
            results = self._session.run(self._names, feeds, options)
        except refusals() as error:
            raise self._refused("run", error) from None
        labels = self.network.labels
        found = {
            name: _as_numbers(a, labels[name]) if name in labels else np.asarray(a)
            for name, a in zip(self._names, results, strict=True)
        }
        found.update(
            {name: found[name].astype(BFLOAT16.dtype) for name in self._rounded & {*found}}
        )
        return found | {name: fill_array(found[name], shape) for name, shape in self._sizes.items()}

    def _refused(self, what: str, error: Exception) -> ModelError:
        return ModelError(
            f"onnxruntime cannot {what} it, run without {option('check')}: {format_reason(error)}",
            where=self.source,
        )


def _as_numbers(found: Any, labels: Sequence[str | int]) -> np.ndarray:
    """What `csdfgen.reading.words` makes of strings, and of a map for each sample."""
    if isinstance(found, list):
        return np.array([[one[name] for name in labels] for one in found], np.float32)
    numbers = {name: number for number, name in enumerate(labels)}
    flat = [numbers[name] for name in found.reshape(-1)]
    return np.array(flat, np.int64).reshape(found.shape)


def _opened(data: bytes, options: Any) -> Any:
    import onnxruntime

    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def fill_array(array: np.ndarray, shape: Shape) -> np.ndarray:
    """An array with `FILL` behind what is there, up to a shape; the array itself if it does not fit in."""
    missing = [most - size for most, size in zip(shape, array.shape, strict=False)]
    if array.ndim != len(shape) or min(missing, default=0) < 0:
        return array
    return np.pad(array, [(0, n) for n in missing], constant_values=fill_value(array.dtype))


def format_reason(error: Exception) -> str:
    """The message of onnxruntime in one line, without references to its source files."""
    reason = " ".join(_SOURCE_PLACE.sub("", str(error)).split())
    return reason if len(reason) <= _SHOWN else reason[:_SHOWN] + "..."


def _quiet() -> None:
    """Keep onnxruntime from printing to stderr and from sending telemetry."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(_SILENT)
    if hasattr(onnxruntime, "disable_telemetry_events"):
        onnxruntime.disable_telemetry_events()


def find_forceable(
    source: str | os.PathLike[str] | onnx.ModelProto, network: Network
) -> dict[str, Place]:
    """Name of an If of the network -> the place of its node in the file, which other Ifs may have too (turns of a loop, calls
    of a function); none if the network was not read from this file.
    """
    if not network.places:
        return {}
    model, _ = _read(source, network)
    try:
        found = {name: find_node(model, network.places[name]) for name in network.conditions}
    except LookupError:
        return {}
    same = all(nodes[int(place[-1])].op_type == "If" for place, nodes in found.values())
    return {name: place for name, (place, _) in found.items()} if same else {}


def _force(model: onnx.ModelProto, network: Network, forced: Mapping[str, bool]) -> None:
    """Make conditions constants."""
    names = {taken: f"csdfgen: {taken}" for taken in set(forced.values())}
    for name, taken in forced.items():
        place, nodes = find_node(model, network.places[name])
        nodes[int(place[-1])].input[0] = names[taken]
    for taken, name in names.items():  # a body sees what is around it, and a function nothing
        value = numpy_helper.from_array(np.array(taken), name)
        model.graph.initializer.append(value)
        for function in model.functions:
            function.node.insert(0, helper.make_node("Constant", [], [name], value=value))


def _read(
    source: str | os.PathLike[str] | onnx.ModelProto, network: Network
) -> tuple[onnx.ModelProto, Path | None]:
    """The model of a network, and the folder of its external data."""
    if isinstance(source, onnx.ModelProto):
        return deepcopy(source), None
    if (other := convert_foreign(source, _shape_of(network))) is not None:
        return other, None
    model = onnx.load(os.fspath(source), load_external_data=False)
    return model, Path(source).resolve().parent


def _prepared(
    source: str | os.PathLike[str] | onnx.ModelProto,
    network: Network,
    extra: Sequence[str],
    forced: Mapping[str, bool],
) -> tuple[list[str], bytes, Path | None]:
    """(names of the outputs, the serialised model for onnxruntime, the folder of its external data). What is bfloat16 is
    float32 in it.
    """
    try:
        model, folder = _read(source, network)
        _force(model, network, forced)
        widen_model(model, folder)
        names = _adapt(model, network, extra)
        return names, model.SerializeToString(), folder
    except (DecodeError, EncodeError, OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:_SHOWN]
        raise ModelError(
            f"cannot be given to onnxruntime: {reason}", where=network.source or network.name
        ) from None


def _shape_of(network: Network) -> ShapeOf:
    """The shapes with which a network was loaded, of inputs that became constants too."""
    shapes = {tensor.name: network.whole_shape(tensor) for tensor in network.inputs}
    shapes.update({name: array.shape for name, array in network.fixed.items()})
    return lambda name, declared: shapes.get(name, declared)


def _adapt(model: onnx.ModelProto, network: Network, extra: Sequence[str]) -> list[str]:
    """Set the input shapes, remove other shapes, add outputs; returns the names of all outputs."""
    graph = model.graph
    if all(node.op_type != "If" for node in graph.node):  # opening one may crash onnxruntime 1.32
        hold_constant(model, network.fixed)
    weights = {tensor.name for tensor in graph.initializer} | {
        tensor.values.name for tensor in graph.sparse_initializer
    }
    inputs = [entry for entry in graph.input if entry.name not in weights]
    if len(inputs) != len(graph.input):
        del graph.input[:]
        graph.input.extend(inputs)
        model.ir_version = max(model.ir_version, WEIGHTS_NEED_NOT_BE_INPUTS)
    declare_shapes(model, network, [tensor.name for tensor in network.inputs])
    names = [entry.name for entry in graph.output]
    made = {name for node in graph.node for name in node.output if name}
    added = [name for name in dict.fromkeys(extra) if name in made and name not in names]
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in added)
    return names + added
