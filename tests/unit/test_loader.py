"""From an ONNX model to a Network: shapes, constants, names, functions, batches, and what is
refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import csdfgen
import runtime
from csdfgen.errors import ModelError, UnsupportedOperatorError, name_options_as_flags
from csdfgen.reading.loader import load
from tests.models import model, onnxruntime_outputs
from tests.simple_executor import execute

RNG = np.random.default_rng(5)
KERNEL = RNG.normal(size=(4, 3, 3, 3)).astype(np.float32)


def image(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def agrees_with_onnxruntime(
    proto: onnx.ModelProto, feeds: Mapping[str, np.ndarray], **options: Any
) -> csdfgen.model.network.Network:
    """Load, run and compare; returns the network."""
    network = load(proto, **options)
    want = onnxruntime_outputs(proto, feeds)
    for height in (1, 10**9):
        got = execute(network, feeds, height)
        assert got.keys() == want.keys()
        for name, array in want.items():
            assert got[name].dtype == array.dtype
            np.testing.assert_allclose(got[name], array, rtol=1e-4, atol=1e-5)
    return network


def refused(proto: onnx.ModelProto, match: str, **options: Any) -> ModelError:
    """Loading raises a ModelError of one line that says `match`."""
    with pytest.raises(ModelError, match=match) as caught:
        load(proto, **options)
    assert len(str(caught.value).splitlines()) == 1
    return caught.value


# Inputs and their shapes
# ----------------------------------------------------------------------------


def test_a_free_batch_is_one_and_shape_overrides_what_is_declared() -> None:
    free = model("g (float[N,3,8,9] x) => (float[N,3,8,9] y) { y = Relu(x) }")
    assert load(free).inputs[0].shape == (1, 3, 8, 9)
    assert load(free, shapes={"x": (1, 3, 5, 4)}).outputs[0].tensor.shape == (1, 3, 5, 4)
    assert load(free, batch=3).batch == 3


def test_a_free_row_or_column_needs_a_shape() -> None:
    free = model("g (float[N,3,H,W] x) => (float[N,4,P,Q] y) { y = Conv(x, w) }", {"w": KERNEL})
    error = refused(free, r"input 'x'.*shapes=\{'x': \(1, 3, 224, 224\)\}$")
    assert "?x3x?x?" in str(error)
    assert load(free, shapes={"x": [2, 3, 4, 5]}).batch == 2


TRANSPOSED = "t = Transpose <perm = [0,3,1,2]> (x)  y = Conv(t, w)"


@pytest.mark.parametrize(
    ("declared", "nodes", "example"),
    [
        ("float[N,H,W,3]", TRANSPOSED, "1x224x224x3"),
        ("float[N,H,W,C]", TRANSPOSED, "1x224x224x3"),
        ("float[N,96,W,C]", TRANSPOSED, "1x96x224x3"),
        ("float[N,C,H,W]", "y = ConvTranspose(x, w)", "1x4x224x224"),
        ("float[N,C,H,W]", "y = Conv <group = 2> (x, w)", "1x6x224x224"),
        ("float[N,C,H,W]", "y = MaxPool <kernel_shape = [2,2]> (x)", "1xNx224x224"),
        ("float[N,H,W,3]", "y = Relu(x)", "1xNxNx3"),
        ("float[2,B,128]", "y = Relu(x)", "2xNx128"),
        ("float[B,T]", "y = Relu(x)", "1xN"),
        ("float[B,1,T]", "y = Conv(x, line)", "1x1xN"),
    ],
)
def test_an_example_keeps_what_is_declared(declared: str, nodes: str, example: str) -> None:
    proto = model(
        f"g ({declared} x) => (y) {{ {nodes} }}",
        {"w": KERNEL, "line": np.ones((2, 1, 3), np.float32)},
    )
    with name_options_as_flags():
        refused(proto, f"input 'x': has dynamic dimensions .*--shape x={example}$")


def test_all_inputs_with_free_sizes_are_named_at_once_with_the_options_that_fix_them() -> None:
    """Symptom: one was named, and behind the option that fixed it the next."""
    proto = model(
        "g (float[N,3,H,W] x, float[1,T] z, float[1,4] k) => (y) { y = Conv(x, w)  u = Add(z, k) }",
        {"w": KERNEL},
    )
    for fixed, named in [
        ({}, r"x=\?x3x\?x\?, z=1x\?\).* --shape x=1x3x224x224 --shape z=1xN$"),
        ({"z": (1, 4)}, r"input 'x': .* --shape x=1x3x224x224$"),
    ]:
        with name_options_as_flags():
            refused(proto, named, shapes=fixed)
    refused(proto, r"shapes=\{'x': \(1, 3, 224, 224\), 'z': '1xN'\}$")


@pytest.mark.parametrize(
    ("declared", "nodes", "example", "found"),
    [
        ("float[N,3,H,W]", "y = Conv(x, w)", (2, 3, 9, 8), (2, 3, 9, 8)),
        ("float[N,3,H,W]", "y = Conv(x, w)", (9, 8), (1, 3, 9, 8)),
        ("float[N,3,H,8]", "y = Conv(x, w)", (4, 3, 9, 7), (4, 3, 9, 8)),
        (
            "float[N,H,W,3]",
            "t = Transpose <perm=[0,3,1,2]> (x) y = Conv(t, w)",
            (9, 8),
            (1, 9, 8, 3),
        ),
        ("float", "y = Relu(x)", (2, 3, 4), (2, 3, 4)),
        ("float[N,T]", "y = Relu(x)", (2, 5), (2, 5)),
    ],
)
def test_an_example_sets_free_sizes(
    declared: str, nodes: str, example: tuple[int, ...], found: tuple[int, ...]
) -> None:
    proto = model(f"g ({declared} x) => (y) {{ {nodes} }}", {"w": KERNEL})
    if declared == "float":
        proto.graph.input[0].type.tensor_type.ClearField("shape")
    array = np.zeros(example)
    for given in (array, {"x": array}):
        network = load(proto, given)
        assert network.whole_shape(network.inputs[0]) == found
    assert load(proto, array, shapes={"x": (1, *found[1:])}).batch == 1


def test_an_example_without_elements_sets_nothing() -> None:
    proto = model("g (float[N,3,H,W] x) => (y) { y = Relu(x) }")
    with pytest.raises(ModelError, match="dynamic dimensions"):
        load(proto, np.zeros((1, 3, 0, 4)))


def test_streams_have_any_number_of_rows() -> None:
    proto = model("g (float[N,3,H,8] x) => (y) { y = Conv(x, w) }", {"w": KERNEL})
    fixed = csdfgen.plan_stream(proto, shapes={"x": (1, 3, 64, 8)}, backend="numpy")
    assert csdfgen.plan_stream(proto, backend="numpy").facts() == fixed.facts()


def test_an_example_of_which_only_the_user_knows_all_sizes_is_text_in_python() -> None:
    proto = model("g (float[N,H,W,3] x) => (y) { y = Relu(x) }")
    refused(proto, r"set them with shapes=\{'x': '1xNxNx3'\}$")


@pytest.mark.parametrize(
    ("nodes", "example"), [("y = Conv(x, w)", "1x3x224x224"), ("y = Relu(x)", r"NxNx\.\.\.")]
)
def test_an_input_without_a_shape_needs_one(nodes: str, example: str) -> None:
    proto = model(f"g (float[1,3] x) => (y) {{ {nodes} }}", {"w": KERNEL})
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    with name_options_as_flags():
        refused(proto, f"--shape x={example}$")
    assert load(proto, shapes={"x": (2, 3, 5, 5)}).inputs[0].shape == (1, 3, 5, 5)


@pytest.mark.parametrize(
    ("shapes", "match"),
    [
        ({"z": (1, 3)}, r"'z' is not an input; the inputs are x=1x3x8x8"),
        ({"x": (1, 3, 8)}, r"has 4 dimensions \(1x3x8x8\), shapes gives 3 \(1x3x8\)"),
        ({"x": (1, 3, 0, 8)}, "at least 1"),
        ({"x": (1, 3, 2**20, 2**20)}, r"has 3298534883328 elements .*at most 1099511627776"),
        ({"x": (1, 3, 8, 2**31)}, r"has 8 rows of 6442450944 elements .*at most 2147483648"),
        ({"x": (1, 3, 2**32, 8)}, r"has 4294967296 rows of 24 elements .*at most 2147483648"),
    ],
)
def test_shapes_that_do_not_fit(shapes: dict[str, tuple[int, ...]], match: str) -> None:
    refused(
        model("g (float[1,3,8,8] x) => (float[1,3,8,8] y) { y = Relu(x) }"), match, shapes=shapes
    )


def test_a_tensor_that_no_memory_holds_is_loaded_planned_and_run_by_its_rows() -> None:
    """2.2 * 10^9 elements between input and output, of which a few rows are there at a time."""
    weights = np.linspace(-1, 1, 520, dtype=np.float32).reshape(520, 1, 1, 1)
    proto = model(
        "g (float[1,1,64,65536] x) => (y) { c = Conv(x, w)  y = GlobalMaxPool(c) }", {"w": weights}
    )
    network = load(proto)
    assert network.tensors["c"].elements > 2**31
    plan = csdfgen.plan(network, rows=1)
    assert plan.planned_bytes < network.tensors["c"].nbytes / 20
    x = np.zeros((1, 1, 64, 65536), np.float32)
    x[0, 0, 63, 65535], x[0, 0, 0, 0] = 3.0, -2.0
    got = runtime.run(plan, x)["y"].reshape(-1)
    want = np.maximum(3 * weights, -2 * weights).reshape(-1)
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_a_batch_below_one_is_refused() -> None:
    refused(model("g (float[1,3] x) => (float[1,3] y) { y = Relu(x) }"), "batch of 0", batch=0)


def test_the_rows_of_an_input_are_those_of_the_first_spatial_operator() -> None:
    weights = {"w": KERNEL, "w1": image(4, 3, 3)}
    nchw = model("g (float[1,3,8,9] x) => (float[1,4,6,7] y) { y = Conv(x, w) }", weights)
    nhwc = model(
        "g (float[1,8,9,3] x) => (y) { r = Relu(x)  t = Transpose <perm = [0,3,1,2]> (r)  y = Conv(t, w) }",
        weights,
    )
    chw = model(
        "g (float[3,8,9] x) => (y) { axes = Constant <value_ints = [0]> ()  t = Unsqueeze(x, axes)  y = Conv(t, w) }",
        weights,
    )
    line = model("g (float[1,3,9] x) => (y) { y = Conv(x, w1) }", weights)
    flat = model("g (float[1,3,9] x) => (y) { y = Relu(x) }", weights)
    behind = model(
        """g (float[1,9,3] x) => (y) { axis = Constant <value_int = 1> ()  s = CumSum(x, axis)  r = Round(s)
        n = Softmax(r)  t = Transpose <perm = [0,2,1]> (n)  y = Conv(t, w1) }""",
        weights,
    )
    for proto, axis in ((nchw, 2), (nhwc, 1), (chw, 1), (line, 2), (flat, None), (behind, 1)):
        network = agrees_with_onnxruntime(
            proto,
            {"x": image(*(d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim))},
        )
        assert network.inputs[0].row_axis == axis


def test_an_input_of_another_kind_is_refused() -> None:
    refused(model("g (float8e5m2[1,3] x) => (y) { y = Relu(x) }"), "float8e5m2 is not supported")
    refused(model("g (seq(float[1,3]) x) => (y) { y = Relu(x) }"), "input 'x': is not a tensor")


# Constants ------------------------------------------------------------------------------------------


def test_shape_chains_are_folded() -> None:
    proto = model(
        """g (float[1,4,6,5] x) => (y) {
            s = Shape(x)
            zero = Constant <value_int = 0> ()
            two = Constant <value = int64[1] {2}> ()
            minus = Constant <value_ints = [-1]> ()
            n = Gather(s, zero)
            axes = Constant <value_ints = [0]> ()
            row = Unsqueeze(n, axes)
            target = Concat <axis = 0> (row, two, minus)
            y = Reshape(x, target)
        }"""
    )
    network = agrees_with_onnxruntime(proto, {"x": image(1, 4, 6, 5)})
    assert [layer.op_type for layer in network.layers] == ["Reshape"]


@pytest.mark.parametrize("height", [None, 3])
def test_an_if_whose_condition_follows_from_shapes_is_opened(height: int | None) -> None:
    proto = model(
        """g (float[1,2,H,3] x) => (y) {
            size = Size(x)
            limit = Constant <value_int = 10> ()
            small = Less(size, limit)
            y = If(small) <
                then_branch = a () => (t) { k = Constant <value_float = 2.0> ()  t = Mul(x, k) },
                else_branch = b () => (e) { r = Relu(x)  e = Neg(r) }
            >
        }"""
    )
    shape = (1, 2, height or 1, 3)
    network = agrees_with_onnxruntime(proto, {"x": image(*shape)}, shapes={"x": shape})
    assert [layer.op_type for layer in network.layers] == (["Relu", "Neg"] if height else ["Mul"])
    assert network.outputs[0].name == "y"


def test_constants_of_every_kind() -> None:
    proto = model(
        """g (float[2] x) => (a, b, c, d, e) {
            f = Constant <value_float = 1.5> ()
            fs = Constant <value_floats = [1.5, 2.5]> ()
            i = Constant <value_int = 3> ()
            is = Constant <value_ints = [3, 4]> ()
            t = Constant <value = float[2] {5, 6}> ()
            a = Add(x, f)  b = Add(x, fs)  c = Identity(i)  d = Identity(is)  e = Add(x, t)
        }"""
    )
    network = agrees_with_onnxruntime(proto, {"x": image(2)})
    assert [o.tensor is None for o in network.outputs] == [False, False, True, True, False]
    refused(model('g () => (y) { y = Constant <value_string = "a"> () }'), "value_float")


def test_integer_division_goes_towards_zero() -> None:
    weights = {"a": np.array([7, -7, 7, -7]), "b": np.array([2, 2, -2, -2])}
    network = load(model("g (float[1] x) => (y) { y = Div(a, b) }", weights))
    np.testing.assert_array_equal(network.outputs[0].constant, [3, -3, -3, 3])


def test_constants_may_pass_through_our_own_operators() -> None:
    proto = model(
        "g (float[1,4,6,6] x) => (y) { c = Conv(k, w)  p = MaxPool <kernel_shape = [1,1]> (c)  y = Add(x, p) }"
    )
    proto.graph.initializer.extend(
        [helper.make_tensor("k", 1, (1, 3, 8, 8), image(1, 3, 8, 8).ravel())]
    )
    proto.graph.initializer.extend([helper.make_tensor("w", 1, KERNEL.shape, KERNEL.ravel())])
    network = agrees_with_onnxruntime(proto, {"x": image(1, 4, 6, 6)})
    assert [layer.op_type for layer in network.layers] == ["Add"]


@pytest.mark.parametrize(
    "nodes",
    [
        "y = ConstantOfShape(many)",
        "y = Expand(one, many)",
        "y = Tile(one, many)",
        "y = Range(zero, million, tiny)",
        "y = OneHot(zeros, million, pair)",
        "y = Gather(row, zeros)",
        "y = Pad(one, pads)",
    ],
)
def test_constants_that_would_be_enormous_are_refused_before_they_are_made(nodes: str) -> None:
    weights = {
        "many": np.array([2**20, 2**20]),
        "one": np.ones((1, 1), np.float32),
        "zero": np.array(0.0),
        "million": np.array(1e6),
        "tiny": np.array(1e-6),
        "zeros": np.zeros(2**19, np.int64),
        "pair": np.array([0.0, 1.0]),
        "row": np.ones((1, 2**12), np.float32),
        "pads": np.array([0, 0, 2**20, 2**20]),
    }
    used = {k: v for k, v in weights.items() if k in nodes}
    refused(model(f"g (float[1] x) => (y) {{ {nodes} }}", used), r"elements.*at most \d+")


def test_weights_listed_as_inputs_are_constants() -> None:
    proto = model("g (float[1,3,8,8] x, float[4,3,3,3] w) => (y) { y = Conv(x, w) }", {"w": KERNEL})
    network = load(proto)
    assert [t.name for t in network.inputs] == ["x"]
    assert network.parameter_bytes == KERNEL.nbytes


def test_a_weight_that_layers_share_is_one_array() -> None:
    network = load(
        model("g (float[1,3,8] x) => (y) { a = Add(x, w)  y = Mul(a, w) }", {"w": image(1, 3, 8)})
    )
    first, second = (layer.constants[1] for layer in network.layers)
    assert first is second


# Graphs ---------------------------------------------------------------------------------------------


def test_nodes_may_come_in_any_order_and_dead_ones_go() -> None:
    proto = model(
        "g (float[1,3] x) => (y) { a = Relu(x)  b = Neg(a)  y = Abs(b)  dead = NonMaxSuppression(a, b) }"
    )
    nodes = list(proto.graph.node)[::-1]
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    network = load(proto)
    assert [layer.op_type for layer in network.layers] == ["Relu", "Neg", "Abs"]


def test_an_output_that_is_listed_twice_is_one() -> None:
    network = load(model("g (float[1,3] x) => (y, y) { y = Relu(x) }"))
    assert [output.name for output in network.outputs] == ["y"]


@pytest.mark.parametrize(
    ("nodes", "match"),
    [
        ("a = Add(x, b)  b = Relu(a)  y = Neg(b)", "layer '(Add_0|Relu_1)'.*cycle"),
        ("y = Add(x, gone)", r"layer 'Add_0' \(Add\): reads 'gone', which nothing makes"),
        ("z = Relu(x)", "output 'y' is made by no node"),
        ("y = Relu(x)  y = Neg(x)", "tensor 'y' is made twice"),
        ("x = Relu(x)  y = Neg(x)", "tensor 'x' is made twice"),
        ("y = Relu <slope = 1.0> (x)", "unknown attribute 'slope'"),
        ("y = LeakyRelu <alpha = 1> (x)", "attribute 'alpha' is of kind INT, it must be FLOAT"),
        ("y = Concat(x, x)", "attribute 'axis' is missing"),
        ("y = Relu(x, x)", "has 2 inputs, the operator takes 1 to 1"),
        ("y = Add(x)", "has 1 inputs, the operator takes 2 to 2"),
        (
            "k = Constant <value_int = 2> ()  y = Add(x, k)",
            "input 0 is float32 and input 1 is int64",
        ),
        (
            "k = Constant <value_int = 2> ()  y = Conv(x, k)",
            "input 1 is int64, the operator takes float16, float32, float64",
        ),
        ("s = Constant <value_ints = [7]> ()  y = Reshape(x, s)", "7"),
        ("y = MaxPool <kernel_shape = [0, 1]> (x)", "kernel_shape"),
        (
            "r = Constant <value_ints = [1,1,1048576,65536]> ()  y = Tile(x, r)",
            "elements .*at most 1099511627776",
        ),
    ],
)
def test_graphs_that_contradict_themselves(nodes: str, match: str) -> None:
    refused(model(f"g (float[1,3,8,8] x) => (y) {{ {nodes} }}"), match)


@pytest.mark.parametrize(
    ("nodes", "match"),
    [
        (
            "y = Tile(table, index)",
            r"layer 'Tile_1' \(Tile\): input 1 is the network input 'index', it must be a "
            "constant; give its values with fix, or store them in the model as an initializer$",
        ),
        (
            "twice = Add(index, index)  y = Tile(table, twice)",
            r"input 1 is computed at run time \('twice', from network input 'index'\), it must be a "
            "constant; export the model with a constant there, or cut it in front of this layer$",
        ),
    ],
)
def test_an_operand_must_be_a_constant_and_has_a_way_out(nodes: str, match: str) -> None:
    """Neither another shape nor folding makes a constant of what comes from a network input."""
    proto = model(f"g (int64[4] index, float[5,8] x) => (y) {{ table = Relu(x)  {nodes} }}")
    error = refused(proto, match)
    assert "shape" not in str(error) and "fold" not in str(error)


def test_all_unsupported_operators_are_named_at_once() -> None:
    proto = model(
        """g (float[1,3,H,8] x) => (y, z) {
            [first] a = Unique(x)
            b = Unique(x)
            c = Unique(x)
            d = Unique(x)
            [q] e = com.microsoft.QLinearReduceMean(x, s)
            [theirs] f = com.example.Fancy(x)
            s = Constant <value_float = 1.0> ()
            g1 = Shape(b)
            [loop] y = SequenceMap(g1) <body = l (int64 i) => (int64 o) { o = Identity(i) }>
            h = Concat <axis = 0> (a, b, c, d)
            k = Concat <axis = 0> (h, f, e)
            z = Bernoulli (k)
        }""",
        imports=', "com.example": 1',
    )
    with pytest.raises(UnsupportedOperatorError) as caught:
        load(proto)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert "Unique (first, Unique_1, Unique_2, +1)" in message
    for part in (
        "com.microsoft::QLinearReduceMean (q)",
        "com.example::Fancy (theirs)",
        "SequenceMap (loop)",
        "Bernoulli (",
        "leave the layers of other quantized operators in float",
        "loops whose turns depend on data",
    ):
        assert part in message
    assert "Constant" not in message and "Shape" not in message and "Concat" not in message


UNKNOWN_BEFORE = {
    "free sizes": ("float[1,3,H,8] x", "y = Bernoulli(x)"),
    "free sizes behind it": ("float[1,3,H,8] x", "a = Bernoulli(x)  y = Conv(a, x)"),
    "no shape of that rank": ("float[1,3] x", "y = Unique(x)"),
    "an input of strings": ("string[N] x", "y = TfIdfVectorizer(x)"),
    "a sequence": ("seq(float[N]) x", "a = ConcatFromSequence <axis = 0> (x)  y = Bernoulli(a)"),
    "a constant that cannot be folded": (
        "float[1,3,H,8] x",
        'k = Constant <value_string = "a"> ()  a = Bernoulli(x)  y = Add(a, k)',
    ),
    "a name that nothing makes": ("float[1,3,4,8] x", "a = Bernoulli(x)  y = Add(a, gone)"),
    "a weight of a kind that is not read": (
        "float[1,3,4,8] x",
        "k = Constant <value = float8e4m3fn[1] {1}> ()  y = Bernoulli(x, k)",
    ),
    "a weight that is not read, in its place": ("float[1,3,4,8] x", "y = Bernoulli(x, w)"),
}


@pytest.mark.parametrize("case", UNKNOWN_BEFORE)
def test_unsupported_operators_are_told_before_anything_else(case: str) -> None:
    """Whatever else is wrong would be mended in vain."""
    info, nodes = UNKNOWN_BEFORE[case]
    shapes = {"x": (1, 2, 3)} if case == "no shape of that rank" else None
    proto = model(f"g ({info}) => (y) {{ {nodes} }}")
    weight = proto.graph.initializer.add(name="w", data_type=onnx.TensorProto.FLOAT8E5M2)
    weight.raw_data = b""
    with pytest.raises(
        UnsupportedOperatorError, match="'csdfgen operators' lists the supported ones"
    ):
        load(proto, shapes=shapes)


def test_a_model_of_other_operator_sets_alone_is_refused_for_its_operators() -> None:
    proto = model(
        "g (float[N,4] x) => (y) { y = ai.onnx.ml.SVMRegressor(x) }", imports=', "ai.onnx.ml": 3'
    )
    del proto.opset_import[0]
    error = refused(proto, "operators that are not supported: ai.onnx.ml::SVMRegressor")
    assert isinstance(error, UnsupportedOperatorError)


def test_functions_are_opened() -> None:
    functions = """
        <domain: "mine", opset_import: ["": 17]>
        Scaled <factor> (a) => (b) { f = Constant <value_float: float = @factor> ()  b = Mul(a, f) }
        <domain: "mine", opset_import: ["": 17, "mine": 1]>
        Twice (a) => (b, a2) { m = mine.Scaled <factor = 2.0> (a)  b = mine.Scaled <factor = 3.0> (m)  a2 = Identity(m) }
    """
    proto = model(
        "g (float[1,3] x) => (y, z) { y, z = mine.Twice(x) }",
        imports=', "mine": 1',
        functions=functions,
    )
    network = agrees_with_onnxruntime(proto, {"x": image(1, 3)})
    assert [layer.op_type for layer in network.layers] == ["Mul", "Mul", "Identity"]


def test_a_call_replaces_what_a_function_declares() -> None:
    functions = """
        <domain: "mine", opset_import: ["": 17]>
        Scaled <factor: float = 5.0> (a) => (b) { f = Constant <value_float: float = @factor> ()  b = Mul(a, f) }
    """
    proto = model(
        "g (float[1,3] x) => (y, z) { y = mine.Scaled(x)  z = mine.Scaled <factor = 2.0> (x) }",
        imports=', "mine": 1',
        functions=functions,
    )
    agrees_with_onnxruntime(proto, {"x": image(1, 3)})


def test_a_function_that_calls_itself_is_refused() -> None:
    functions = '<domain: "mine", opset_import: ["mine": 1]> Again (a) => (b) { b = mine.Again(a) }'
    proto = model(
        "g (float[1,3] x) => (y) { y = mine.Again(x) }", imports=', "mine": 1', functions=functions
    )
    refused(proto, "calls itself")


def test_functions_that_multiply_without_end_are_refused() -> None:
    levels = [
        f'<domain: "mine", opset_import: ["mine": 1]> F{k} (a) => (b) {{ m = mine.F{k + 1}(a)  b = mine.F{k + 1}(m) }}'
        for k in range(40)
    ]
    last = '<domain: "mine", opset_import: ["": 17]> F40 (a) => (b) { b = Relu(a) }'
    proto = model(
        "g (float[1] x) => (y) { y = mine.F0(x) }",
        imports=', "mine": 1',
        functions=" ".join([*levels, last]),
    )
    refused(proto, "its graph: 1,099,511,627,776 operations .* at most 200,000")


# Names and outputs ----------------------------------------------------------------------------------


def test_layers_have_unique_names_and_outputs_their_onnx_names() -> None:
    network = load(
        model("g (float[1,3] x) => (y) { a = Relu(x)  [same] b = Neg(a)  [same] y = Abs(b) }")
    )
    assert [layer.name for layer in network.layers] == ["Relu_0", "same", "same_2"]
    assert [layer.onnx_nodes for layer in network.layers] == [("Relu_0",), ("same",), ("same_2",)]
    assert [o.name for o in network.outputs] == ["y"] and network.outputs[0].tensor.name == "y"


def test_names_that_are_no_text_do_not_break_anything() -> None:
    proto = model("g (float[1,3] x) => (y) { y = Relu(x) }")
    raw = proto.SerializeToString().replace(b"Relu", b"R\xfflu")
    error = refused(onnx.ModelProto.FromString(raw), "not supported")
    assert r"R\xfflu" in str(error)
    proto.graph.node[0].name = "a\nb\x1b[31m" + "long" * 100
    name = load(proto).layers[0].name
    assert name.isprintable() and len(name) <= 80


def test_an_output_may_be_an_input_or_a_constant() -> None:
    proto = model(
        "g (float[1,3] x) => (float[1,3] x, float[2] w, float[1,3] y) { y = Relu(x) }",
        {"w": image(2)},
    )
    network = agrees_with_onnxruntime(proto, {"x": image(1, 3)})
    assert network.outputs[1].tensor is None
    assert len({t.name for layer in network.layers for t in layer.outputs}) == 2


def test_parts_that_nobody_reads_are_not_made() -> None:
    proto = model(
        "g (float[1,6,4,4] x) => (y) { a, y, b = Split <axis = 1> (x, parts) }",
        {"parts": np.array([1, 2, 3])},
    )
    network = agrees_with_onnxruntime(proto, {"x": image(1, 6, 4, 4)})
    assert [t.name for t in network.layers[0].outputs] == ["y"]


# Batches --------------------------------------------------------------------------------------------


def test_images_of_a_batch_run_one_after_another() -> None:
    proto = model(
        "g (float[3,3,8,8] x) => (y) { c = Conv(x, w)  y = GlobalAveragePool(c) }", {"w": KERNEL}
    )
    network = agrees_with_onnxruntime(proto, {"x": image(3, 3, 8, 8)})
    assert network.batch == 3 and network.inputs[0].shape == (1, 3, 8, 8)


@pytest.mark.parametrize(
    "nodes",
    [
        "y = Softmax <axis = 0> (x)",
        "y = ReduceMean <axes = [0]> (x)",
        "y = Concat <axis = 0> (x, x)",
        "y = Transpose <perm = [1,0,2,3]> (x)",
        "y = Slice(x, one, three, zero)",
        "y = Slice(x, minus, least, zero, minus)",
        "y = Pad(x, pads)",
        "y = Add(x, per_image)",
        "s = Shape(x)  n = Gather(s, first)  f = Cast <to = 1> (n)  y = Div(x, f)",
        "y = Gather <axis = 0> (x, turned)",
        "y = CumSum(x, first)",
        "i = Cast <to = 7> (x)  j = Abs(i)  k = Min(j, two)  y = GatherElements <axis = 1> ( table, k)",
    ],
)
def test_layers_that_look_across_images_keep_them_together(nodes: str) -> None:
    weights = {
        "one": np.array([1]),
        "two": np.array(2),
        "three": np.array([3]),
        "zero": np.array([0]),
        "minus": np.array([-1]),
        "least": np.array([-9]),
        "pads": np.array([1, 0, 0, 0, -1, 0, 0, 0]),
        "per_image": image(3, 1, 1, 1),
        "table": image(3, 3, 4, 5),
        "first": np.array(0),
        "turned": np.array([2, 0, 1]),
    }
    used = {k: v for k, v in weights.items() if f" {k}," in nodes or f" {k})" in nodes}
    proto = model(f"g (float[3,3,4,5] x) => (y) {{ {nodes} }}", used)
    assert agrees_with_onnxruntime(proto, {"x": image(3, 3, 4, 5)}).batch == 1


@pytest.mark.parametrize(
    "nodes",
    [
        "s = Shape(x)  e = Expand(offset, s)  y = Add(x, e)",
        "s = Shape(x)  e = Expand(offset, s)  y = Concat <axis = 1> (e, x)",
    ],
)
def test_a_constant_repeated_for_every_image_does_not_mix_them(nodes: str) -> None:
    proto = model(f"g (float[3,3,4,5] x) => (y) {{ {nodes} }}", {"offset": image(1, 3, 1, 1)})
    assert agrees_with_onnxruntime(proto, {"x": image(3, 3, 4, 5)}).batch == 3


def test_what_is_found_in_a_constant_has_the_size_that_is_found() -> None:
    kept = model(
        "g (float[1,3,4,5] x) => (y) { n = NonZero(flags)  k = Squeeze(n)  y = Gather <axis = 2> (x, k) }",
        {"flags": np.array([1, 0, 1, 0], np.float32)},
    )
    network = agrees_with_onnxruntime(kept, {"x": image(1, 3, 4, 5)})
    assert network.outputs[0].tensor is not None
    assert network.outputs[0].tensor.shape == (1, 3, 2, 5)


@pytest.mark.parametrize("axis", [1, 2])
def test_a_known_condition_keeps_the_order(axis: int) -> None:
    flags = np.array([True, True, False, True])[: 3 + (axis == 2)]
    kept = model(
        f"g (float[1,3,4,5] x) => (y) {{ y = Compress <axis = {axis}> (x, flags) }}",
        {"flags": flags},
    )
    agrees_with_onnxruntime(kept, {"x": image(1, 3, 4, 5)})


def test_a_model_that_does_not_fit_says_so_without_its_batch() -> None:
    refused(
        model("g (float[3,4,2,2] x) => (y) { y = Add(x, w) }", {"w": image(5)}), r"g: layer 'Add_0'"
    )


@pytest.mark.parametrize(("target", "batch"), [((3, 16), 3), ((6, 8), 1), ((4, 12), 1)])
def test_a_model_for_one_batch_alone_is_split_where_its_images_stay_apart(
    target: tuple[int, ...], batch: int
) -> None:
    proto = model(
        "g (float[3,4,2,2] x) => (y) { y = Reshape(x, target) }", {"target": np.array(target)}
    )
    assert agrees_with_onnxruntime(proto, {"x": image(3, 4, 2, 2)}).batch == batch


def test_inputs_of_different_batches_are_not_split() -> None:
    proto = model("g (float[3,4] x, float[1,4] z) => (y) { y = Add(x, z) }")
    assert agrees_with_onnxruntime(proto, {"x": image(3, 4), "z": image(1, 4)}).batch == 1


# Where models come from
# -----------------------------------------------------------------------------


def test_the_package_loads_models_by_one_name() -> None:
    assert csdfgen.load.__wrapped__ is load  # type: ignore[attr-defined]


def test_a_model_in_memory_is_named_after_its_graph() -> None:
    network = load(model("tiny (float[1,3] x) => (y) { y = Relu(x) }"))
    assert (network.name, network.source) == ("tiny", "tiny")


def test_a_name_that_the_zoo_does_not_have() -> None:
    with pytest.raises(
        ModelError, match="zoo:nothing-like-it: the zoo has no network of that name"
    ):
        load("zoo:nothing-like-it")


def test_a_model_may_be_bytes() -> None:
    proto = model("g (float[1,4] x) => (y) { y = Relu(x) }")
    assert [layer.op_type for layer in csdfgen.load(proto.SerializeToString()).layers] == ["Relu"]
    for wrong in (b"", b"model.onnx", proto.SerializeToString()[:-3]):
        with pytest.raises(ModelError):
            csdfgen.load(wrong)


def test_layers_of_a_body_that_no_output_needs_are_not_made() -> None:
    """What a Loop makes may be a constant, beside a result that nobody reads."""
    body = "<float[3] k = {1, 2, 3}> { u = Relu(x) }"
    proto = model(
        f"""g (float[3] x) => (z) <int64 n = {{2}}> {{
            y, w = Loop (n, , x) <body = b (int64 i, bool g, float[3] v) => (bool g, float[3] k, float[3] u) {body}>
            z = Identity(y)
        }}"""
    )
    network = csdfgen.load(proto)
    assert not network.layers
    np.testing.assert_array_equal(
        runtime.run(csdfgen.plan(network), np.zeros(3, np.float32))["z"], [1, 2, 3]
    )
