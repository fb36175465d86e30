"""Small YOLO detectors: box predictions at every place of a coarse map.

Sources: Redmon, Farhadi 2016 (arXiv:1612.08242) and tinyyolov2 of the ONNX model zoo (20 classes of
VOC); Redmon, Farhadi 2018 (arXiv:1804.02767) and Darknet's yolov3-tiny.cfg (80 classes of COCO).
The outputs are the maps in front of the decoding of boxes.
"""

from __future__ import annotations

from functools import partial

import onnx

from zoo_models._builder import Builder
from zoo_models._entry import Published, ZooEntry

__all__ = ["NETWORKS", "tiny_yolo_v2", "yolov3_tiny"]

CHANNELS = (16, 32, 64, 128, 256, 512)
"""Of the first six convolutions, each with a pool behind it; the last pool does not stride."""


def tiny_yolo_v2(
    height: int = 416,
    width: int | None = None,
    *,
    seed: int = 0,
    weights: bool = True,
    last_pool_pads: bool = True,
) -> onnx.ModelProto:
    """Tiny YOLO v2 for VOC, with the scaling of pixels in front, as the ONNX model zoo has it.

    last_pool_pads=False leaves the pool without stride unpadded: maps of 12x12 follow instead of
    13x13, as in the tool of the CSDF paper. Published (Darknet): 15,867,885 values in the file of
    weights, the running statistics among them; 6.97 billion operations at 416x416, which are twice
    the multiply-accumulates.
    """
    b = Builder("tiny_yolo_v2", seed=seed, weights=weights)
    x = b.normalized(b.input(3, height, width or height), Mul=1 / 255, Add=0)
    conv = partial(b.conv_bn, padding="SAME_UPPER", activation=b.leaky_relu)
    for number, channels in enumerate(CHANNELS, start=1):
        x = conv(x, channels, 3)
        last = number == len(CHANNELS)
        x = b.max_pool(x, 2, 1 if last else 2, "SAME_UPPER" if not last or last_pool_pads else 0)
    for _ in range(2):
        x = conv(x, 1024, 3)
    return b.model(b.conv(x, 125, 1, name="grid"))


def yolov3_tiny(
    height: int = 416, width: int | None = None, *, seed: int = 0, weights: bool = True
) -> onnx.ModelProto:
    """YOLOv3-tiny for COCO: predictions on two maps, the finer of which joins an upsampled one.

    Published (Darknet): 8,858,734 values in the file of weights, the running statistics among them;
    5.56 billion operations at 416x416, which are twice the multiply-accumulates.
    """
    b = Builder("yolov3_tiny", seed=seed, weights=weights)
    x = b.input(3, height, width or height)
    conv = partial(b.conv_bn, activation=b.leaky_relu)
    fine = x
    for number, channels in enumerate(CHANNELS, start=1):
        x = conv(x, channels, 3, padding=1)
        if number == 5:
            fine = x
        x = (
            b.max_pool(x, 2, 2)
            if number < len(CHANNELS)
            else b.max_pool(x, 2, padding=(0, 0, 1, 1))
        )
    x = conv(conv(x, 1024, 3, padding=1), 256, 1)
    coarse_grid = b.conv(conv(x, 512, 3, padding=1), 255, 1, name="coarse")
    x = b.concat([b.upsample(conv(x, 128, 1), 2), fine])
    return b.model(coarse_grid, b.conv(conv(x, 256, 3, padding=1), 255, 1, name="fine"))


NETWORKS = (
    ZooEntry(
        "tiny_yolo_v2",
        tiny_yolo_v2,
        "YOLO",
        "detection",
        Published(
            15_867_885,
            3_485_000_000,
            "Darknet tiny-yolo-voc",
            "a file of 63,471,556 bytes, 16 of them header; 6.97 billion operations, two for a multiply-accumulate",
            (416, 416),
            statistics=True,
            definition="yolov2-tiny-voc.cfg",
        ),
        pixels=(0.0, 255.0),
    ),
    ZooEntry(
        "yolov3_tiny",
        yolov3_tiny,
        "YOLO",
        "detection",
        Published(
            8_858_734,
            2_780_000_000,
            "Darknet yolov3-tiny",
            "a file of 35,434,956 bytes, 20 of them header; 5.56 billion operations, two for a multiply-accumulate",
            (416, 416),
            statistics=True,
            definition="yolov3-tiny.cfg",
        ),
        multiple=32,
    ),
)
