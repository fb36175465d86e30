"""TFLite_Detection_PostProcess: boxes of anchors, of which the best are kept that do not overlap.

Source: tensorflow/lite/kernels/detection_postprocess.cc. Its settings are a map of FlexBuffers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from csdfgen.errors import ModelError
from csdfgen.reading.tflite.values import Layer


def detect(layer: Layer) -> None:
    """The four outputs: boxes, classes, scores, and how many of them there are. Boxes are suppressed by those of all classes, or
    (use_regular_nms) of their own.
    """
    given = _Settings(layer.op.custom)
    apart = bool(given.number("use_regular_nms", 0))
    if not apart and given.number("max_classes_per_detection", 1) != 1:
        raise ModelError("has several classes a detection, which is not supported")
    most, classes = int(given.number("max_detections")), int(given.number("num_classes"))
    (batch, anchors, scored), count = _checked(layer), layer.shape(0)[1]
    if batch != 1 or anchors != count or not 1 <= classes <= scored or not 1 <= most <= anchors:
        raise ModelError(
            f"{count} boxes, scores {layer.shape(1)}, {classes} classes and {most} detections do not fit"
        )
    boxes = _boxes(layer, given)
    begin, end, axis = (layer.constant([n], np.int64) for n in (scored - classes, scored, 2))
    scores = layer.node("Slice", layer.x(1), begin, end, axis)
    if apart:
        limit = min(anchors, int(given.number("detections_per_class", 100)))
        lines = layer.made.node("Split", [scores], layer.name, classes, axis=2, num_outputs=classes)
        kinds = layer.constant(np.arange(classes).repeat(anchors))
    else:
        limit, lines = most, [layer.node("ReduceMax", scores, axis, keepdims=0)]
        kinds = layer.node("Cast", layer.node("ArgMax", scores, axis=2, keepdims=0), to=1)
    lines = [layer.reshaped(line, [anchors]) for line in lines]
    masks = [_kept(layer, given, boxes, line, limit, anchors) for line in lines]
    kept, ranks = (layer.node("Concat", *parts, axis=0) for parts in (masks, lines))
    _give(layer, boxes, ranks, kinds, kept, most)


def _give(layer: Layer, boxes: str, ranks: str, kinds: str, kept: str, most: int) -> None:
    """The first of what is kept, in the order of its scores; zeros behind that. There are as many ranks and kinds as boxes, or
    a multiple of them.
    """
    outside = layer.constant(-1.0)
    ranked = layer.node("Where", kept, ranks, outside)
    scores, places = layer.made.node(
        "TopK", [ranked, layer.constant([most], np.int64)], layer.name, 2, axis=0
    )
    there = layer.node("Greater", scores, outside)
    zero = layer.constant(0.0)
    box = layer.node("Mod", places, layer.constant(layer.shape(0)[1], np.int64))
    found = layer.node("Gather", layer.reshaped(boxes, [-1, 4]), box, axis=0)
    shown = layer.node("Where", layer.reshaped(there, [most, 1]), found, zero)
    kind = layer.node("Gather", layer.reshaped(kinds, [-1]), places, axis=0)
    count = layer.node(
        "ReduceSum", layer.node("Cast", there, to=1), layer.constant([0], np.int64), keepdims=1
    )
    results = [
        shown,
        layer.node("Where", there, kind, zero),
        layer.node("Where", there, scores, zero),
        count,
    ]
    for k, name in enumerate(results[: len(layer.outputs)]):
        shape = layer.outputs[k].shape or [(1, most, 4), (1, most), (1, most), (1,)][k]
        layer.outputs[k].tensor.shape = tuple(shape)
        layer.give(layer.reshaped(name, shape), k)


def _kept(layer: Layer, given: _Settings, boxes: str, line: str, limit: int, anchors: int) -> str:
    """Which anchors are kept by their scores."""
    overlap, least = (given.number(f"nms_{what}_threshold") for what in ("iou", "score"))
    least = np.nextafter(np.float32(least), np.float32(-np.inf))  # the least one counts
    bounds = [layer.constant([limit], np.int64), layer.constant([overlap]), layer.constant([least])]
    chosen = layer.node("NonMaxSuppression", boxes, layer.reshaped(line, (1, 1, anchors)), *bounds)
    places = layer.node("Gather", chosen, layer.constant([2], np.int64), axis=1)
    same = layer.node("Equal", places, layer.constant(np.arange(anchors)[None], np.int64))
    any_ = layer.node(
        "ReduceMax", layer.node("Cast", same, to=1), layer.constant([0], np.int64), keepdims=0
    )
    return layer.node("Greater", any_, layer.constant(0.5))


def _checked(layer: Layer) -> tuple[int, int, int]:
    boxes, scores, anchors = layer.shape(0), layer.shape(1), layer.shape(2)
    if (
        len(boxes) != 3
        or len(scores) != 3
        or boxes[2] != 4
        or anchors != (boxes[1], 4)
        or len(layer.outputs) > 4
    ):
        raise ModelError(f"boxes {boxes}, scores {scores} and anchors {anchors} do not fit")
    return scores[0], scores[1], scores[2]


def _boxes(layer: Layer, given: _Settings) -> str:
    """Corners (y, x, y, x) of all boxes, of their centers and sizes relative to the anchors."""
    scales = np.array([given.number(f"{side}_scale") for side in "yxhw"])
    if not np.all(scales > 0):
        raise ModelError(f"scales {scales} of boxes are not above 0")
    ends = [layer.constant(n, np.int64) for n in ([0], [2], [4], [1], [2])]
    low, middle, high, axis, last = ends
    x = layer.node("Mul", layer.x(0), layer.constant(1 / scales))
    anchors = layer.x(2)
    centers, sizes = (
        layer.node("Slice", x, *pair, last) for pair in ((low, middle), (middle, high))
    )
    at, wide = (
        layer.node("Slice", anchors, *pair, axis) for pair in ((low, middle), (middle, high))
    )
    centers = layer.node("Add", layer.node("Mul", centers, wide), at)
    halves = layer.node(
        "Mul", layer.node("Mul", layer.node("Exp", sizes), wide), layer.constant(0.5)
    )
    corners = [layer.node(op_type, centers, halves) for op_type in ("Sub", "Add")]
    return layer.node("Concat", *corners, axis=2)


class _Settings:
    """The map of settings; what damaged ones raise is `file.BROKEN`."""

    def __init__(self, data: bytes) -> None:
        from flatbuffers import flexbuffers

        self._map = flexbuffers.GetRoot(bytearray(data)).AsMap

    def number(self, name: str, default: float | None = None) -> float:
        try:
            found: Any = self._map[name].AsFloat
        except KeyError:
            found = default
        if found is None or not np.isfinite(found):
            raise ModelError(f"its settings have no {name}")
        return float(found)
