"""Small YOLO detectors: box predictions at every place of a coarse map.

Sources: Redmon, Farhadi 2016 (arXiv:1612.08242) and tinyyolov2 of the ONNX model zoo (20 classes of
VOC); Redmon, Farhadi 2018 (arXiv:1804.02767) and Darknet's yolov3-tiny.cfg (80 classes of COCO).
The outputs are the maps in front of the decoding of boxes.
"""

from __future__ import annotations

from functools import partial

from zoo_models._builder import ROUNDED_UP, Builder, Value
from zoo_models._entry import network

CHANNELS = (16, 32, 64, 128, 256, 512)
"""Of the first six convolutions, each with a pool behind it; the last pool does not stride."""


@network("YOLO", task="detection", pixels=(0.0, 255.0))
def tiny_yolo_v2(b: Builder, x: Value, *, last_pool_pads: bool = True) -> Value:
    """Tiny YOLO v2 for VOC, with the scaling of pixels in front, as the ONNX model zoo has it.

    last_pool_pads=False leaves the pool without stride unpadded: maps of 12x12 follow instead of
    13x13, as in the tool of the CSDF paper.
    """
    x = b.normalized(x, Mul=1 / 255, Add=0)
    conv = partial(b.conv_bn, padding="SAME_UPPER", activation=b.leaky_relu)
    for number, channels in enumerate(CHANNELS, start=1):
        x = conv(x, channels, 3)
        last = number == len(CHANNELS)
        x = b.max_pool(x, 2, 1 if last else 2, "SAME_UPPER" if not last or last_pool_pads else 0)
    for _ in range(2):
        x = conv(x, 1024, 3)
    return b.conv(x, 125, 1, name="grid")


@network("YOLO", task="detection", multiple=32)
def yolov3_tiny(b: Builder, x: Value) -> tuple[Value, ...]:
    """YOLOv3-tiny for COCO: predictions on two maps, the finer of which joins an upsampled one."""
    conv = partial(b.conv_bn, activation=b.leaky_relu)
    fine = x
    for number, channels in enumerate(CHANNELS, start=1):
        x = conv(x, channels, 3, padding=1)
        if number == 5:
            fine = x
        last = number == len(CHANNELS)
        x = b.max_pool(x, 2, padding=ROUNDED_UP) if last else b.max_pool(x, 2, 2)
    x = conv(conv(x, 1024, 3, padding=1), 256, 1)
    coarse_grid = b.conv(conv(x, 512, 3, padding=1), 255, 1, name="coarse")
    x = b.concat([b.upsample(conv(x, 128, 1), 2), fine])
    return coarse_grid, b.conv(conv(x, 256, 3, padding=1), 255, 1, name="fine")
