"""Layers in tiles of columns: equal outputs, proved columns, planted faults that are refused."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
import onnx
import pytest

import csdfgen
import runtime
from csdfgen.errors import InputError
from csdfgen.model.network import Layer, Network, Tensor
from csdfgen.planning.recompute import count_tiled_macs, multiply_accumulates
from csdfgen.rewriting.conditions import BrokenRewritingError
from csdfgen.rewriting.fuse import fuse
from csdfgen.rewriting.tile_conditions import check_tiles
from csdfgen.rewriting.tiles import (
    Region,
    Tiled,
    boundaries,
    format_regions,
    max_tiles,
    parse_regions,
    tile_network,
)
from runtime.verify import check_outputs
from tests.builder import Graph

SEEDS = range(24)


@dataclass
class Growing:
    """A random network under construction: 1 x channels x height x width."""

    rng: np.random.Generator
    graph: Graph
    x: str
    channels: int
    height: int
    width: int

    def pick(self, *choices: int) -> int:
        return int(self.rng.choice(choices))

    def windows(self, kernel: int, stride: int, dilation: int, pads: tuple[int, ...]) -> bool:
        """Follow the shape; False where the window does not fit."""
        extent = (kernel - 1) * dilation + 1
        sizes = [
            (size + pads[k] + pads[k + 2] - extent) // stride + 1
            for k, size in enumerate((self.height, self.width))
        ]
        if (
            min(sizes) < 1
            or min(self.height + pads[0] + pads[2], self.width + pads[1] + pads[3]) < extent
        ):
            return False
        self.height, self.width = sizes
        return True

    def conv(self) -> None:
        kernel, stride, dilation = self.pick(1, 2, 3, 5), self.pick(1, 1, 2, 3), self.pick(1, 1, 2)
        pads = tuple(int(p) for p in self.rng.integers(0, 3, 4))
        if not self.windows(kernel, stride, dilation, pads):
            return
        deep = bool(self.pick(0, 1))
        channels = self.channels if deep else self.pick(2, 3, 6)
        self.x = self.graph.conv(
            self.x,
            channels,
            kernel,
            group=self.channels if deep else 1,
            strides=[stride, stride],
            dilations=[dilation, dilation],
            pads=list(pads),
        )
        self.channels = channels

    def pool(self) -> None:
        kernel, stride = self.pick(2, 3), self.pick(1, 2)
        pads = tuple(int(p) for p in self.rng.integers(0, kernel, 4))
        if not self.windows(kernel, stride, 1, pads):
            return
        settings = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": list(pads)}
        if self.pick(0, 1):
            self.x = self.graph.node("MaxPool", self.x, **settings)
        else:
            self.x = self.graph.node(
                "AveragePool", self.x, **settings, count_include_pad=self.pick(0, 1)
            )

    def residual(self) -> None:
        y = self.graph.conv(self.x, self.channels, 3)
        self.x = self.graph.node("Add", y, self.x)

    def branches(self) -> None:
        parts = [self.graph.conv(self.x, 2, kernel) for kernel in (1, 5)]
        self.x = self.graph.node("Concat", *parts, axis=1, channels=4)
        self.channels = 4

    def activation(self) -> None:
        self.x = self.graph.node(("Relu", "Sigmoid", "HardSwish")[self.pick(0, 1, 2)], self.x)


def random_model(seed: int) -> onnx.ModelProto:
    rng = np.random.default_rng(seed)
    graph = Graph(seed=seed)
    height, width, channels = (
        int(rng.integers(9, 18)),
        int(rng.integers(9, 24)),
        int(rng.integers(1, 4)),
    )
    net = Growing(
        rng, graph, graph.input("x", (1, channels, height, width)), channels, height, width
    )
    for _ in range(int(rng.integers(3, 8))):
        (net.conv, net.conv, net.pool, net.residual, net.branches, net.activation)[
            int(rng.integers(6))
        ]()
    net.residual()
    if seed % 3 == 0:
        net.x = graph.node("GlobalAveragePool" if seed % 2 else "GlobalMaxPool", net.x)
    return graph.model(net.x)


def random_regions(network: Network, rng: np.random.Generator) -> tuple[Region, ...]:
    """Regions one behind the other between boundaries, some with layers as they are between them."""
    ends = list(boundaries(network))
    regions: list[Region] = []
    at = 0
    while at < len(ends) - 1:
        until = int(rng.integers(at + 1, len(ends)))
        first, last = ends[at], ends[until] - 1
        if rng.random() < 0.8:
            width = max_tiles(network.layers[first : last + 1])
            tiles = int(rng.integers(1, width + 1))
            regions.append(Region(first, last, tiles, bool(regions) and rng.random() < 0.6))
        at = until
    return tuple(regions)


@pytest.mark.parametrize("seed", SEEDS)
def test_outputs_are_those_of_onnxruntime(seed: int) -> None:
    """Random chains with branches, in random regions; the plan is checked byte by byte, and run."""
    model = random_model(seed)
    network = csdfgen.load(model)
    rng = np.random.default_rng(1000 + seed)
    fused = fuse(network)
    regions = random_regions(fused, rng)
    made = tile_network(fused, regions)
    assert multiply_accumulates(made.network) == count_tiled_macs(fused, regions)
    plan = csdfgen.plan(network, rows=int(rng.integers(1, 4)), tiles=format_regions(regions))
    x = {t.name: rng.uniform(-1, 1, t.shape).astype(t.dtype) for t in network.inputs}
    outputs = runtime.compile(plan)(x)
    assert all(found.ok for found in check_outputs(model, plan, x, outputs)), format_regions(
        regions
    )


@pytest.mark.parametrize("image", ["streamed", "resident"])
def test_a_streamed_image_is_read_again_by_every_tile(image: str) -> None:
    network = csdfgen.load(random_model(3))
    plan = csdfgen.plan(network, rows=1, image=image, tiles="0-1:3")
    whole = network.inputs[0].name
    assert any(buffer.name == whole for buffer in plan.buffers) == (image == "resident")
    fed = [work for work in plan.conversion.actors if work.taken is not None]
    assert len(fed) == (3 if image == "streamed" else 0)


def test_a_plan_in_tiles_is_read_back(tmp_path: object) -> None:
    network = csdfgen.load(random_model(1))
    plan = csdfgen.plan(network, rows=1, tiles="0-0:2")
    path = f"{tmp_path}/plan.json"
    csdfgen.save_plan(plan, path)
    again = csdfgen.read_plan(path, network)
    assert again.order == plan.order and again.options.tiles == "0-0:2"


def gated(kernel: int = 3) -> onnx.ModelProto:
    """Squeeze and excite in a residual block, behind a map."""
    graph = Graph()
    x = graph.conv(graph.input("x", (1, 2, 16, 12)), 8, kernel)
    y = graph.node("Sigmoid", graph.conv(graph.conv(x, 8, kernel), 8, kernel))
    gate = graph.node("Sigmoid", graph.conv(graph.node("GlobalAveragePool", y), 8, 1))
    y = graph.node("Add", graph.node("Mul", y, gate), x)
    return graph.model(graph.conv(y, 4))


@pytest.mark.parametrize("backend", ["native", "numpy"])
@pytest.mark.parametrize("fuse", ["none", "full"])
def test_what_is_averaged_is_computed_twice(fuse: str, backend: str) -> None:
    model = gated()
    network = csdfgen.load(model)
    values = np.random.default_rng(0).uniform(-1, 1, network.inputs[0].shape).astype(np.float32)
    x = {network.inputs[0].name: values}
    whole = csdfgen.plan(network, fuse=fuse, rows="1", backend=backend)
    last = len(whole.network.layers) - 2
    plan = csdfgen.plan(network, fuse=fuse, rows="1", backend=backend, tiles=f"1-{last}:0")
    assert all(one.ok for one in check_outputs(model, plan, x, runtime.compile(plan)(x)))
    a_map = 8 * 16 * 12 * 4
    assert plan.figures["peak_live"] < whole.figures["peak_live"] - a_map // 2
    twice = [one for one in plan.network.layers if one.name.endswith("/again")]
    assert [one.op_type for one in twice] == ["Conv"] * 2 + ["Sigmoid"] * (fuse == "none")


# Refusals ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0-2", "not regions such as"),
        ("0-1:3,1-2:3", "layers 2 to"),
        ("0-99:3", "layers 0 to"),
        ("0-0:999", "so 1 to"),
        ("0-0:0", "no map is summed up"),
    ],
)
def test_regions_that_do_not_fit_are_refused(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        csdfgen.plan(csdfgen.load(random_model(3)), tiles=text)
    assert "\n" not in str(caught.value)


def test_layers_that_mix_columns_are_one_tile() -> None:
    graph = Graph()
    x = graph.conv(graph.input("x", (1, 2, 8, 8)), 4)
    y = graph.node("Softmax", x, axis=3)
    network = csdfgen.load(graph.model(graph.conv(y, 2)))
    assert boundaries(network) == (0, 1, 2, 3)
    assert csdfgen.plan(network, fuse="none", tiles="0-0:2,1-1:1,2-2:4").conversion.network.original
    with pytest.raises(InputError, match="1 to 1 tiles"):
        csdfgen.plan(network, fuse="none", tiles="0-1:2")


# Planted faults ----------------------------------------------------------------------------------


def chain(pool: str = "") -> Network:
    graph = Graph()
    x = graph.conv(graph.input("x", (1, 2, 8, 12)), 4, 3)
    x = graph.node("AveragePool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    x = graph.conv(x, 4, 3, strides=[2, 2], pads=[1, 1, 1, 1])
    x = graph.node("Add", graph.conv(x, 4, 3), x)
    return csdfgen.load(graph.model(graph.node(pool, x) if pool else x))


def changed(made: Tiled, name: str, **changes: object) -> Network:
    layers = tuple(replace(la, **changes) if la.name == name else la for la in made.network.layers)
    return replace(made.network, layers=layers)


def with_pads(layer: Layer, left: int, right: int) -> MappingProxyType[str, object]:
    top, _, bottom, _ = layer.attributes["pads"]
    return MappingProxyType({**layer.attributes, "pads": (top, left, bottom, right)})


def refused(before: Network, after: Network, made: Tiled, said: str) -> None:
    with pytest.raises(BrokenRewritingError, match=said):
        check_tiles(before, after, made.tile_of)


def clones(made: Tiled, op_type: str) -> list[Layer]:
    return [la for la in made.network.layers if la.name in made.tile_of and la.op_type == op_type]


def test_every_wrong_padding_is_refused() -> None:
    before = chain()
    made = tile_network(before, (Region(0, 4, 3),))
    for clone in [*clones(made, "Conv"), *clones(made, "AveragePool")]:
        _, left, _, right = clone.attributes["pads"]
        for pads in ((left + 1, right), (left - 1, right)):
            wrong = changed(made, clone.name, attributes=with_pads(clone, *pads))
            refused(before, wrong, made, "|".join(("columns? ", "windows start", "reads")))
    pool = clones(made, "AveragePool")[-1]
    counted = MappingProxyType({**pool.attributes, "count_include_pad": True})
    refused(before, changed(made, pool.name, attributes=counted), made, "count_include_pad")


def short(tensor: Tensor) -> Tensor:
    return replace(tensor, shape=(*tensor.shape[:3], tensor.shape[3] - 1))


@pytest.mark.parametrize("from_left", [False, True])
def test_a_halo_that_is_a_column_short_is_refused(from_left: bool) -> None:
    """The slice and the layer behind it, both one column less, with a pad for it: shapes all fit."""
    before = chain()
    made = tile_network(before, (Region(0, 0, 3),))
    cut = next(
        la
        for la in made.network.layers
        if la.op_type == "Slice" and "x[" in la.name and la.attributes["starts"][3]
    )
    reader = made.network.readers[cut.output.name][0][0]
    start = cut.attributes["starts"][3]
    starts = (0, 0, 0, start + from_left)
    sliced = replace(
        cut,
        outputs=(short(cut.output),),
        attributes=MappingProxyType({**cut.attributes, "starts": starts}),
    )
    _, left, _, right = reader.attributes["pads"]
    padded = replace(
        reader,
        inputs=(sliced.output, *reader.inputs[1:]),
        attributes=with_pads(reader, left + from_left, right + (not from_left)),
    )
    swap = {cut.name: sliced, reader.name: padded}
    layers = tuple(swap.get(la.name, la) for la in made.network.layers)
    refused(before, replace(made.network, layers=layers), made, "which it does not have")


def test_a_mean_is_that_of_its_map() -> None:
    """A pool that reads something else than the map that it read, and one that does something else."""
    before = fuse(csdfgen.load(gated(kernel=1)))
    made = tile_network(before, [Region(1, len(before.layers) - 2, 0)])
    (pool,) = (la for la in made.network.layers if la.op_type == "GlobalAveragePool")
    other = next(la.output for la in made.network.layers if la.name.endswith("/again"))
    refused(before, changed(made, pool.name, inputs=(other,)), made, "is wanted")
    kernel = MappingProxyType({**pool.attributes, "kernel_shape": (3, 3)})
    refused(before, changed(made, pool.name, attributes=kernel), made, "kernel_shape")


def test_joins_are_followed() -> None:
    before = chain()
    made = tile_network(before, (Region(0, 4, 3),))
    join = made.network.layers[-1]
    assert join.op_type == "Concat"
    for inputs in (join.inputs[::-1], (join.inputs[0], join.inputs[0], join.inputs[2])):
        refused(before, changed(made, join.name, inputs=inputs), made, "no neighbours")


def test_weights_are_the_layer_s_own() -> None:
    before = chain()
    made = tile_network(before, (Region(0, 4, 3),))
    clone = clones(made, "Conv")[0]
    other = MappingProxyType({k: array * 2 for k, array in clone.constants.items()})
    refused(before, changed(made, clone.name, constants=other), made, "other constants")


def test_parts_of_a_pool_are_weighted_and_added_once() -> None:
    before = chain("GlobalAveragePool")
    made = tile_network(before, (Region(0, 5, 4),))
    weights = next(la for la in made.network.layers if la.op_type == "Mul")
    wrong = MappingProxyType({k: array + 0.1 for k, array in weights.constants.items()})
    refused(before, changed(made, weights.name, constants=wrong), made, "is wanted")
    added = [
        la for la in made.network.layers if la.op_type == "Add" and la.name not in made.tile_of
    ]
    twice = (added[1].inputs[0], added[0].inputs[1])
    refused(before, changed(made, added[1].name, inputs=twice), made, "no neighbours")


def test_a_clone_is_that_of_its_layer() -> None:
    before = chain()
    made = tile_network(before, (Region(0, 4, 3),))
    renamed = {**made.tile_of}
    first, *_, last = clones(made, "Conv")
    renamed[last.name] = renamed[first.name]
    with pytest.raises(BrokenRewritingError):
        check_tiles(before, made.network, renamed)


def test_regions_as_text() -> None:
    for text in ("", "0-3:2", "0-3:2&4-5:7,8-9:1,10-12:0"):
        assert format_regions(parse_regions(text)) == text
