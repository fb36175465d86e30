"""Published network topologies with seeded random weights.

    entry, height, width = zoo_models.parse("resnet18@160x256")
    model = entry.build(height, width)          # an onnx.ModelProto

No trained weights are shipped or downloaded. Every entry names the source of the network and the
published number of parameters and multiply-accumulates, which the tests compare.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from types import MappingProxyType

from zoo_models._builder import SizeError, ZooError
from zoo_models._entry import Counts, Published, ZooEntry, count

__all__ = [
    "ALIASES",
    "ZOO",
    "Counts",
    "Published",
    "SizeError",
    "ZooEntry",
    "ZooError",
    "count",
    "parse",
]

_FAMILIES = (
    "alexnet experts branchy vgg resnet densenet googlenet inception squeezenet shufflenet mobilenet "
    "mobilenet_v3 efficientnet regnet yolo segmentation small tinyml video"
)
"""Modules, in the order in which their networks are listed."""

ZOO: Mapping[str, ZooEntry] = MappingProxyType(
    {
        name: entry
        for family in _FAMILIES.split()
        for name, entry in vars(import_module(f"zoo_models.{family}")).items()
        if isinstance(entry, ZooEntry)
    }
)
"""Name -> network: all that the modules of the families define."""

ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "bvlc_alexnet": "alexnet", "bvlc_googlenet": "googlenet", "bvlc_reference_caffenet": "caffenet",
        "efficientnet": "efficientnet_b0", "espcn": "super_resolution", "fcn": "fcn_resnet50", "lenet": "lenet5",
        "lraspp": "lraspp_mobilenet_v3", "mnasnet_b1": "mnasnet", "resnet18_v1": "resnet18",
        "resnet34_v1": "resnet34", "resnext50_32x4d": "resnext50", "shufflenet": "shufflenet_v1",
        "shufflenet_v2_x1_0": "shufflenet_v2", "squeezenet": "squeezenet1_1", "ssdlite": "ssdlite_mobilenet_v3",
        "tiny_yolo_v3": "yolov3_tiny", "zfnet": "zfnet512",
    }
)  # fmt: skip
"""Names in files and papers -> names of the zoo. Capitals, points and dashes are ignored in both."""

MAX_SIZE = 2**16
"""Largest number of rows or columns of an image, so that a typing error does not build for minutes."""

_SPELLING = re.compile(r"(?:zoo:)?(?P<name>[^@]*)(?:@(?P<height>[0-9]+)[x×X](?P<width>[0-9]+))?")


def parse(text: str) -> tuple[ZooEntry, int, int]:
    """The network, height and width of "zoo:NAME" or "zoo:NAME@HEIGHTxWIDTH"; "zoo:" may be missing.

    Raises ZooError for an unknown name (with the nearest ones), an invalid size, and a size that the
    network does not support (with the smallest that it does).

    >>> entry, height, width = parse("zoo:vgg16@64x96")
    >>> entry.name, height, width
    ('vgg16', 64, 96)
    """
    found = _SPELLING.fullmatch(text.strip())
    if found is None:
        raise ZooError(
            "this is not how a network of the zoo is written; NAME or NAME@HEIGHTxWIDTH is, such as vgg19@224x224"
        )
    entry = _entry(found["name"])
    if found["height"] is None:
        return entry, entry.height, entry.width
    if max(len(found["height"]), len(found["width"])) > len(str(MAX_SIZE)):
        raise ZooError(f"{entry.name}: an image has at most {MAX_SIZE} rows and columns")
    height, width = int(found["height"]), int(found["width"])
    _require(entry, height, width)
    return entry, height, width


def _entry(name: str) -> ZooEntry:
    plain = _plain(name)
    if plain in _BY_PLAIN_NAME:
        return ZOO[_BY_PLAIN_NAME[plain]]
    near = get_close_matches(plain, _BY_PLAIN_NAME, n=3, cutoff=0.5)
    names = dict.fromkeys(_BY_PLAIN_NAME[n] for n in near)
    verb = "are" if len(names) > 1 else "is"
    hint = (
        f"the nearest {verb} {', '.join(names)}"
        if names
        else f"it has {len(ZOO)}, from {min(ZOO)} to {max(ZOO)}"
    )
    raise ZooError(f"the zoo has no network of that name; {hint}")


def _plain(name: str) -> str:
    """Letters and digits of a name."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


_BY_PLAIN_NAME: Mapping[str, str] = MappingProxyType(
    {_plain(name): ALIASES.get(name, name) for name in (*ZOO, *ALIASES)}
)


def _require(entry: ZooEntry, height: int, width: int) -> None:
    """Raises ZooError for an image size that the network does not support."""
    if not 0 < min(height, width) <= max(height, width) <= MAX_SIZE:
        raise ZooError(
            f"{entry.name}: an image has 1 to {MAX_SIZE} rows and columns, not {height}x{width}"
        )
    obstacle = entry.obstacle(height, width)
    if obstacle is None:
        return
    rows, columns = entry.smallest()
    if height < rows or width < columns:
        raise ZooError(
            f"{entry.name} does not work at {height}x{width}; the smallest size is {rows}x{columns}"
        )
    raise ZooError(f"{entry.name} does not work at {height}x{width}: {obstacle}")
