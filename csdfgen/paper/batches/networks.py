"""Which layers have the networks of paper 000, under the names of its tables? As Caffe defines them.

The names that the paper prints (conv1/7x7_s2, res2a_branch2a) are Caffe's. Channels of modules are those of
the zoo, whose networks have the same products; the names and the branches are what is needed here, which an
ONNX file does not keep. ReLU, BatchNorm and Scale run in place and belong to their convolution; Dropout is
nothing. Caffe's strided pools round their size up; on maps of even size that is a pool padded by 1, which
Table III has counted (a padded copy of 114x114 in front of pool1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from math import prod
from types import MappingProxyType
from typing import Literal

from zoo_models.googlenet import MODULES, POOL_BEFORE
from zoo_models.mobilenet import V1_BLOCKS
from zoo_models.resnet import WIDTHS
from zoo_models.squeezenet import FIRES

Map = tuple[int, ...]
"""Channels, rows, columns; of clips channels, frames, rows, columns."""

CLASSES = 1000


@dataclass(frozen=True, slots=True)
class Op:
    """One layer. kernel, padding: of all axes behind the channels. groups: of a convolution; as many as channels: depthwise."""

    name: str
    kind: Literal["conv", "pool", "lrn", "fc"]
    reads: Map
    writes: Map
    kernel: int = 1
    padding: int = 0
    groups: int = 1

    @property
    def terms(self) -> int:
        """Products that are added up for one output value; 0 without weights."""
        if self.kind == "conv":
            return int(self.reads[0] // self.groups * self.kernel ** len(self.reads[1:]))
        return prod(self.reads) if self.kind == "fc" else 0

    @property
    def weights(self) -> int:
        """Values, biases of convolutions not counted: those of ResNet's have none."""
        return self.writes[0] * self.terms + (self.writes[0] if self.kind == "fc" else 0)

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one image."""
        return prod(self.writes) * self.terms


@dataclass(frozen=True, slots=True)
class Module:
    """Branches side by side, joined along the channels or by adding them up: the paper's special layer."""

    name: str
    reads: Map
    writes: Map
    branches: tuple[tuple[Op, ...], ...]
    join: Literal["concat", "add"] = "concat"


Layers = tuple[Op | Module, ...]


class _Path:
    """Layers one after another from a map on."""

    def __init__(self, shape: Map) -> None:
        self.shape = shape
        self.layers: list[Op | Module] = []

    def conv(
        self, name: str, channels: int, kernel: int = 1, stride: int = 1, padding: int = 0, groups: int = 1
    ) -> _Path:  # fmt: skip
        sides = ((side + 2 * padding - kernel) // stride + 1 for side in self.shape[1:])
        return self._add(Op(name, "conv", self.shape, (channels, *sides), kernel, padding, groups))

    def pool(self, name: str, kernel: int, stride: int, padding: int = 0, frames: int = 1) -> _Path:
        """frames: of a clip that become one."""
        channels, *ends, rows, columns = self.shape
        sides = ((side + 2 * padding - kernel) // stride + 1 for side in (rows, columns))
        writes = channels, *(end // frames for end in ends), *sides
        return self._add(Op(name, "pool", self.shape, writes, kernel, padding))

    def lrn(self, name: str) -> _Path:
        return self._add(Op(name, "lrn", self.shape, self.shape))

    def fc(self, name: str, outputs: int = CLASSES) -> _Path:
        return self._add(Op(name, "fc", self.shape, (outputs, 1, 1)))

    def module(
        self, name: str, branches: list[_Path], join: Literal["concat", "add"] = "concat"
    ) -> _Path:
        """Paths that all begin here, and are joined; one without layers hands on what it reads."""
        channels = [path.shape[0] for path in branches]
        writes = sum(channels) if join == "concat" else channels[0], *branches[0].shape[1:]
        parts = tuple(path.ops for path in branches if path.layers)
        return self._add(Module(name, self.shape, writes, parts, join))

    def branch(self) -> _Path:
        return _Path(self.shape)

    @property
    def ops(self) -> tuple[Op, ...]:
        return tuple(layer for layer in self.layers if isinstance(layer, Op))

    def _add(self, layer: Op | Module) -> _Path:
        self.layers.append(layer)
        self.shape = layer.writes
        return self


def _googlenet() -> _Path:
    x = _Path((3, 224, 224)).conv("conv1/7x7_s2", 64, 7, 2, 3)
    x.pool("pool1/3x3_s2", 3, 2, 1).lrn("pool1/norm1")
    x.conv("conv2/3x3_reduce", 64).conv("conv2/3x3", 192, 3, padding=1).lrn("conv2/norm2")
    x.pool("pool2/3x3_s2", 3, 2, 1)
    for name, (single, triple, quintuple, pooled) in MODULES.items():
        if name in POOL_BEFORE:
            x.pool(f"pool{int(name[0]) - 1}/3x3_s2", 3, 2, 1)
        at = f"inception_{name}"
        branches = [
            x.branch().conv(f"{at}/1x1", single),
            x.branch().conv(f"{at}/3x3_reduce", triple[0]).conv(f"{at}/3x3", triple[1], 3, padding=1),
            x.branch().conv(f"{at}/5x5_reduce", quintuple[0]).conv(f"{at}/5x5", quintuple[1], 5, padding=2),
            x.branch().pool(f"{at}/pool", 3, 1, 1).conv(f"{at}/pool_proj", pooled),
        ]  # fmt: skip
        x.module(f"{at}/output", branches)
    return x.pool("pool5/7x7_s1", 7, 1).fc("loss3/classifier")


def _resnet50() -> _Path:
    """Strides in the first convolution of a block, as the authors' Caffe model has them."""
    x = _Path((3, 224, 224)).conv("conv1", 64, 7, 2, 3).pool("pool1", 3, 2, 1)
    for stage, (channels, depth) in enumerate(zip(WIDTHS, (3, 4, 6, 3), strict=True), start=2):
        for block in range(depth):
            at = f"res{stage}{'abcdef'[block]}"
            stride = 2 if block == 0 and stage > 2 else 1
            long = x.branch().conv(f"{at}_branch2a", channels, 1, stride)
            long.conv(f"{at}_branch2b", channels, 3, padding=1).conv(f"{at}_branch2c", 4 * channels)
            short = x.branch()
            if block == 0:
                short.conv(f"{at}_branch1", 4 * channels, 1, stride)
            x.module(at, [short, long], "add")
    return x.pool("pool5", 7, 1).fc("fc1000")


def _squeezenet() -> _Path:
    x = _Path((3, 227, 227)).conv("conv1", 96, 7, 2).pool("pool1", 3, 2)
    for number, (squeezed, expanded) in enumerate(FIRES, start=2):
        at = f"fire{number}"
        x.conv(f"{at}/squeeze1x1", squeezed)
        branches = [
            x.branch().conv(f"{at}/expand1x1", expanded),
            x.branch().conv(f"{at}/expand3x3", expanded, 3, padding=1),
        ]
        x.module(f"{at}/concat", branches)
        if number in (4, 8):
            x.pool(f"pool{number}", 3, 2)
    return x.conv("conv10", CLASSES).pool("pool10", x.shape[1], 1)


def _mobilenet() -> _Path:
    x = _Path((3, 224, 224)).conv("conv1", 32, 3, 2, 1)
    names = [
        "2_1", "2_2", "3_1", "3_2", "4_1", "4_2", "5_1", "5_2", "5_3", "5_4", "5_5", "5_6", "6",
    ]  # fmt: skip
    for name, (channels, stride) in zip(names, V1_BLOCKS, strict=True):
        x.conv(f"conv{name}/dw", x.shape[0], 3, stride, 1, groups=x.shape[0])
        x.conv(f"conv{name}/sep", channels)
    return x.pool("pool6", 7, 1).fc("fc7")


C3D_CLASSES = 101
"""Of UCF101."""


def c3d(frames: int, rows: int, columns: int) -> tuple[Op, ...]:
    """C3D on a clip; its last pool is padded by 1, as its authors' Caffe model has it (Tran et al., ICCV 2015)."""
    x = _Path((3, frames, rows, columns))
    for number, (channels, depth) in enumerate(
        ((64, 1), (128, 1), (256, 2), (512, 2), (512, 2)), start=1
    ):
        for part in "ab"[:depth]:
            x.conv(f"conv{number}{part}", channels, 3, padding=1)
        x.pool(f"pool{number}", 2, 2, int(number == 5), frames=1 if number == 1 else 2)
    return x.fc("fc6", 4096).fc("fc7", 4096).fc("fc8", C3D_CLASSES).ops


NETWORKS: Mapping[str, Callable[[], _Path]] = MappingProxyType(
    {
        "GoogleNet": _googlenet,
        "ResNet50": _resnet50,
        "SqueezeNet-v0": _squeezenet,
        "MobileNet-v1": _mobilenet,
    }
)
"""The networks of images, as the paper spells them. SqueezeNet reads 227x227, as its authors' file does."""


@cache
def get_layers(network: str) -> Layers:
    """The layers on a network's main path, in order."""
    return tuple(NETWORKS[network]().layers)


def list_ops(layers: Layers) -> Iterator[tuple[Op, Module | None]]:
    """Every layer with weights or a window, and the module that contains it."""
    for layer in layers:
        if isinstance(layer, Op):
            yield layer, None
        else:
            yield from ((op, layer) for branch in layer.branches for op in branch)


def find_layer(network: str, name: str) -> Op | Module:
    """A layer of the main path or of a module by its name."""
    layers = get_layers(network)
    inner = (op for op, _ in list_ops(layers))
    return next(layer for layer in (*layers, *inner) if layer.name == name)
