"""Streams from files to files: the rows of each format, interruptions, and what is refused."""

from __future__ import annotations

import io
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import onnx
import pytest
import tifffile
from PIL import Image

import csdfgen
import runtime
from csdfgen.errors import InputError
from csdfgen.model.formats import Format
from csdfgen.model.network import Tensor
from csdfgen.streaming.runs import run_stream
from csdfgen.streaming.sinks import Wanted, open_sink
from csdfgen.streaming.sources import ALL, PICTURES, SOURCES, Source, open_source
from runtime.images import ImageOptions
from runtime.stream import StreamProgram
from tests.command import Call, refused
from tests.models import model

RNG = np.random.default_rng(0)
WAVE = model(
    "wave (float[1,2,400] x) => (float[1,1,400] y) { a = Conv <pads=[8,0]> (x, w) y = Relu(a) }",
    {"w": RNG.standard_normal((1, 2, 9)).astype(np.float32)},
)
PICTURE = model(
    """picture (float[1,3,64,20] x) => (float[1,2,64,20] y)
    { a = Conv <pads=[1,1,1,1]> (x, w) y = Relu(a) }""",
    {"w": RNG.standard_normal((2, 3, 3, 3)).astype(np.float32)},
)
OPTIONS = ImageOptions(std=(255.0,))


@cache
def program(proto: str) -> StreamProgram:
    made = {"wave": WAVE, "picture": PICTURE}[proto]
    return runtime.compile(csdfgen.plan_stream(made, backend="numpy"))


def quiet(*_: object) -> None:
    """No bar."""


def written(folder: Path, name: str, rows: np.ndarray) -> Path:
    """A file of rows: (rows, channels) of sound, or pixels (rows, columns, channels)."""
    path = folder / name
    if path.suffix == ".npy":
        np.save(path, rows.T[None] if rows.ndim == 2 else rows.transpose(2, 0, 1)[None])
    elif path.suffix == ".raw":
        rows.tofile(path)
    elif path.suffix == ".wav":
        pytest.importorskip("soundfile").write(path, rows, 8_000, subtype="FLOAT")
    else:
        layout: dict[str, Any] = {"tile": (16, 16)} if "tiles" in name else {"rowsperstrip": 7}
        tifffile.imwrite(path, rows, photometric="rgb", compression="zlib", **layout)
    return path


def read_in_parts(source: Source, tensor: Tensor) -> np.ndarray:
    """All rows, some at a time, and the first ones once more."""
    parts, at = [], 0
    while (part := source.read(at, 13)).shape[tensor.row_axis or 0]:
        parts.append(part)
        at += part.shape[tensor.row_axis or 0]
    assert source.rows in (None, at)
    np.testing.assert_array_equal(
        source.read(5, 4), np.concatenate(parts, tensor.row_axis)[:, :, 5:9]
    )
    return np.concatenate(parts, tensor.row_axis)


@pytest.mark.parametrize("name", ["x.npy", "x.raw", "x.wav"])
def test_sounds(tmp_path: Path, name: str) -> None:
    (tensor,) = csdfgen.load(WAVE).inputs
    rows = RNG.uniform(-1, 1, (57, 2)).astype(np.float32)
    source = open_source(written(tmp_path, name, rows), tensor, ImageOptions())
    np.testing.assert_array_equal(read_in_parts(source, tensor), rows.T[None])


def write_zarr(path: Path, pixels: np.ndarray) -> None:
    array = pytest.importorskip("zarr").open_array(
        str(path), mode="w", shape=pixels.shape, dtype="uint8"
    )
    array[...] = pixels


def write_microscope(path: Path, pixels: np.ndarray) -> None:
    """OME's: planes of channels, in several sizes."""
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(str(path), mode="w")
    group.attrs["multiscales"] = [{"datasets": [{"path": "0"}, {"path": "1"}]}]
    write_zarr(path / "0", pixels.transpose(2, 0, 1)[None, :, None])


def write_raster(path: Path, pixels: np.ndarray) -> None:
    rasterio = pytest.importorskip("rasterio")
    size = {"height": pixels.shape[0], "width": pixels.shape[1], "count": 3}
    with rasterio.open(path, "w", driver="HFA", dtype="uint8", **size) as file:
        file.write(pixels.transpose(2, 0, 1))


def write_png(path: Path, pixels: np.ndarray) -> None:
    pytest.importorskip("pyvips")
    Image.fromarray(pixels).save(path)


PIXELS: dict[str, Callable[[Path, np.ndarray], object]] = {
    "tiles.tif": lambda path, pixels: written(path.parent, path.name, pixels),
    "strips.tiff": lambda path, pixels: written(path.parent, path.name, pixels),
    "plain.tif": lambda path, pixels: tifffile.imwrite(path, pixels, photometric="rgb"),
    "x.zarr": write_zarr,
    "microscope.zarr": write_microscope,
    "x.img": write_raster,
    "x.png": write_png,
}


@pytest.mark.parametrize("name", PIXELS)
def test_pictures(tmp_path: Path, name: str) -> None:
    """As `--input` has them; all columns, and some."""
    (tensor,) = csdfgen.load(PICTURE).inputs
    pixels = RNG.integers(0, 256, (57, 20, 3), dtype=np.uint8)
    PIXELS[name](tmp_path / name, pixels)
    source = open_source(tmp_path / name, tensor, OPTIONS)
    wanted = pixels.transpose(2, 0, 1)[None].astype(np.float32) / np.float32(255)
    np.testing.assert_array_equal(read_in_parts(source, tensor), wanted)
    np.testing.assert_array_equal(source.read(40, 30, slice(3, 18)), wanted[:, :, 40:, 3:18])


def test_frames_are_below_each_other(tmp_path: Path) -> None:
    """Also where an earlier one is asked for again."""
    av = pytest.importorskip("av")
    frames = np.repeat(np.arange(0, 250, 25, dtype=np.uint8), 16 * 20 * 3).reshape(10, 16, 20, 3)
    with av.open(str(tmp_path / "x.mkv"), "w") as file:
        stream = file.add_stream("ffv1", rate=5, width=20, height=16, pix_fmt="bgr0")
        for frame in frames:
            file.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        file.mux(stream.encode())
    (tensor,) = csdfgen.load(PICTURE).inputs
    source = open_source(tmp_path / "x.mkv", tensor, ImageOptions())
    wanted = frames.reshape(160, 20, 3).transpose(2, 0, 1)[None].astype(np.float32)
    np.testing.assert_array_equal(read_in_parts(source, tensor), wanted)


def test_pixels_stay_where_they_are_on_earth(tmp_path: Path) -> None:
    rasterio = pytest.importorskip("rasterio")
    place = rasterio.Affine(2.5, 0, 600_000, 0, -2.5, 5_000_000)
    given = {"driver": "GTiff", "width": 20, "height": 57, "count": 3, "dtype": "uint8"}
    with rasterio.open(
        tmp_path / "x.tif", "w", crs="EPSG:32633", transform=place, interleave="pixel", **given
    ) as file:
        file.write(RNG.integers(0, 256, (3, 57, 20), dtype=np.uint8))
    tensor = next(iter(program("picture").inputs.values()))
    source = open_source(tmp_path / "x.tif", tensor, OPTIONS)
    run_stream(program("picture"), source, tmp_path / "y.tif", progress=quiet)
    with rasterio.open(tmp_path / "y.tif") as file:
        assert file.crs.to_epsg() == 32633 and file.transform == place
    half = replace(tensor, shape=(1, 2, 64, 10))
    open_sink(tmp_path / "half.tif", Wanted(half, 19, 0, source)).close()
    with rasterio.open(tmp_path / "half.tif") as file:
        assert file.transform == place @ rasterio.Affine.scale(2, 3)


def test_pyramids_have_smaller_images(tmp_path: Path) -> None:
    pytest.importorskip("pyvips")
    tensor = Tensor("y", (1, 1, 64, 700), row_axis=2)
    rows = RNG.uniform(0, 1, (1, 1, 500, 700)).astype(np.float32)
    source = SimpleNamespace(rows=500, tensor=tensor, tags={}, rate=0)
    sink = open_sink(tmp_path / "y.ptif", Wanted(tensor, 500, 0, cast("Source", source)))
    sink.write(0, rows)
    sink.close()
    with tifffile.TiffFile(tmp_path / "y.ptif") as file:
        assert file.pages[0].is_tiled and file.pages[0].subifds
        np.testing.assert_array_equal(file.pages[0].asarray(), rows[0, 0])
    assert [one.name for one in tmp_path.iterdir()] == ["y.ptif"]


def test_a_pipe_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a stream that goes on has seen before is left out."""
    (tensor,) = csdfgen.load(WAVE).inputs
    rows = RNG.standard_normal((57, 2)).astype(np.float32)
    pipe = io.BytesIO(rows.tobytes())
    monkeypatch.setattr(pipe, "seekable", lambda: False)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=pipe))
    source = open_source(Path("-"), tensor, ImageOptions())
    parts = [source.read(20, 7), source.read(27, 40), source.read(57, 3)]
    np.testing.assert_array_equal(np.concatenate(parts, 2)[0].T, rows[20:])


class Interrupted:
    """A source during one of whose reads, the second, the user asks for the end."""

    rate = 16_000

    def __init__(self, source: Source, during: int = 2) -> None:
        self._source, self.rows, self._left = source, source.rows, during
        self.tensor, self.tags = source.tensor, source.tags

    def read(self, start: int, count: int, columns: slice = ALL) -> np.ndarray:
        self._left -= 1
        if not self._left:
            signal.raise_signal(signal.SIGINT)
        return self._source.read(start, 31, columns)


NEEDED = {"y.wav": "soundfile", "y.zarr": "zarr"}


@pytest.mark.parametrize("name", ["y.npy", "y.raw", "y.tif", "y.wav", "y.zarr"])
def test_an_interrupted_run_goes_on(tmp_path: Path, name: str) -> None:
    """And has written what a run in one piece writes."""
    if name in NEEDED:
        pytest.importorskip(NEEDED[name])
    frame, shape = (
        (program("picture"), (400, 20, 3))
        if name in ("y.tif", "y.zarr")
        else (program("wave"), (400, 2))
    )
    (tensor,) = frame.inputs.values()
    rows = RNG.uniform(-1, 1, shape).astype(np.float32)
    source = open_source(written(tmp_path, "x.npy", rows), tensor, ImageOptions())
    whole, parts = tmp_path / f"whole.{name}", tmp_path / name
    assert run_stream(frame, source, whole, progress=quiet).written == {"y": 400}
    with pytest.raises(KeyboardInterrupt, match=r"62 rows are done; .*resume"):
        run_stream(frame, Interrupted(source), parts, progress=quiet)
    assert (tmp_path / f"{name}.stream").exists()
    figures = run_stream(frame, source, parts, resume=True, progress=quiet)
    assert (figures.rows, figures.written) == (338, {"y": 400})
    assert [*map(read_content, files_of(parts))] == [*map(read_content, files_of(whole))]
    assert not (tmp_path / f"{name}.stream").exists()
    wanted = runtime.compile(frame.plan.at(400))(source.read(0, 400))["y"]
    if name == "y.npy":
        np.testing.assert_array_equal(np.load(parts), wanted)
    if name == "y.tif":
        np.testing.assert_array_equal(tifffile.imread(parts), wanted[0].transpose(1, 2, 0))


def read_content(path: Path) -> bytes:
    """What a file contains, but for the second at which the peak of a sound was written."""
    data = path.read_bytes()
    at = data.find(b"PEAK") + 12 if path.suffix == ".wav" else len(data)
    return data[:at] + data[at + 4 :]


def files_of(path: Path) -> list[Path]:
    return sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]


class Microphone:
    """A stand-in of sounddevice, which records `sound` and then asks for the end."""

    def __init__(self, sound: np.ndarray) -> None:
        self.sound, self.at = sound, 0

    def open(self, rate: int, *, device: str | None, channels: int, dtype: str) -> Any:
        assert (rate, device, channels, dtype) == (8_000, "USB Audio", 2, "float32")
        return self

    def start(self) -> None:
        self.at = 0

    def read(self, count: int) -> tuple[np.ndarray, bool]:
        found = self.sound[self.at : self.at + count]
        self.at += count
        if self.at >= len(self.sound):
            signal.raise_signal(signal.SIGINT)
        return found, self.at == count


def test_a_microphone_records_until_an_interruption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Which finishes the stream; that samples were lost is said."""
    sound = RNG.uniform(-1, 1, (64 * 12, 2)).astype(np.float32)
    library = SimpleNamespace(InputStream=Microphone(sound).open)
    monkeypatch.setitem(sys.modules, "sounddevice", cast(Any, library))
    frame = program("wave")
    (tensor,) = frame.inputs.values()
    source = open_source(Path("mic:USB Audio@8000"), tensor, ImageOptions())
    figures = run_stream(frame, source, tmp_path / "y.raw", progress=quiet)
    assert figures.rows == len(sound) and figures.written == {"y": len(sound)}
    wanted = runtime.compile(frame.plan.at(len(sound)))(sound.T[None])["y"]
    np.testing.assert_array_equal(np.fromfile(tmp_path / "y.raw", np.float32), wanted.ravel())
    assert "samples were lost" in caplog.text and not list(tmp_path.glob("*.stream"))
    with pytest.raises(InputError, match="mic:USB@x: 'x' is no number of samples a second"):
        open_source(Path("mic:USB@x"), tensor, ImageOptions())


@pytest.mark.parametrize("shape", [(600, 301, 3), (600, 301)])
def test_images_of_microscopes_have_smaller_ones(tmp_path: Path, shape: tuple[int, ...]) -> None:
    """Of means; of classes, every other pixel."""
    zarr = pytest.importorskip("zarr")
    pixels = RNG.integers(0, 256, shape, dtype=np.uint8)
    (channels,) = shape[2:] or (1,)
    tensor = Tensor("y", (1, channels, *shape[:2]), Format("uint8"), 2)
    rows = pixels.reshape(*shape[:2], -1).transpose(2, 0, 1)[None]
    source = cast(Source, SimpleNamespace(rows=600))
    for done in (0, 300):
        sink = open_sink(tmp_path / "y.ome.zarr", Wanted(tensor, 600, done, source))
        sink.write(done, rows[:, :, done : done + 300, :200], slice(0, 200))
        sink.write(done, rows[:, :, done : done + 300, 200:], slice(200, None))
        sink.flush()
    sink.close()
    group = zarr.open_group(str(tmp_path / "y.ome.zarr"), mode="r")
    facts = dict(group.attrs)
    (scale,) = facts.get("ome", facts)["multiscales"]
    assert "".join(one["name"] for one in scale["axes"]) == "cyx"[3 - len(shape) :]
    assert [one["path"] for one in scale["datasets"]] == ["0", "1", "2"]
    np.testing.assert_array_equal(group["0"], rows[0] if shape[2:] else rows[0, 0])
    even = pixels[:, :300].reshape(300, 2, 150, 2, -1)
    half = np.rint(even.mean((1, 3))) if shape[2:] else even[:, 0, :, 0]
    half = half.transpose(2, 0, 1)
    np.testing.assert_array_equal(group["1"], half if shape[2:] else half[0])
    assert group["2"].shape[-2:] == (150, 75)
    read = PICTURES[".zarr"](tmp_path / "y.ome.zarr")
    np.testing.assert_array_equal(
        read.read(10, 20, slice(5, 30)), pixels[10:20, 5:30].reshape(10, 25, -1)
    )


def test_the_command_runs_streams(call: Call, tmp_path: Path) -> None:
    onnx.save(WAVE, tmp_path / "wave.onnx")
    path = written(tmp_path, "x.raw", RNG.standard_normal((500, 2)).astype(np.float32))
    given = ["run", f"{tmp_path}/wave.onnx", "--stream", str(path), "--backend", "numpy"]
    result = call(*given, "-o", f"{tmp_path}/y.raw", "--json")
    assert result.code == 0 and result.json["rows"] == 500 and result.json["written"] == {"y": 500}
    assert (tmp_path / "y.raw").stat().st_size == 500 * 4
    for more, message in (
        ((), "needs --output"),
        (("-o", "y.png"), "rows are written as .npy, .raw"),
        (("-o", f"{tmp_path}/y.raw", "--check"), "leave --check out"),
        (("-o", f"{tmp_path}/y.raw", "--goal", "throughput"), "throughput"),
        (("-o", f"{tmp_path}/y.raw", "--batch", "2"), "leave --batch out"),
        (("-o", f"{tmp_path}/y.raw", "--map", "auto"), "leave --map out"),
        (("-o", f"{tmp_path}/y.raw", "--resume"), "no state of an interrupted run"),
    ):
        assert message in refused(call(*given, *more))
    (tmp_path / "cut.onnx").write_bytes((tmp_path / "wave.onnx").read_bytes()[:-9])
    cut = call("run", f"{tmp_path}/cut.onnx", *given[2:], "-o", f"{tmp_path}/y.raw")
    assert "cut.onnx: is cut short" in refused(cut)
    assert "--resume is of a --stream" in refused(call("run", f"{tmp_path}/wave.onnx", "--resume"))


@pytest.mark.parametrize("name", ["x.npy", "x.tif"])
def test_the_command_takes_free_sizes_from_the_file(call: Call, tmp_path: Path, name: str) -> None:
    free = "free (float[N,3,H,W] x) => (y) { y = Conv <pads=[1,1,1,1]> (x, w) }"
    kernel = {"w": RNG.standard_normal((2, 3, 3, 3)).astype(np.float32)}
    onnx.save(model(free, kernel), tmp_path / "free.onnx")
    pixels = RNG.integers(0, 255, (90, 31, 3), np.uint8)
    if name == "x.tif":
        tifffile.imwrite(tmp_path / name, pixels)
    else:
        np.save(tmp_path / name, pixels.transpose(2, 0, 1)[None].astype(np.float32))
    run = ("run", f"{tmp_path}/free.onnx", "--backend", "numpy", "-o", f"{tmp_path}/y.npy")
    assert call(*run, "--stream", f"{tmp_path}/{name}", "--json").json["written"] == {"y": 90}
    rows = np.load(tmp_path / "y.npy")
    Image.fromarray(pixels).save(tmp_path / "x.png")
    picture = tmp_path / name.replace("tif", "png")
    assert call(*run, "--input", str(picture), "--check", "--json").json["ok"]
    assert np.array_equal(np.load(tmp_path / "y.npy"), rows)
    assert "does not exist" in refused(call(*run, "--input", f"{tmp_path}/other.npy"))


def test_rows_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    """A file that ends before its rows do."""
    (tensor,) = program("picture").inputs.values()
    path = written(tmp_path, "strips.tif", RNG.integers(0, 256, (400, 20, 3), dtype=np.uint8))
    source = open_source(path, tensor, OPTIONS)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)
    with pytest.raises(InputError, match="cannot be read"):
        run_stream(program("picture"), source, tmp_path / "y.npy", progress=quiet)


def test_files_that_do_not_fit_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tensor,) = csdfgen.load(WAVE).inputs
    (picture,) = csdfgen.load(PICTURE).inputs
    odd = tmp_path / "odd.raw"
    odd.write_bytes(bytes(9))
    bad = {suffix: tmp_path / f"bad{suffix}" for suffix in (*SOURCES, *PICTURES)}
    for path in bad.values():
        path.write_bytes(b"nothing of the kind")
    pixels = np.zeros((9, 21, 3), np.uint8)
    cases = [
        (tmp_path / "x.xyz", tensor, "no stream that is known"),
        (tmp_path / "x.raw", tensor, "cannot be read"),
        (odd, tensor, "9 bytes, no whole number of rows of 8"),
        (bad[".npy"], tensor, "is no array"),
        (bad[".tif"], picture, "is no TIFF file"),
        (
            written(tmp_path, "x.npy", np.zeros((9, 3), np.float32)),
            tensor,
            r"\(1, 3, 9\).*\(1, 2, any\)",
        ),
        (written(tmp_path, "x.tif", pixels), picture, r"\(1, 3, 1, 21\).*\(1, 3, any, 20\)"),
    ]
    monkeypatch.setitem(sys.modules, "soundfile", None)
    cases.append((bad[".wav"], tensor, r"pip install 'csdfgen\[audio\]'"))
    for path, wanted, message in cases:
        with pytest.raises(InputError, match=message):
            open_source(path, wanted, OPTIONS)
