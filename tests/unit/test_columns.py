"""Strips of columns: what they keep is what the whole image gives, in files too, and what cannot be cut is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import tifffile

import csdfgen
import runtime
from csdfgen.errors import CsdfgenError
from csdfgen.reading.loader import read_heights
from csdfgen.streaming.columns import Cut, cut_columns
from csdfgen.streaming.runs import run_stream
from csdfgen.streaming.sources import open_source
from runtime.images import ImageOptions
from tests.builder import Graph
from tests.command import Call, refused
from tests.models import model
from tests.unit.test_stream_files import Interrupted, quiet

ROWS = 24


class Drawn:
    """A random network: windows, pools and pads that are not alike on both sides, strides, resizes, skips."""

    def __init__(self, seed: int) -> None:
        self.rng, self.graph, self.scale = np.random.default_rng(seed), Graph(seed, opset=19), 1
        self.x = self.graph.input("x", (1, 2, ROWS, 64))
        steps = [self.convolve, self.pool, self.pad, self.join, self.shuffle, self.skip, self.fold]
        for step in self.rng.choice(np.array(steps, object), 4):
            step()
        self.outputs = [self.x]

    def pick(self, *values: int) -> int:
        return int(self.rng.choice(values))

    def convolve(self, stride: int = 1) -> None:
        wide, dilation, left = self.pick(1, 3, 5), self.pick(1, 2), self.pick(0, 1)
        pad = (wide - 1) * dilation + 1 - stride
        first = max(0, min(pad, pad // 2 + left))
        weights = self.rng.standard_normal((3, self.graph.channels[self.x], 3, wide)) / 4
        self.x = self.graph.node(
            "Conv",
            self.x,
            self.graph.constant(weights.astype(np.float32)),
            channels=3,
            kernel_shape=[3, wide],
            dilations=[1, dilation],
            strides=[stride, stride],
            pads=[1, first, 1 - (stride - 1), max(0, pad - first)],
        )

    def pool(self) -> None:
        kind = str(self.rng.choice(["MaxPool", "AveragePool"]))
        pads = [1, 0, 1, 2] if self.pick(0, 1) else [1, 2, 1, 0]
        self.x = self.graph.node(kind, self.x, kernel_shape=[3, 3], strides=[1, 1], pads=pads)

    def pad(self) -> None:
        mode = str(self.rng.choice(["constant", "edge", "reflect"]))
        left, right = self.pick(0, 1, 3), self.pick(0, 2)
        pads = self.graph.constant(np.array([0, 0, 0, left, 0, 0, 0, right], np.int64))
        self.x = self.graph.node("Pad", self.x, pads, mode=mode)
        size = left + right + 1
        weights = self.rng.standard_normal((2, self.graph.channels[self.x], 1, size)) / 2
        self.x = self.graph.node(
            "Conv", self.x, self.graph.constant(weights.astype(np.float32)), channels=2
        )

    def join(self) -> None:
        before = self.x
        self.convolve()
        channels = self.graph.channels[before] + self.graph.channels[self.x]
        self.x = self.graph.node("Concat", before, self.x, axis=1, channels=channels)

    def shuffle(self) -> None:
        self.x = self.graph.node("SpaceToDepth", self.x, blocksize=2)
        self.graph.channels[self.x] *= 4
        self.x = self.graph.node("Softmax", self.x, axis=1)
        self.x = self.graph.conv(self.x, 8)
        self.x = self.graph.node("DepthToSpace", self.x, blocksize=2, channels=2)

    def fold(self) -> None:
        """A column less on the left, and one more."""
        starts, ends, axes = (self.graph.constant(np.array([k])) for k in (1, 1 << 30, 3))
        self.x = self.graph.node("Slice", self.x, starts, ends, axes)
        pads = self.graph.constant(np.array([0, 0, 0, 0, 0, 0, 0, 1], np.int64))
        self.x = self.graph.node("Pad", self.x, pads)

    def skip(self) -> None:
        before = self.x
        self.convolve(stride=2)
        kind = self.pick(0, 1, 2)
        if kind == 2:
            weights = self.rng.standard_normal((3, 3, 4, 4)).astype(np.float32) / 4
            self.x = self.graph.node(
                "ConvTranspose",
                self.x,
                self.graph.constant(weights),
                strides=[2, 2],
                pads=[1, 1, 1, 1],
            )
        else:
            scales = self.graph.constant(np.array([1, 1, 2, 2], np.float32))
            mode = ("nearest", "linear")[kind]
            self.x = self.graph.node("Resize", self.x, "", scales, mode=mode)
        channels = self.graph.channels[before] + 3
        self.x = self.graph.node("Concat", before, self.x, axis=1, channels=channels)


def compute(made: onnx.ModelProto, x: np.ndarray) -> list[np.ndarray]:
    return list(onnxruntime.InferenceSession(made.SerializeToString()).run(None, {"x": x}))


def widen(made: onnx.ModelProto) -> onnx.ModelProto:
    """The model for any number of columns."""
    made.graph.input[0].type.tensor_type.shape.dim[3].dim_param = "w"
    for one in made.graph.output:
        one.type.tensor_type.ClearField("shape")
    del made.graph.value_info[:]
    return made


def cut(made: onnx.ModelProto, width: int, most: int) -> Cut:
    network = csdfgen.load(made, shapes=(1, 2, ROWS, 64))
    return cut_columns(read_heights(made, network, across=1), width, most)


@pytest.mark.parametrize("seed", range(40))
def test_what_strips_keep_is_that_of_the_whole(seed: int) -> None:
    drawn = Drawn(seed)
    made = widen(drawn.graph.model(*drawn.outputs))
    width = 400 + 16 * (seed % 5)
    found = cut(made, width, 130 + seed % 40)
    assert len(found.strips) > 2
    (name,) = (one.name for one in found.whole.outputs)
    x = np.random.default_rng(seed).standard_normal((1, 2, ROWS, width)).astype(np.float32)
    (whole,) = compute(made, x)
    joined, at = [], 0
    for read, kept in found.strips:
        (result,) = compute(made, x[..., read])
        mine, place = kept[name]
        assert place.start == at and 0 <= mine.start < mine.stop <= result.shape[3]
        joined.append(result[..., mine])
        at = place.stop
    np.testing.assert_allclose(np.concatenate(joined, 3), whole, atol=1e-5, rtol=1e-5)


PICTURE = model(
    """picture (float[1,3,64,w] x) => (float[1,2,h,v] y, float[1,3,a,b] z)
    { a = Conv <pads=[1,2,1,2], strides=[2,2]> (x, k) b = Relu (a)
      c = ConvTranspose <strides=[2,2], pads=[1,1,1,1]> (b, u) y = Add (c, s)
      z = Resize <mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"> (x, , r) }""",
    {
        "k": np.random.default_rng(0).standard_normal((8, 3, 3, 5)).astype(np.float32),
        "u": np.random.default_rng(1).standard_normal((8, 2, 4, 4)).astype(np.float32),
        "s": np.ones((2, 1, 1), np.float32),
        "r": np.array([1, 1, 2, 2], np.float32),
    },
)


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    pixels = np.random.default_rng(2).integers(0, 256, (210, 500, 3), dtype=np.uint8)
    path = tmp_path / "x.tif"
    tifffile.imwrite(path, pixels, photometric="rgb", compression="zlib", tile=(16, 32))
    return path


@pytest.mark.parametrize("suffix", ["npy", "raw", "tif"])
def test_files_are_those_of_the_whole(tmp_path: Path, picture: Path, suffix: str) -> None:
    """In one piece, and interrupted; in native code, whose sums do not depend on where a strip starts."""
    onnx.save(PICTURE, tmp_path / "net.onnx")
    network = csdfgen.load(tmp_path / "net.onnx", shapes=(1, 3, 64, 64))
    source = open_source(picture, network.inputs[0], ImageOptions(std=(255.0,)), wide=True)
    at_width = read_heights(network.source, network, across=1)
    found = cut_columns(at_width, 500, 200)
    assert source.tensor.shape[3] == 500 and len(found.strips) == 3
    whole = runtime.compile(csdfgen.plan_stream(found.whole, backend="auto"))
    strip = runtime.compile(csdfgen.plan_stream(found.network, backend="auto"))
    wanted, parts = tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}"
    run_stream(whole, source, wanted, progress=quiet)
    with pytest.raises(KeyboardInterrupt, match="62 rows of strip 1 of 3 are done"):
        run_stream(strip, Interrupted(source), parts, cut=found, progress=quiet)
    other = cut_columns(at_width, 500, 300)
    with pytest.raises(CsdfgenError, match="other strips"):
        run_stream(strip, source, parts, cut=other, resume=True, progress=quiet)
    run_stream(strip, source, parts, cut=found, resume=True, progress=quiet)
    for name in "yz":
        files = [path.with_name(f"{path.stem}.{name}.{suffix}") for path in (wanted, parts)]
        assert files[0].read_bytes() == files[1].read_bytes()


def test_the_command_cuts_columns(call: Call, tmp_path: Path, picture: Path) -> None:
    onnx.save(PICTURE, tmp_path / "net.onnx")
    shape = ["--shape", "1x3x64x500"]
    given = ["run", f"{tmp_path}/net.onnx", "--stream", str(picture), "-o", f"{tmp_path}/y.npy"]
    result = call(*given, "--shape", "1x3x64x64", "--columns", "200", "--json")
    assert result.code == 0 and result.json["strips"] == 3
    assert np.load(tmp_path / "y.z.npy").shape == (1, 3, 420, 1000)
    for more, message in (
        ((*shape, "--memory", "1KiB"), "try --columns N"),
        ((*shape, "--columns", "300", "--memory", "1KiB"), "try fewer --columns 300"),
        (("--shape", "1x3x64x64", "--columns", "4"), "overlap by"),
    ):
        assert message in refused(call(*given, *more))
    assert "--columns is of a --stream" in refused(call(*given[:2], *shape, "--columns", "9"))


OBSTACLES = {
    "y = GlobalAveragePool (x)": "needs all columns at once",
    "y = Add (x, c)": "do not broadcast",
    "y = Softmax <axis=3> (x)": "needs all columns at once",
    "s = Constant <value_ints=[0,-1,1,64]> () y = Reshape (x, s)": "Reshape does not compute columns as",
    """s = Constant <value_floats=[1.0,1.0,2.0,2.0]> ()
    y = Resize <mode="linear", coordinate_transformation_mode="align_corners"> (x, , s)""": "depends on its number",
    """a = Constant <value_ints=[0]> () b = Constant <value_ints=[50]> () d = Constant <value_ints=[3]> ()
    y = Slice (x, a, b, d)""": "has columns in no proportion",
}


@pytest.mark.parametrize("nodes", OBSTACLES)
def test_what_has_no_strips_is_refused(nodes: str) -> None:
    """By the name of the layer."""
    weights = {"c": np.arange(64, dtype=np.float32)} if "c)" in nodes else {}
    made = model(f"net (float[1,2,24,w] x) => (float[n,d,h,v] y) {{ {nodes} }}", weights)
    with pytest.raises(CsdfgenError, match=OBSTACLES[nodes]):
        cut(made, 400, 200)
