"""Models that onnxruntime.quantization writes, and what onnxruntime makes of them.

Activations and weights are int8: then onnxruntime's products are exact on every processor.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

import numpy as np
import onnx
import onnxruntime as ort

from csdfgen.precision.writer import silence_warnings
from csdfgen.reading.zoo import build

__all__ = ["FORMS", "feeds_of", "onnxruntime_outputs", "prepared", "quantized"]

FORMS = ("QOperator", "QDQ")


def feeds_of(model: onnx.ModelProto, seed: int = 3) -> dict[str, np.ndarray]:
    """Seeded inputs in [-1, 1), of those that no initializer gives."""
    rng = np.random.default_rng(seed)
    given = {one.name for one in model.graph.initializer}
    return {
        entry.name: rng.uniform(
            -1, 1, [d.dim_value for d in entry.type.tensor_type.shape.dim]
        ).astype(np.float32)
        for entry in model.graph.input
        if entry.name not in given
    }


def quantized(
    source: onnx.ModelProto,
    form: str,
    *,
    per_channel: bool = True,
    overrides: Mapping[str, str] | None = None,
    samples: Sequence[Mapping[str, np.ndarray]] | None = None,
    method: str = "MinMax",
    **settings: str,
) -> onnx.ModelProto:
    """A float model in int8, in one of the two forms. settings: types, by their names in
    `onnxruntime.quantization.QuantType`; overrides: those of single tensors. samples: what it is calibrated on, by a method
    of `onnxruntime.quantization.CalibrationMethod`; by default two random inputs.
    """
    from onnxruntime.quantization import (
        CalibrationDataReader,
        CalibrationMethod,
        QuantFormat,
        QuantType,
        quantize_static,
    )

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self._left: Iterator[Mapping[str, np.ndarray]] = iter(
                [feeds_of(source, seed) for seed in range(2)] if samples is None else samples
            )

        def get_next(self) -> Mapping[str, np.ndarray] | None:
            return next(self._left, None)

    types = {"activation_type": "QInt8", "weight_type": "QInt8", **settings}
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.redirect_stdout(io.StringIO()),
        silence_warnings(),
    ):
        before, after = Path(folder) / "float.onnx", Path(folder) / "int8.onnx"
        onnx.save(source, before)
        quantize_static(
            before,
            after,
            Reader(),
            quant_format=QuantFormat[form],
            per_channel=per_channel,
            calibrate_method=CalibrationMethod[method],
            extra_options={
                "TensorQuantOverrides": {
                    name: [{"quant_type": QuantType[kind]}]
                    for name, kind in (overrides or {}).items()
                }
            },
            **{name: QuantType[value] for name, value in types.items()},
        )
        return onnx.load(after)


def prepared(model: onnx.ModelProto) -> onnx.ModelProto:
    """A float model as it is to be before it becomes int8: BatchNormalization is in the convolutions, and sums
    of two are Add, which onnxruntime has for integers.
    """
    from onnxruntime.quantization.shape_inference import quant_pre_process

    with tempfile.TemporaryDirectory() as folder, silence_warnings():
        before, after = Path(folder) / "before.onnx", Path(folder) / "after.onnx"
        onnx.save(model, before)
        quant_pre_process(before, after, skip_symbolic_shape=True)
        found = onnx.load(after)
    for node in found.graph.node:
        if node.op_type == "Sum" and len(node.input) == 2:
            node.op_type = "Add"
    return found


@lru_cache(maxsize=16)
def of_zoo(name: str, form: str) -> onnx.ModelProto:
    """A network of the zoo in int8."""
    return quantized(build(f"zoo:{name}"), form)


INTEGERS: Mapping[str, str] = MappingProxyType({"session.qdqisint8allowed": "1"})
"""Settings of onnxruntime with which integer layers of QDQ models with int8 activations are computed in integers."""


def session(model: onnx.ModelProto, settings: Mapping[str, str] = INTEGERS) -> ort.InferenceSession:
    """A model in onnxruntime, on one thread."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    for name, value in settings.items():
        options.add_session_config_entry(name, value)
    return ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def onnxruntime_outputs(
    model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """By name; integer layers of QDQ models are computed in integers."""
    made = session(model)
    names = [entry.name for entry in made.get_outputs()]
    return dict(zip(names, made.run(names, dict(feeds)), strict=True))
