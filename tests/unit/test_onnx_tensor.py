"""Weights as files keep them: raw, typed, external, sparse; and sizes that are only claimed."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from csdfgen.errors import ModelError
from csdfgen.reading.loader import load
from csdfgen.reading.onnx_file import Weight
from csdfgen.reading.onnx_tensor import DTYPES, decode, densify
from tests.models import model

VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)


def read(tensor: TensorProto, directory: Path | None = None) -> np.ndarray:
    return decode(Weight(tensor), directory)


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("code", sorted(DTYPES))
def test_every_element_type_in_every_form(code: int, raw: bool) -> None:
    values = np.array([[0, 1, 3], [100, 0, 1]]).astype(DTYPES[code])
    listed = values.tobytes() if raw else values.ravel()
    tensor = helper.make_tensor("w", code, values.shape, listed, raw)
    got = read(tensor)
    assert got.dtype == values.dtype
    np.testing.assert_array_equal(got, values)


def test_negative_numbers_survive() -> None:
    for code in (TensorProto.INT8, TensorProto.INT16, TensorProto.FLOAT16):
        np.testing.assert_array_equal(read(helper.make_tensor("w", code, (2,), [-3, -1])), [-3, -1])


def test_any_byte_but_zero_is_true() -> None:
    got = read(helper.make_tensor("w", TensorProto.BOOL, (3,), b"\x00\x02\xff", True))
    np.testing.assert_array_equal(got.view(np.uint8), [0, 1, 1])


def test_bfloat16_raw_and_one_by_one() -> None:
    bits = np.array([0x3F80, 0xC020, 0x7F80], np.uint16)
    for raw in (True, False):
        tensor = TensorProto(name="w", data_type=TensorProto.BFLOAT16, dims=[3])
        if raw:
            tensor.raw_data = bits.tobytes()
        else:
            tensor.int32_data.extend(bits.tolist())
        got = read(tensor)
        assert got.dtype.name == "bfloat16" and got.astype(float).tolist() == [1, -2.5, np.inf]


@pytest.mark.parametrize(
    ("code", "name"), [(TensorProto.INT4, "int4"), (TensorProto.UINT4, "uint4")]
)
def test_elements_of_four_bits_lie_two_in_a_byte(code: int, name: str, tmp_path: Path) -> None:
    """In all the ways of a file; a byte too many or too few is refused."""
    rng = np.random.default_rng(code)
    for shape in ((3, 5), (4,), (1,), (), (2, 0), (7, 3, 1)):
        values = rng.integers(-8 if name == "int4" else 0, 8 if name == "int4" else 16, shape)
        flat = np.append(values.reshape(-1) & 15, 0)
        data = (flat[:-1:2] | flat[1::2][: values.size - values.size // 2] << 4).astype(np.uint8)
        raw, typed = (TensorProto(name="w", data_type=code, dims=shape) for _ in range(2))
        raw.raw_data = data.tobytes()
        typed.int32_data.extend(data.tolist())
        outside = TensorProto(
            name="w", data_type=code, dims=shape, data_location=TensorProto.EXTERNAL
        )
        (tmp_path / "w.bin").write_bytes(data.tobytes() + b"more")
        outside.external_data.add(key="location", value="w.bin")
        for tensor in (raw, typed, outside):
            got = decode(Weight(tensor), tmp_path)
            assert got.dtype.name == name and got.shape == shape
            np.testing.assert_array_equal(got.astype(np.int64), values)
        raw.raw_data += b"0"
        with pytest.raises(
            ModelError,
            match=f"\\({name}\\) needs {len(data)} bytes, the file holds {len(data) + 1}",
        ):
            decode(Weight(raw), None)


def test_empty_and_scalar_tensors() -> None:
    assert read(helper.make_tensor("w", TensorProto.FLOAT, (2, 0), b"", True)).shape == (2, 0)
    assert read(helper.make_tensor("w", TensorProto.FLOAT, (), [5.0])) == 5


@pytest.mark.parametrize("code", [TensorProto.STRING, TensorProto.FLOAT8E4M3FN, 0, 99])
def test_other_element_types_are_refused_by_name(code: int) -> None:
    known = {v: k for k, v in TensorProto.DataType.items()}
    name = known.get(code, "number 99").lower() if code else "undefined"
    with pytest.raises(ModelError, match=f"tensor 'w': element type {name} is not supported"):
        read(TensorProto(name="w", data_type=code, dims=[1]))


@pytest.mark.parametrize(
    ("dims", "match"),
    [
        ((2, 4), "2x4 .* needs 32 bytes, the file holds 24"),
        ((2**50, 2**50), "needs 5070602400912917605986812821504 bytes, the file holds 24"),
        ((-2, -3), "dimension of -3 elements"),
        ((0, 3), "needs 0 bytes, the file holds 24"),
        ((1,) * 33, "has 33 dimensions, at most 32"),
        ((2,) * 100_000, "has 100000 dimensions"),
    ],
)
def test_dimensions_that_disagree_with_the_data(dims: tuple[int, ...], match: str) -> None:
    with pytest.raises(ModelError, match=f"tensor 'w': .*{match}"):
        read(TensorProto(name="w", data_type=1, dims=dims, raw_data=VALUES.tobytes()))


def test_typed_fields_of_the_wrong_length() -> None:
    with pytest.raises(ModelError, match="needs 1048576 elements, the file holds 2"):
        read(TensorProto(name="w", data_type=1, dims=[2**20], float_data=[1, 2]))


# External data --------------------------------------------------------------------------------------


def external(**entries: object) -> TensorProto:
    tensor = TensorProto(
        name="w", data_type=1, dims=VALUES.shape, data_location=TensorProto.EXTERNAL
    )
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def test_external_data_are_read_from_their_offset(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "w.bin").write_bytes(b"head" + VALUES.tobytes() + b"tail")
    np.testing.assert_array_equal(
        read(external(location="deep/w.bin", offset=4, length=24), tmp_path), VALUES
    )
    np.testing.assert_array_equal(read(external(location="deep/w.bin", offset=4), tmp_path), VALUES)


@pytest.mark.parametrize(
    ("entries", "match"),
    [
        (
            {"location": "w.bin", "offset": 8, "length": 24},
            "claims bytes 8 to 32 of 'w.bin', which has 24",
        ),
        ({"location": "w.bin", "offset": 2**50, "length": 24}, "claims bytes .* which has 24"),
        ({"location": "w.bin", "offset": 8}, "needs 24 bytes, the file holds 16"),
        ({"location": "w.bin", "length": 20}, "needs 24 bytes, the file holds 20"),
        ({"location": "w.bin", "offset": -4}, "offset '-4', a number of bytes is needed"),
        ({"location": "w.bin", "offset": "9" * 5000}, "a number of bytes is needed"),
        ({"location": "gone.bin"}, "'gone.bin', which is not a file beside the model"),
        ({"location": "pipe"}, "'pipe', which is not a file beside the model"),
        ({"location": "."}, "'.', which is not a file"),
        ({"location": ""}, "'', which is not inside"),
        ({}, "'', which is not inside"),
        ({"location": "../secret"}, "not inside the model's directory"),
        ({"location": "deep/../w.bin"}, "not inside the model's directory"),
        ({"location": "/etc/hostname"}, "not inside the model's directory"),
        ({"location": "link"}, "not inside the model's directory"),
        ({"location": "loop"}, "no usable file name|not a file"),
        ({"location": "a\0b"}, "no usable file name"),
        ({"location": "x" * 5000}, "no usable file name|not a file"),
    ],
)
def test_data_stay_in_the_folder(tmp_path: Path, entries: dict[str, object], match: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "secret").write_bytes(VALUES.tobytes())
    (home / "w.bin").write_bytes(VALUES.tobytes())
    (home / "link").symlink_to(tmp_path / "secret")
    (home / "loop").symlink_to(home / "loop")
    os.mkfifo(home / "pipe")
    with pytest.raises(ModelError, match=f"tensor 'w': .*({match})"):
        read(external(**entries), home)


def test_external_data_need_a_directory() -> None:
    with pytest.raises(ModelError, match="load the model by its path"):
        read(external(location="w.bin"))


def test_a_model_with_external_data_loads_by_its_path(tmp_path: Path) -> None:
    proto = model("g (float[2,3] x) => (y) { y = Add(x, w) }", {"w": VALUES})
    onnx.save(
        proto, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0
    )
    assert not (tmp_path / "m.onnx").read_bytes().count(VALUES.tobytes())
    np.testing.assert_array_equal(load(tmp_path / "m.onnx").layers[0].constants[1], VALUES)


# Sparse tensors -------------------------------------------------------------------------------------


@pytest.mark.parametrize("indices", [np.array([1, 5]), np.array([[0, 1], [1, 2]])])
def test_sparse_tensors_become_dense(indices: np.ndarray) -> None:
    values = numpy_helper.from_array(np.array([7, 9], np.float32), "w")
    sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(indices), (2, 3))
    np.testing.assert_array_equal(densify(sparse, None), [[0, 7, 0], [0, 0, 9]])
    proto = model("g (float[2,3] x) => (y) { y = Add(x, w) }")
    proto.graph.sparse_initializer.append(sparse)
    np.testing.assert_array_equal(load(proto).layers[0].constants[1], [[0, 7, 0], [0, 0, 9]])


@pytest.mark.parametrize(
    ("indices", "dims", "match"),
    [
        ([1, 6], (2, 3), "index outside its shape 2x3"),
        ([-1, 2], (2, 3), "index outside"),
        ([1], (2, 3), "2 values and indices of shape 1"),
        ([1, 2], (2**20, 2**20), "has 1099511627776 elements .* at most 268435456"),
        ([1, 2], (-1, 3), "dimension of -1"),
    ],
)
def test_wrong_sparse_tensors(indices: list[int], dims: tuple[int, ...], match: str) -> None:
    values = numpy_helper.from_array(np.array([7, 9], np.float32), "w")
    sparse = onnx.SparseTensorProto(
        values=values, indices=numpy_helper.from_array(np.array(indices)), dims=dims
    )
    with pytest.raises(ModelError, match=f"sparse tensor 'w': .*{match}"):
        densify(sparse, None)


# Files ----------------------------------------------------------------------------------------------


def test_weights_are_in_memory_once(tmp_path: Path) -> None:
    weight = np.zeros((4, 2**20), np.float32)
    onnx.save(
        model("g (float[1,1048576] x) => (y) { y = Add(x, w) }", {"w": weight}), tmp_path / "m.onnx"
    )
    tracemalloc.start()
    try:
        network = load(tmp_path / "m.onnx")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert network.parameter_bytes == weight.nbytes
    assert peak < 1.2 * weight.nbytes
