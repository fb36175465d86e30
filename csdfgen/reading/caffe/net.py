"""Which layers of a .prototxt run in the test phase, and what model are they?

Source: Net::FilterNet, Net::Init and UpgradeV1Net of BVLC/caffe. Blobs that are overwritten in place become
tensors of their own. Layers of losses are left out, so that the network ends in what they read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx
from onnx import TensorProto, helper

from csdfgen.errors import ModelError, shape_option
from csdfgen.reading.caffe.layers import RECIPES, REFUSED, Layer, Nodes, Value
from csdfgen.reading.caffe.text import MAX_INT, Message, parse
from csdfgen.reading.caffe.weights import Blobs, read_weights
from csdfgen.reading.input_shapes import ShapeOf
from csdfgen.reading.onnx_file import check_file, label
from csdfgen.reading.onnx_tensor import MAX_RANK

Shape = tuple[int, ...]

MAX_TEXT = 2**22
"""Bytes of a .prototxt; that of resnet152 has 2**17."""

_OPSET, _IR_VERSION = 21, 10

_DATA = frozenset(
    {"Data", "AnnotatedData", "DummyData", "HDF5Data", "ImageData", "Input", "MemoryData", "WindowData"}
)  # fmt: skip
_LEFT_OUT = frozenset(
    {"Accuracy", "ContrastiveLoss", "DetectionEvaluate", "EuclideanLoss", "HDF5Output", "HingeLoss", "InfogainLoss",
     "MultiBoxLoss", "MultinomialLogisticLoss", "SigmoidCrossEntropyLoss", "SmoothL1Loss", "SoftmaxWithLoss"}
)  # fmt: skip
_SILENCE = "Silence"

_HARMLESS = frozenset(
    {"bias_filler", "blob_share_mode", "blobs_lr", "cudnn_convolution_algo_seeker", "debug_info", "dropout_ratio", "engine",
     "exclude", "filler", "force_backward", "force_nd_im2col", "include", "loss_param", "loss_weight",
     "moving_average_fraction", "param", "phase", "propagate_down", "scale_filler", "stable_prod_grad", "state",
     "transform_param", "weight_decay", "weight_filler"}
)  # fmt: skip
"""Settings that do not change what a network computes."""

_OLD_TYPES = {
    "ABSVAL": "AbsVal", "BNLL": "BNLL", "EUCLIDEAN_LOSS": "EuclideanLoss", "HDF5_DATA": "HDF5Data", "HDF5_OUTPUT": "HDF5Output",
    "LRN": "LRN", "MVN": "MVN", "RELU": "ReLU", "SOFTMAX_LOSS": "SoftmaxWithLoss", "TANH": "TanH", "IM2COL": "Im2col",
    "ARGMAX": "ArgMax",
}  # fmt: skip
"""Types of version 1 whose name of today is not that in capitals."""


def find_weights(path: Path) -> Path:
    """The .caffemodel of a .prototxt: of the same name, or the only one in its folder. Raises ModelError."""
    same = path.with_suffix(".caffemodel")
    if same.is_file():
        return same
    others = sorted(path.parent.glob("*.caffemodel"))
    if len(others) == 1:
        return others[0]
    found = f"none of the {len(others)} there has its name" if others else "there is none"
    raise ModelError(
        f"needs its weights, {same.name} in the same folder, and {found}; name it behind a comma: {path.name},WEIGHTS.caffemodel"
    )


def read_net(path: Path, weights: Path, sized: ShapeOf) -> onnx.ModelProto:
    """The network of the test phase as ONNX, for inputs of the shapes that `sized` gives them.

    Raises ModelError, which names the layer or the file of weights.
    """
    check_file(path)
    if path.stat().st_size > MAX_TEXT:
        raise ModelError(
            f"has {path.stat().st_size} bytes, the text of a network at most {MAX_TEXT}"
        )
    try:
        net = parse(path.read_bytes().decode())
    except OSError as error:
        raise ModelError(f"cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ModelError(f"is no text (byte {error.start}); is it a .prototxt?") from None
    layers = _layers(net)
    try:
        blobs = read_weights(weights)
    except ModelError as error:
        raise error.at(str(weights)) from None
    return _Model(sized, blobs).built(net, layers, path.stem)


def _layers(net: Message) -> list[tuple[Message, str]]:
    """The layers of the test phase with their types."""
    old, new = net.messages("layers"), net.messages("layer")
    if old and new:
        raise ModelError(
            "has both layer { } and layers { }; Caffe's upgrade_net_proto_text makes one of them"
        )
    if any("layer" in one for one in old):
        raise ModelError(
            "is of version 0 of the format; upgrade it with Caffe's upgrade_net_proto_text"
        )
    if not old and not new:
        raise ModelError("has no layer { }; is it the .prototxt of a network (not of a solver)?")
    state = net.message("state")
    level, stages = state.integer("level", 0, -MAX_INT), set(state.texts("stage"))
    found = [one for one in old or new if _included(one, level, stages)]
    return [(one, _type(one, bool(old))) for one in found]


def _included(layer: Message, level: int, stages: set[str]) -> bool:
    def meets(rule: Message) -> bool:
        return (
            rule.word("phase", {"TEST": True, "1": True, "TRAIN": False, "0": False}, True)
            and rule.integer("min_level", level, -MAX_INT) <= level
            and rule.integer("max_level", level, -MAX_INT) >= level
            and stages.issuperset(rule.texts("stage"))
            and stages.isdisjoint(rule.texts("not_stage"))
        )

    include, exclude = layer.messages("include"), layer.messages("exclude")
    if include and exclude:
        raise ModelError(
            f"layer '{label(layer.text('name'))}': include and exclude, Caffe takes one of them"
        )
    return any(map(meets, include)) if include else not any(map(meets, exclude))


def _type(layer: Message, old: bool) -> str:
    """The type in the names of today."""
    name = layer.text("type")
    if not old:
        return name
    return _OLD_TYPES.get(name) or "".join(word.capitalize() for word in name.split("_"))


class _Model:
    """The model as it is built, layer by layer."""

    def __init__(self, sized: ShapeOf, blobs: Blobs) -> None:
        self.sized, self.blobs = sized, blobs
        self.made = Nodes()
        self.inputs: dict[str, Value] = {}
        self.current: dict[str, Value] = {}
        """Blob -> its value now."""
        self.unread: dict[str, None] = {}
        """Blobs that no layer reads, in order: the outputs."""

    def built(
        self, net: Message, layers: Sequence[tuple[Message, str]], name: str
    ) -> onnx.ModelProto:
        self._old_inputs(net)
        known = RECIPES.keys() | _DATA | _LEFT_OUT | {_SILENCE}
        unknown = [(label(one.text("name")), kind) for one, kind in layers if kind not in known]
        if unknown:
            what = "; ".join(
                f"'{layer}' ({label(kind)}{': ' + REFUSED[kind] if kind in REFUSED else ''})"
                for layer, kind in unknown[:5]
            )
            more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
            raise ModelError(
                f"has layers that are not supported: {what}{more}; export the network to ONNX where it was trained, or cut it "
                "in front of them"
            )
        for one, kind in layers:
            try:
                self._add(one, kind)
            except ModelError as error:
                raise error.at(f"layer '{label(one.text('name'))}' ({label(kind)})") from error
        self._refuse_unread(net, {*_HARMLESS, "layer", "layers", "name"})
        return self._model(label(net.text("name")) or name)

    def _old_inputs(self, net: Message) -> None:
        """Inputs that are named in front of all layers."""
        names, dims = net.texts("input"), net.integers("input_dim", 1)
        shapes: list[Shape | None] = [_dims(one) for one in net.messages("input_shape")]
        shapes += [tuple(dims[k : k + 4]) for k in range(0, len(dims), 4)]
        if len(shapes) not in (0, len(names)) or len(dims) % 4:
            raise ModelError(
                f"has {len(names)} input and {len(shapes)} shapes of them; give each its own"
            )
        for name, shape in zip(names, shapes or [None] * len(names), strict=True):
            self._input(name, shape)

    def _input(self, name: str, declared: Shape | None) -> None:
        if name in self.current:
            raise ModelError(f"blob '{label(name)}' is made twice")
        shape = self.sized(name, declared)
        if shape is None:
            example = shape_option({name: (1, 3, "N", "N")})
            raise ModelError(
                f"the shape of '{label(name)}' is not in the file; give it with {example}"
            )
        if len(shape) > MAX_RANK:
            raise ModelError(
                f"'{label(name)}' has {len(shape)} axes, at most {MAX_RANK} are supported"
            )
        self.inputs[name] = self.current[name] = Value(self.made.free(name), shape)

    def _add(self, one: Message, kind: str) -> None:
        name, bottoms, tops = one.text("name"), one.texts("bottom"), one.texts("top")
        if kind in _LEFT_OUT:
            return
        if kind in _DATA:
            self._data(one, kind, tops)
            return
        missing = [blob for blob in bottoms if blob not in self.current]
        if missing:
            raise ModelError(
                f"reads '{label(missing[0])}', which no layer in front of it makes in the test phase"
            )
        for blob in bottoms:
            self.unread.pop(blob, None)
        if kind == _SILENCE:
            return
        field, recipe = RECIPES[kind]
        values = [self.current[blob] for blob in bottoms]
        blobs = self.blobs.get(name, ())
        layer = Layer(name or kind, values, len(tops), one, blobs, self.made)
        found = recipe(layer, one.message(field) if field else Message())
        found = found if isinstance(found, list) else [found]
        if len(found) != len(tops):
            raise ModelError(f"has {len(tops)} tops, {len(found)} is supported")
        self._refuse_unread(one, _HARMLESS)
        for place, (blob, value) in enumerate(zip(tops, found, strict=True)):
            if blob in self.current and blob not in bottoms[place : place + 1]:
                raise ModelError(f"makes '{label(blob)}', which another layer makes too")
            self.current[blob] = value
            self.unread[blob] = None

    @staticmethod
    def _refuse_unread(one: Message, but: frozenset[str] | set[str]) -> None:
        unknown = next(one.unread(but), None)
        if unknown is not None:
            raise ModelError(
                f"sets {label(unknown)}, which csdfgen does not know; remove it if it does not change what is computed"
            )

    def _data(self, one: Message, kind: str, tops: Sequence[str]) -> None:
        """The first top of a layer of data is an input, after its transform_param; labels are not there. Tops of an Input
        layer are inputs all.
        """
        shapes = _data_shapes(one, kind)
        count = len(tops) if kind in ("Input", "DummyData") else 1
        for place, blob in enumerate(tops[:count]):
            self._input(
                blob,
                shapes[0 if len(shapes) == 1 else place] if len(shapes) in (1, count) else None,
            )

    def _model(self, name: str) -> onnx.ModelProto:
        """All that was made, with the names of blobs where they are free."""
        if not self.unread:
            raise ModelError("has no layer but data and losses in the test phase")
        names = {value.name: value.name for value in self.inputs.values()}
        outputs = []
        for blob in self.unread:
            value = self.current[blob]
            output = self.made.free(blob)
            if value.name in names:  # it is an input, or another output
                self.made.add("Identity", [value.name], [output], blob)
            else:
                names[value.name] = output
            outputs.append(output)
        for blob, value in self.current.items():
            if value.name not in names:
                names[value.name] = self.made.free(blob)
        for node in self.made.nodes:
            node.input[:] = [names.get(one, one) for one in node.input]
            node.output[:] = [names.get(one, one) for one in node.output]
        read = {one for node in self.made.nodes for one in node.input}
        inputs = [
            helper.make_tensor_value_info(value.name, TensorProto.FLOAT, value.shape)
            for value in self.inputs.values()
            if value.name in read
        ]
        graph = helper.make_graph(
            self.made.nodes, name, inputs,
            [onnx.ValueInfoProto(name=output) for output in outputs], self.made.constants,
        )  # fmt: skip
        opset = [helper.make_opsetid("", _OPSET)]
        return helper.make_model(graph, opset_imports=opset, ir_version=_IR_VERSION)


def _dims(shape: Message) -> Shape:
    return tuple(shape.integers("dim", 1))


def _data_shapes(one: Message, kind: str) -> list[Shape]:
    """The shapes of the tops of a layer of data, as far as the file says them."""
    field = {"Input": "input_param", "DummyData": "dummy_data_param"}.get(kind)
    if field is not None:
        found = one.message(field)
        shapes = [_dims(shape) for shape in found.messages("shape")]
        old = [found.integers(size, 1) for size in ("num", "channels", "height", "width")]
        return shapes or [(n, c, h, w) for n, c, h, w in zip(*old, strict=False)]
    if kind == "MemoryData":
        found = one.message("memory_data_param")
        names = ("batch_size", "channels", "height", "width")
        shape = tuple(found.integer(size, 0) for size in names)
        return [shape] if min(shape) > 0 else []
    transform = one.message("transform_param")
    fields = {"ImageData": "image_data_param", "HDF5Data": "hdf5_data_param"}
    settings = one.message(fields.get(kind, "data_param"))
    side = transform.integer("crop_size", 0) or settings.integer("crop_size", 0)
    if kind == "HDF5Data" or side == 0:
        return []
    gray = transform.flag("force_gray", False) or not settings.flag("is_color", True)
    return [(settings.integer("batch_size", 1, 1), 1 if gray else 3, side, side)]
