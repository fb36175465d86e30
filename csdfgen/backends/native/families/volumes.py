"""Which convolutions of three axes go frame by frame? Those of one group with many channels.

A frame of the output is a map, whose windows see some frames of the input. These are taken for channels of
one map, so that Winograd's forms hold as they do for any map. Others go line by line (`laid_out`).
"""

from __future__ import annotations

from csdfgen.backends.native.families.common import Family, activated
from csdfgen.backends.native.families.convolution import Filter, bias_of, family, usable
from csdfgen.backends.native.families.layouts import Frames, Part
from csdfgen.backends.native.records import PANEL
from csdfgen.model.network import Layer
from csdfgen.model.rows import Rows
from csdfgen.ops.windows import windows_of

__all__ = ["frame_by_frame"]


def frame_by_frame(layer: Layer) -> Family | None:
    """Conv of three axes with more channels than the taps of a row are one run of; or whose windows see one
    frame.
    """
    x = usable(layer)
    if x is None or len(x.shape) != 5 or layer.attributes["group"] > 1:
        return None
    through, down, across = windows_of(layer.attributes)
    if x.shape[1] <= PANEL and through.kernel > 1:
        return None
    high, columns = layer.output.shape[3:]
    own = Filter(
        layer.constants[1],
        bias_of(layer),
        1,
        (down.stride, across.stride),
        (down.dilation, across.dilation),
        across.pad_top,
        activated(layer),
        stacked=True,
    )

    def parts(out: Rows) -> list[Part]:
        first = out.start * through.stride - through.pad_top
        return [
            Part(0, (0, 0), (1, 1), first + k * through.stride, high, columns, k)
            for k in range(len(out))
        ]

    return family([own], Frames(x.shape[4], through, down), parts)
