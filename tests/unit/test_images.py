"""Files in and out: arrays, images, labels, and everything that is wrong with them, in one line."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import csdfgen
from csdfgen.errors import InputError
from csdfgen.model.network import Network
from runtime.images import (
    ImageOptions,
    check_output_path,
    parse_channel_values,
    random_inputs,
    read_inputs,
    read_labels,
    top_classes,
    write_outputs,
)
from tests.small_models import residual_classifier, two_inputs

SHAPE = (1, 3, 16, 12)


@pytest.fixture(scope="module")
def network() -> Network:
    return csdfgen.load(residual_classifier())


@pytest.fixture(scope="module")
def pair() -> Network:
    return csdfgen.load(two_inputs())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read(files: list[str], network: Network, **options: object) -> dict[str, np.ndarray]:
    return read_inputs(files, network, ImageOptions(**options))  # type: ignore[arg-type]


def photograph(width: int = 12, height: int = 16, mode: str = "RGB") -> Image.Image:
    channels = len(Image.new(mode, (1, 1)).getbands())
    pixels = np.random.default_rng(5).integers(0, 256, (height, width, channels), np.uint8)
    return Image.fromarray(pixels[..., 0] if channels == 1 else pixels, mode)


def test_random_inputs_follow_the_seed(network: Network) -> None:
    one, same, other = (random_inputs(network, seed)["x"] for seed in (1, 1, 2))
    assert np.array_equal(one, same) and not np.array_equal(one, other)
    assert one.dtype == np.float32 and one.shape == SHAPE and np.abs(one).max() <= 1


def test_array_files(network: Network, folder: Path) -> None:
    x = random_inputs(network, 3)["x"]
    np.save("x.npy", x)
    np.savez("x.npz", x=x, beside=np.zeros(3))
    np.savez_compressed("small.npz", x=x)
    np.save("fortran.npy", np.asfortranarray(x))
    np.save("double.npy", x.astype(np.float64))
    for name in ("x.npy", "x.npz", "small.npz", "x=x.npy", "fortran.npy", "double.npy"):
        found = read([name], network)["x"]
        assert found.dtype == np.float32 and np.array_equal(found, x), name


def test_the_only_array_of_a_file_is_that_of_the_only_input(
    network: Network, pair: Network, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    x = random_inputs(network, 3)["x"]
    np.savez("other.npz", data=x)
    assert np.array_equal(read(["other.npz"], network)["x"], x)
    assert "other.npz: its only array 'data' is taken for input 'x'" in caplog.text
    with pytest.raises(InputError, match="holds 'data', the network's inputs are 'left', 'right'"):
        read(["other.npz"], pair)


def test_several_inputs_by_name(pair: Network, folder: Path) -> None:
    values = random_inputs(pair, 4)
    np.savez("both.npz", **values)
    for name, array in values.items():
        np.save(f"{name}.npy", array)
    for files in (["both.npz"], ["left=left.npy", "right=right.npy"]):
        found = read(files, pair)
        assert found.keys() == values.keys() and all(
            np.array_equal(found[n], values[n]) for n in values
        )


def test_images_of_a_batch_are_joined(folder: Path) -> None:
    batch = csdfgen.load(residual_classifier(batch="N"), batch=2)
    first, second = photograph(), photograph().transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    first.save("a.png")
    second.save("b.png")
    found = read(["a.png", "b.png"], batch)["x"]
    assert found.shape == (2, *SHAPE[1:])
    assert np.array_equal(found[1], np.asarray(second, np.float32).transpose(2, 0, 1))
    with pytest.raises(InputError, match=r"given 1 time, the batch has 2"):
        read(["a.png"], batch)


def test_pixels_become_values(network: Network, folder: Path) -> None:
    photograph().save("photo.png")
    pixels = np.asarray(photograph(), np.float32)
    plain = read(["photo.png"], network)["x"]
    assert np.array_equal(plain, pixels.transpose(2, 0, 1)[None])
    mean, std = (1.0, 2.0, 3.0), (4.0, 5.0, 6.0)
    found = read(["photo.png"], network, mean=mean, std=std)["x"]
    assert np.allclose(found, ((pixels - mean) / std).transpose(2, 0, 1)[None])
    blue_first = read(["photo.png"], network, layout="nchw-bgr", mean=(1.0, 2.0, 3.0))["x"]
    assert np.allclose(blue_first, (pixels[..., ::-1] - mean).transpose(2, 0, 1)[None])


def test_an_image_is_not_resized_in_silence(network: Network, folder: Path) -> None:
    photograph(20, 10).save("wide.jpg")
    with pytest.raises(
        InputError, match=r"wide\.jpg: has 20x10 pixels, the network takes 12x16 pixels.*--resize"
    ):
        read(["wide.jpg"], network)
    assert read(["wide.jpg"], network, resize=True)["x"].shape == SHAPE


def test_grey_image_for_colour_network(network: Network, folder: Path) -> None:
    photograph(mode="L").save("grey.png")
    found = read(["grey.png"], network)["x"]
    assert np.array_equal(found[0, 0], found[0, 2])


def _bytes(data: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(data)


def _header(shape: tuple[int, ...], descr: str = "<f4") -> bytes:
    """A .npy header that promises more than follows."""
    data = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        data, {"descr": descr, "fortran_order": False, "shape": shape}
    )
    return data.getvalue()


def _zip_of(name: str, data: bytes) -> Callable[[Path], object]:
    def make(path: Path) -> None:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(name, data)

    return make


def _damaged_zip(path: Path) -> None:
    np.savez(path, x=np.ones(SHAPE, np.float32))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 255
    path.write_bytes(data)


def _cut_png(path: Path) -> None:
    photograph().save(path)
    path.write_bytes(path.read_bytes()[:-200])


BAD_FILES: list[tuple[str, Callable[[Path], object], str]] = [
    ("x.npy", lambda path: None, "does not exist"),
    ("x.npy", lambda path: path.mkdir(), "is not a file"),
    ("x.txt", _bytes(b"1 2 3"), "is none of .npy"),
    ("x.npy", _bytes(b""), "damaged or not a valid .npy"),
    ("x.npy", _bytes(b"hello, world, this is text"), "damaged or not a valid .npy"),
    ("x.npy", _bytes(_header(SHAPE) + bytes(100)), "damaged or not a valid .npy"),
    (
        "x.npy",
        lambda path: np.save(path, np.zeros((1, 3, 8, 8), np.float32)),
        r"\(1, 3, 8, 8\).*\(1, 3, 16, 12\)",
    ),
    ("x.npy", _bytes(_header((2**25, 2**25))), "33554432"),
    (
        "x.npy",
        lambda path: np.save(path, np.array([{}], object), allow_pickle=True),
        "has shape|holds object",
    ),
    ("x.npy", _bytes(_header(SHAPE, "|O")), "holds object"),
    ("x.npy", lambda path: np.save(path, np.zeros(SHAPE, np.complex64)), "holds complex64"),
    ("x.npz", _bytes(b"PK but no zip"), "cannot be read"),
    (
        "x.npz",
        lambda path: np.savez(path, y=np.zeros(3), z=np.zeros(3)),
        r"holds 'y', 'z', the network's inputs are 'x'",
    ),
    ("x.npz", _zip_of("x.npy", _header((2**50,))), "has shape"),
    ("x.npz", _damaged_zip, "cannot be read"),
    ("x.png", _bytes(b"no image at all"), "cannot"),
    ("x.png", _cut_png, "cannot be read|damaged"),
    ("x.jpg", _bytes(b""), "cannot"),
]


@pytest.mark.parametrize(("name", "make", "said"), BAD_FILES)
def test_bad_input_files(
    network: Network, folder: Path, name: str, make: Callable[[Path], object], said: str
) -> None:
    make(folder / name)
    with pytest.raises(InputError, match=said) as caught:
        read([name], network)
    assert str(caught.value).startswith(f"{name}: ") and "\n" not in str(caught.value)


def test_too_many_pixels(network: Network, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photograph(40, 40).save("bomb.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(InputError, match="claims too many pixels"):
        read(["bomb.png"], network, resize=True)


def test_arguments_that_fit_nothing(network: Network, pair: Network, folder: Path) -> None:
    photograph().save("photo.png")
    np.save("left.npy", np.zeros((1, 2, 6, 5), np.float32))
    cases: list[tuple[list[str], Network, dict[str, object], str]] = [
        (["z=photo.png"], network, {}, r"neither a file nor NAME=FILE.*'x'"),
        (["left.npy"], pair, {}, "one array for 2 inputs"),
        (["left=left.npy"], pair, {}, "no file for input 'right'"),
        (["photo.png"], network, {"layout": "hwc"}, "not one of nchw"),
        (["photo.png"], network, {"layout": "nhwc"}, "12 channels"),
        (["photo.png"], network, {"mean": (1.0, 2.0)}, "2 values, the image 3 channels"),
        (["photo.png", "photo.png"], network, {}, "given 2 times, the batch has 1"),
        (["left=photo.png", "right=left.npy"], pair, {}, "give --layout"),
    ]
    for files, net, options, said in cases:
        with pytest.raises(InputError, match=said):
            read(files, net, **options)


@pytest.mark.parametrize(
    ("option", "text"),
    [("--mean", "a"), ("--mean", ""), ("--std", "0"), ("--std", "1,nan"), ("--mean", "inf")],
)
def test_channel_values_that_are_none(option: str, text: str) -> None:
    with pytest.raises(InputError, match=option):
        parse_channel_values(option, text)


def test_outputs_are_written_whole(network: Network, pair: Network, folder: Path) -> None:
    outputs = {"file": np.arange(4, dtype=np.float32), "a/b": np.ones((2, 2), np.int64)}
    write_outputs(Path("y.npz"), outputs)
    first = Path("y.npz").read_bytes()
    with np.load("y.npz") as found:
        assert all(np.array_equal(found[name], outputs[name]) for name in outputs)
    write_outputs(Path("y.npz"), outputs)
    assert Path("y.npz").read_bytes() == first
    write_outputs(Path("y.npy"), {"only": outputs["a/b"]})
    assert np.array_equal(np.load("y.npy"), outputs["a/b"])
    assert sorted(p.name for p in folder.iterdir()) == ["y.npy", "y.npz"]


def test_outputs_are_refused_first(network: Network, pair: Network, folder: Path) -> None:
    (folder / "dir.npz").mkdir()
    for name, net, said in (
        ("y.txt", network, ".npy or .npz"),
        ("y.npy", pair, "2 outputs"),
        ("none/y.npz", network, "its directory does not exist"),
        ("dir.npz", network, "is a directory"),
    ):
        with pytest.raises(InputError, match=said):
            check_output_path(Path(name), net)
    check_output_path(Path("y.npy"), network)


def test_labels(folder: Path) -> None:
    Path("labels.txt").write_text("cat\ndog \nfür\n\n", encoding="utf-8")
    assert read_labels(Path("labels.txt")) == ("cat", "dog", "für")
    Path("labels.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not UTF-8"):
        read_labels(Path("labels.txt"))


def test_top_classes() -> None:
    scores = np.array([[0.0, 5, 3, 4, 1, 2]], np.float32)
    expected = np.array([[1, 3, 2, 5, 4]])
    for shape in ((1, 6), (1, 6, 1, 1)):
        found = top_classes(scores.reshape(shape))
        assert found is not None and np.array_equal(found, expected)
    for other in (
        scores[:, :4],
        scores.astype(np.int64),
        scores.reshape(1, 6, 1),
        np.zeros((1, 6, 2, 1), np.float32),
    ):
        assert top_classes(other) is None
