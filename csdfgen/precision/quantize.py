"""From a float model and inputs to a model in fewer bytes: calibrate, choose, write, measure.

    made = csdfgen.quantize("model.onnx", pictures, format="mixed", arena_factor=1.25)
    made.save("small.onnx"); print(made.formats, made.sqnr_db)

"int8": activations and weights in one byte. "int16": activations in two, weights in one. "mixed": int8, and
int16 where that takes away most noise within an arena. "float16", "bfloat16": all in two bytes, without calibration.
What is made is plain ONNX in QDQ form, which onnxruntime runs too.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import onnx

import runtime
from csdfgen.devices.model import estimate
from csdfgen.errors import InputError, option, prefix_errors
from csdfgen.files import write_bytes
from csdfgen.goals.choice import (
    check_together,
    choose_plan,
    choose_shown_profile,
    default_options,
    load_profile,
)
from csdfgen.model.formats import ARITHMETIC, Format
from csdfgen.model.network import Network
from csdfgen.model.options import DEFAULTS, PlanOptions
from csdfgen.model.units import parse_size, parse_time, pluralize
from csdfgen.planning.plan import Plan
from csdfgen.precision.bfloat16 import convert_to_halves
from csdfgen.precision.calibrate import (
    Inputs,
    Sample,
    calibrate,
    split_images,
    split_samples,
    take_evenly,
    take_fitting_samples,
    take_measuring_samples,
)
from csdfgen.precision.choice import (
    Arenas,
    Chosen,
    choose_least_noise,
    choose_smallest,
    find_front,
    get_wide_layers,
    list_worthy_weights,
    predict_noise,
)
from csdfgen.precision.ends import Ends, remove_end_conversions
from csdfgen.precision.halves import choose_float32_nodes, measure_half_noise
from csdfgen.precision.levelling import equalize_channels
from csdfgen.precision.noise import (
    Sensitivity,
    decibels,
    measure_joint_noise,
    measure_separate_noise,
    relative_noise,
)
from csdfgen.precision.prepare import prepare_model
from csdfgen.precision.tensor_formats import tensor_formats
from csdfgen.precision.thresholds import PERCENTILE
from csdfgen.precision.timing import Times, choose_fastest, choose_least_noise_in_time
from csdfgen.precision.weights import (
    count_weights,
    read_weight_values,
    refine_biases,
    refit_weights,
    widen_weights,
)
from csdfgen.precision.wish import GOALS, METHOD, Wish
from csdfgen.precision.writer import Skeleton, convert_to_int8, replace_formats, skeleton
from csdfgen.reading.fixed import AskedValues, fixed_inputs, hold_constant
from csdfgen.reading.fronts import load_as_onnx
from csdfgen.reading.input_shapes import declare_shapes
from csdfgen.reading.loader import load
from csdfgen.reading.onnx_file import from_proto

TRIED_SAMPLES = 4
"""Inputs on which the noise of single tensors is measured, evenly taken from those given."""

TRIALS = 600
"""Samples, about, that may be run for that: where there are many tensors, inputs are fewer."""

LEVELLED_SAMPLES = 8
"""Inputs on which channels are looked at."""

ROUNDED_SAMPLES = 24
"""Inputs by whose windows weights are rounded."""

MEASURED_SAMPLES = 16
"""Inputs on which the result is measured."""

Progress = Callable[..., None]
"""(what is done now, how much is done, how much there is)"""


def _untold(what: str, done: int = 0, total: int | None = None) -> None:
    """No progress is shown."""


@dataclass(frozen=True, slots=True)
class Quantized:
    """A network in other formats.

    model: as ONNX. network: as it runs here, plan: the default one, or as asked for. formats: number of its stored
    tensors by type. float_arena, int8_arena: bytes of the default plan in float, and in int8 where that
    was planned. sqnr_db: signal to noise against the float network, measured here; predicted_sqnr_db:
    the sum of single noises; None where no input was given, or nothing was predicted. predicted_seconds: of
    a frame of the plan, on the device named `device`. front: for "mixed", if asked for. ends: inputs and
    outputs that are integers, if asked for.
    """

    model: onnx.ModelProto
    network: Network
    plan: Plan
    formats: Mapping[str, int]
    float_arena: int
    int8_arena: int | None
    sqnr_db: float | None
    predicted_sqnr_db: float | None
    predicted_seconds: float
    device: str
    front: tuple[Chosen, ...] = ()
    ends: Ends = field(default_factory=Ends)

    @property
    def wide_weights(self) -> int:
        """Layers whose weights have 16 bits."""
        return sum(
            1 in layer.constants and layer.constants[1].dtype == np.int16
            for layer in self.network.layers
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model, as a whole or not at all. Raises InputError."""
        write_bytes(path, self.model.SerializeToString())

    def facts(self) -> dict[str, Any]:
        """Formats and quality, as JSON values."""
        names = ("sqnr_db", "predicted_sqnr_db")
        return {"formats": dict(self.formats), **{name: getattr(self, name) for name in names}}

    def end_facts(self) -> dict[str, dict[str, dict[str, object]]]:
        """Inputs and outputs: the type, and of integers scale and zero point."""
        told, outputs = self.ends.to_json(), [one.tensor for one in self.network.outputs]
        tensors = {"inputs": self.network.inputs, "outputs": outputs}
        return {
            key: {x.name: told[key].get(x.name, {"type": x.dtype}) for x in found if x is not None}
            for key, found in tensors.items()
        }


def quantize(
    model: str | os.PathLike[str] | onnx.ModelProto,
    inputs: Inputs | None = None,
    *,
    format: str = "int8",
    method: str = METHOD,
    percentile: float = PERCENTILE,
    arena_factor: float | None = None,
    memory: str | int | None = None,
    min_sqnr: float | None = None,
    latency: str | float | None = None,
    goal: str = GOALS[0],
    device: str | None = None,
    integer_io: bool = False,
    with_front: bool = False,
    planning: PlanOptions | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    fix: AskedValues | None = None,
    progress: Progress | None = None,
) -> Quantized:
    """A float model in fewer bytes: `csdfgen quantize`.

    inputs: an array, or arrays by input name, with one picture or several along axis 0, or several such;
        needed but for "float16" and "bfloat16". arena_factor, memory, min_sqnr, latency (seconds, or "20ms"), goal: see
        `Wish`. device: where times are predicted, as for `csdfgen.plan`; latency needs one. integer_io: inputs and
        outputs stay the integers that they become; `Quantized.ends` has their formats, by which noise is
        measured too. with_front: also all choices from the arena of int8 to twice as much. planning:
        how the result will be planned, instead of as `csdfgen.plan` does by default; a budget in it is one
        for "mixed" as well, which then takes all formats for which some heights fit. shapes: sizes of
        inputs, which the model then declares. fix: inputs that become constants, as for `csdfgen.load`.
    Raises InputError, ModelError.
    """
    budget = None if memory is None else parse_size(memory)
    time = None if latency is None else parse_time(latency)
    wish = Wish(
        format, method, percentile, arena_factor, budget, min_sqnr, integer_io, time, goal
    ).checked()
    if with_front and format != "mixed":
        raise InputError(
            f"{option('front')} is for {option('format', 'mixed')}; {format} leaves nothing to choose"
        )
    options = planning or default_options()
    if options.count == DEFAULTS.count:
        options = replace(options, count="activations")  # arenas are compared, and limited
    options = replace(options, device=device) if device is not None else options
    if time is not None and not (options.device or options.tuning):
        raise InputError(
            f"{option('latency')} is the time on a device; name it with {option('device')} (csdfgen devices lists them)"
        )
    check_together(options if time is None else replace(options, latency=time))
    load_profile(options)  # refuses a device that is none before anything is measured
    source, where = load_as_onnx(model, shapes)
    with prefix_errors(where):
        work = _begun(source, inputs, wish, shapes, fix, progress, options)
        return work.in_floats() if format in ARITHMETIC else work.in_integers(with_front)


def quantize_to_halves(
    model: str | os.PathLike[str] | onnx.ModelProto,
    format: str,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    fix: AskedValues | None = None,
) -> onnx.ModelProto:
    """The model that `quantize` makes in "bfloat16" or "float16", neither planned nor measured. Raises InputError, ModelError."""
    source, where = load_as_onnx(model, shapes)
    with prefix_errors(where):
        work = _begun(source, None, Wish(format).checked(), shapes, fix, None, default_options())
        return convert_to_halves(work.model, format)


def _begun(
    source: onnx.ModelProto,
    inputs: Inputs | None,
    wish: Wish,
    shapes: Mapping[str, Sequence[int]] | None,
    fix: AskedValues | None,
    progress: Progress | None,
    options: PlanOptions,
) -> _Work:
    """The work on a float model, of which some inputs may become constants."""
    if fix:
        hold_constant(source, fixed_inputs(from_proto(source), fix, shapes or {}))
        shapes = {name: sizes for name, sizes in (shapes or {}).items() if name not in fix}
    return _Work(source, inputs, wish, shapes, progress or _untold, options)


def sensitivity(
    model: str | os.PathLike[str] | onnx.ModelProto,
    inputs: Inputs,
    *,
    method: str = METHOD,
    percentile: float = PERCENTILE,
    shapes: Mapping[str, Sequence[int]] | None = None,
    progress: Progress | None = None,
) -> Sensitivity:
    """The noise at the outputs of each tensor and of each layer's weights in int8, all else float.

    inputs: as for `quantize`. Raises InputError, ModelError.
    """
    source, where = load_as_onnx(model, shapes)
    with prefix_errors(where):
        wish = Wish("int8", method, percentile).checked()
        work = _Work(source, inputs, wish, shapes, progress or _untold, default_options())
        return work.tried(work.written())


@dataclass(frozen=True, slots=True)
class _Written:
    """The model in int8, what it consists of, and both formats of each tensor that leads."""

    model: onnx.ModelProto
    found: Skeleton
    narrow: Mapping[str, Format]
    wide: Mapping[str, Format]

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """Tensor that a scale is named after -> all tensors that share the scale."""
        return {name: self.found.members(name) for name in self.found.leaders}


@dataclass(eq=False)
class _Work:
    """One model on its way."""

    source: onnx.ModelProto
    inputs: Inputs | None
    wish: Wish
    shapes: Mapping[str, Sequence[int]] | None
    tell: Progress
    options: PlanOptions
    model: onnx.ModelProto = field(init=False)
    network: Network = field(init=False)
    samples: list[Sample] = field(init=False)

    def __post_init__(self) -> None:
        self.tell("loading")
        self.network = self._loaded(self.source)
        if not any(tensor.dtype == "float32" for tensor in self.network.tensors.values()):
            raise InputError("has no float32 tensors to quantize")
        if self.network.conditions:
            raise InputError(
                f"has an If ('{next(iter(self.network.conditions))}'), whose branches are not quantized; make its condition a "
                f"constant with {option('fix')}, or quantize what is around it"
            )
        self.samples = [] if self.inputs is None else list(split_samples(self.network, self.inputs))
        if not self.samples and self.wish.format not in ARITHMETIC:
            raise InputError(
                "there is no input to calibrate on; give pictures or arrays (--calibrate)"
            )
        self.tell("folding")
        if self.shapes:
            declare_shapes(self.source, self.network, self.shapes)
        self.model = prepare_model(self.source)

    @cached_property
    def folded(self) -> Network:
        """The prepared float model."""
        return self._loaded(self.model)

    @property
    def _images(self) -> list[Sample]:
        return split_images(self.samples, self.network.batch)

    def _loaded(self, model: onnx.ModelProto) -> Network:
        return load(model, shapes=self.shapes)

    # Formats --------------------------------------------------------------------------------------

    def in_floats(self) -> Quantized:
        """Weights and activations in two bytes, of all layers or of as many as a quality allows."""
        kept, predicted, quality = frozenset[str](), None, self.wish.min_sqnr
        if quality is not None:
            if not self.samples:
                raise InputError(
                    "there is no input to measure noise on; give pictures or arrays (--calibrate)"
                )
            samples = take_measuring_samples(self._images, MEASURED_SAMPLES)
            halves = measure_half_noise(
                self.model, self.folded, *self._tried_of(samples, len(self.folded.layers)), Format(self.wish.format),
                lambda done, total: self.tell("measuring the noise of single tensors", done, total),
            )  # fmt: skip
            kept = choose_float32_nodes(halves, quality, self._measured_without)
            predicted = decibels(halves.predicted(kept))
        made = convert_to_halves(self.model, self.wish.format, kept)
        return self._finished(made, None, predicted, (), lambda one: choose_plan(one, self.options))

    def _measured_without(self, kept: frozenset[str]) -> float:
        """Signal to noise in dB with these nodes in float32, as default plans have it."""
        network = self._loaded(convert_to_halves(self.model, self.wish.format, kept))
        whole, made = (choose_plan(one, default_options()) for one in (self.network, network))
        return self._measured(whole, made, Ends())

    def in_integers(self, with_front: bool) -> Quantized:
        """Activations and weights in integers, as requested."""
        written = self.written()
        wish, wide, points, int8 = self.wish, frozenset[str](), tuple[Chosen, ...](), None
        if wish.format == "mixed":
            tried = self.tried(written)
            arenas = self._arenas(written, tried)
            wide = self._chosen(arenas, tried).wide
            points = tuple(find_front(arenas, tried)) if with_front else ()
            noise = predict_noise(arenas, tried, wide)
            int8 = arenas.int8
        else:
            arenas = self._arenas(written, None)
            if wish.format == "int16":
                wide = frozenset(written.narrow)
            noise = self._predicted(written, arenas.formats(wide))
        made = arenas.model(wide)
        return self._finished(made, int8, decibels(noise), points, arenas.planned)

    def _arenas(self, written: _Written, tried: Sensitivity | None) -> Arenas:
        """Choices of formats. tried: the noise by which weights of two bytes are chosen, where they may be."""
        sizes = count_weights(self.model, written.model)

        def formats(wide: frozenset[str]) -> dict[str, Format]:
            return {k: written.wide[k] if k in wide else v for k, v in written.narrow.items()}

        def weights(wide: frozenset[str]) -> Sequence[str]:
            return () if tried is None else list_worthy_weights(tried, formats(wide), sizes)

        def model(wide: frozenset[str]) -> onnx.ModelProto:
            if not wide:
                return written.model
            made = replace_formats(written.model, formats(wide))
            made = widen_weights(self.model, made, get_wide_layers(wide))
            return refine_biases(made, self.model)

        return Arenas(
            model,
            formats,
            weights,
            tuple(written.narrow),
            lambda made: self._loaded(self._ended(made)[0]),
            self._tell_plans,
            self.options,
            load_profile(self.options),
        )

    def _ended(self, model: onnx.ModelProto) -> tuple[onnx.ModelProto, Ends]:
        """A model with the requested inputs and outputs."""
        return remove_end_conversions(model) if self.wish.integer_io else (model, Ends())

    def _predicted(self, written: _Written, formats: Mapping[str, Format]) -> float:
        """The noise of a choice that needs none of single tensors."""
        self.tell("predicting noise")
        return measure_joint_noise(
            self.folded,
            take_measuring_samples(self._images, MEASURED_SAMPLES),
            written.groups,
            formats,
            read_weight_values(self.model, written.model),
        )

    def _tell_plans(self, count: int) -> None:
        self.tell(f"choosing formats: {pluralize(count, 'choice')} tried")

    def _chosen(self, arenas: Arenas, tried: Sensitivity) -> Chosen:
        self.tell("choosing formats")
        wish = self.wish
        if wish.min_sqnr is not None and wish.goal == "speed":
            return choose_fastest(arenas, Times(arenas), tried, wish.min_sqnr)
        if wish.min_sqnr is not None:
            return choose_smallest(arenas, tried, wish.min_sqnr)
        limit = wish.memory
        if wish.latency is not None:
            if wish.arena_factor is not None:
                limit = int(wish.arena_factor * arenas.int8)
            limit = limit or self.options.memory or None
            return choose_least_noise_in_time(arenas, Times(arenas), tried, wish.latency, limit)
        if limit is None:
            limit = self.options.memory or int((wish.arena_factor or 1.0) * arenas.int8)
        return choose_least_noise(arenas, tried, limit)

    def written(self) -> _Written:
        """The model in int8, by what was seen of its tensors, once its channels are level."""
        self.tell("levelling channels")
        seen_first = take_fitting_samples(self._images, LEVELLED_SAMPLES)
        self.model = equalize_channels(self.model, self._loaded(self.model), seen_first)
        bare = convert_to_int8(self.model, {})
        found = skeleton(self.model, bare)
        if not found.tensors:
            raise InputError("has no operator whose tensors could be integers")
        self.tell("calibrating", 0, len(self.samples))
        seen = calibrate(
            self.folded,
            self.samples,
            tensors=found.tensors,
            progress=lambda done: self.tell("calibrating", done, len(self.samples)),
        )
        narrow, wide = tensor_formats(
            self.model, self.network, found, seen, len(self._images), self.wish
        )
        made = refit_weights(
            self.model,
            convert_to_int8(self.model, narrow),
            self.folded,
            take_fitting_samples(self._images, ROUNDED_SAMPLES),
            lambda done, total: self.tell("rounding weights", done, total),
        )
        return _Written(made, found, narrow, wide)

    def tried(self, written: _Written) -> Sensitivity:
        """The noise of each tensor and of each layer's weights."""
        kept = take_measuring_samples(self._images, MEASURED_SAMPLES)
        return measure_separate_noise(
            self.folded,
            *self._tried_of(kept, len(written.narrow)),
            written.groups,
            written.narrow,
            read_weight_values(self.model, written.model),
            lambda done, total: self.tell("measuring the noise of single tensors", done, total),
        )

    @staticmethod
    def _tried_of(samples: Sequence[Sample], tensors: int) -> tuple[Sequence[Sample], list[Sample]]:
        """Samples that so many tensors are tried on one by one, and the others."""
        tried = take_evenly(samples, max(1, min(TRIED_SAMPLES, TRIALS // max(1, 2 * tensors))))
        return tried, [one for one in samples if not any(one is other for other in tried)]

    # What came of it ------------------------------------------------------------------------------

    def _finished(
        self,
        model: onnx.ModelProto,
        int8: int | None,
        predicted: float | None,
        points: tuple[Chosen, ...],
        planned: Callable[[Network], Plan],
    ) -> Quantized:
        self.tell("planning")
        model, ends = self._ended(model)
        network = self._loaded(model)
        made, whole = planned(network), choose_plan(self.network, default_options())
        measured = None
        if self.samples:
            # rows that are handed on one by one are those of any other plan
            kept = (
                choose_plan(network, default_options())
                if made.options.result == "streamed"
                else made
            )
            measured = self._measured(whole, kept, ends)
        profile = choose_shown_profile(self.options)
        counts = Counter(tensor.dtype for tensor in network.tensors.values())
        return Quantized(
            model, network, made, dict(sorted(counts.items())), whole.figures["arena"], int8,
            measured, predicted, estimate(made, profile).seconds, profile.name, points, ends,
        )  # fmt: skip

    def _measured(self, whole: Plan, made: Plan, ends: Ends) -> float:
        """Signal to noise of a plan against that of the float network, dB. ends: inputs and outputs of the
        former that are integers.
        """
        samples = take_measuring_samples(self.samples, MEASURED_SAMPLES)
        programs = [(runtime.compile(whole), Ends()), (runtime.compile(made), ends)]
        outputs: tuple[list[Mapping[str, np.ndarray]], list[Mapping[str, np.ndarray]]] = ([], [])
        for done, sample in enumerate(samples):
            self.tell("measuring", done, len(samples))
            for (program, own), kept in zip(programs, outputs, strict=True):
                kept.append(own.given(program(own.taken(sample))))
        noise = relative_noise(*outputs)
        if not np.isfinite(noise):
            raise InputError(_no_numbers(self.wish.format, outputs[0]))
        return decibels(noise)


def _no_numbers(form: str, clean: Sequence[Mapping[str, np.ndarray]]) -> str:
    """Why noise is none. clean: the outputs of the float network."""
    if not all(np.isfinite(array).all() for one in clean for array in one.values()):
        return "outputs of the float model are no numbers on these inputs; calibrate on others"
    reason = ": float16 ends at 65,504; take int8, int16 or mixed" if form == "float16" else ""
    return f"outputs in {form} are no numbers on these inputs{reason}"
