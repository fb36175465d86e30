"""Loop and Scan are written out where the number of their turns is known."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import pytest

import csdfgen
import runtime
from csdfgen.errors import CsdfgenError
from tests.builder import reference

SCANS: Mapping[str, str] = {
    "sums so far": """
        g (float[6,4] x, float[4] first) => (float[4] last, float[6,4] all) {
            last, all = Scan <num_scan_inputs = 1, body = b (float[4] s, float[4] e) => (float[4] t, float[4] o) {
                t = Add(s, e)
                o = Identity(t)
            }> (first, x)
        }""",
    "two from both ends along other axes": """
        g (float[3,5] x, float[5,3] z, float[3] first) => (float[3] last, float[3,5] a, float[5,3] b) {
            last, a, b = Scan <num_scan_inputs = 2, scan_input_axes = [1, 0], scan_input_directions = [0, 1],
                scan_output_axes = [-1, 0], scan_output_directions = [1, 0],
                body = b (float[3] s, float[3] e, float[3] f) => (float[3] t, float[3] p, float[3] q) {
                    p = Mul(s, e)
                    q = Sub(f, p)
                    t = Tanh(q)
                }> (first, x, z)
        }""",
    "what is around it": """
        g (float[6,4] x, float[4] first) => (float[6,4] all) {
            half = Constant <value_float = 0.5> ()
            scaled = Mul(first, half)
            last, all = Scan <num_scan_inputs = 1, body = b (float[4] s, float[4] e) => (float[4] t, float[4] o)
                <float[1] two = {2.0}> {
                    t = Add(s, scaled)
                    u = Mul(t, two)
                    o = Add(u, e)
                }> (first, x)
        }""",
    "a count": """
        g (float[4] x) => (float[4] y, float[3,4] all) {
            count = Constant <value_int = 3> ()
            go = Constant <value = bool {1}> ()
            y, all = Loop <body = b (int64 i, bool c, float[4] s) => (bool d, float[4] t, float[4] o) {
                d = Identity(c)
                n = Cast <to = 1> (i)
                o = Add(s, n)
                t = Mul(o, o)
            }> (count, go, x)
        }""",
    "until a condition of constants": """
        g (float[4] x) => (float[4] y) {
            go = Constant <value = bool {1}> ()
            three = Constant <value_int = 3> ()
            one = Constant <value_int = 1> ()
            zero = Constant <value_int = 0> ()
            many = Constant <value_int = 1000> ()
            k, y = Loop <body = b (int64 i, bool c, int64 j, float[4] s) => (bool d, int64 m, float[4] t) {
                m = Add(j, one)
                d = Less(m, three)
                t = Sin(s)
            }> (many, go, zero, x)
        }""",
    "no turns": """
        g (float[4] x) => (float[4] y) {
            count = Constant <value_int = 0> ()
            a = Relu(x)
            y = Loop <body = b (int64 i, bool c, float[4] s) => (bool d, float[4] t) { d = Identity(c)  t = Sin(s) }> (count, , a)
        }""",
    "a loop in a loop, over shapes": """
        g (float[2,3] x) => (float[2,3] y) {
            shape = Shape(x)
            none = Constant <value_int = 0> ()
            one = Constant <value_int = 1> ()
            rows = Gather(shape, none)
            columns = Gather(shape, one)
            y = Loop <body = b (int64 i, bool c, float[2,3] s) => (bool d, float[2,3] t) {
                d = Identity(c)
                t = Loop <body = e (int64 k, bool f, float[2,3] u) => (bool h, float[2,3] v) {
                    h = Identity(f)
                    n = Cast <to = 1> (i)
                    v = Add(u, n)
                }> (columns, , s)
            }> (rows, , x)
        }""",
}


def _model(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')


@pytest.mark.parametrize("case", SCANS)
@pytest.mark.parametrize("rows", ["1", "whole"])
def test_turns_are_those_of_onnxruntime(case: str, rows: str) -> None:
    model = _model(SCANS[case])
    rng = np.random.default_rng(0)
    feeds = {
        i.name: rng.uniform(-1, 1, [d.dim_value for d in i.type.tensor_type.shape.dim]).astype("f")
        for i in model.graph.input
    }
    network = csdfgen.load(model)
    found = runtime.run(csdfgen.plan(network, rows=rows), feeds)
    for name, wanted in reference(model, feeds).items():
        np.testing.assert_allclose(found[name], wanted, rtol=1e-5, atol=1e-6)


REFUSED: list[tuple[str, str]] = [
    (
        """g (float[4] x, int64 n) => (float[4] y, float[m,4] all) {
            m = Add(n, n)
            y, all = Loop <body = b (int64 i, bool c, float[4] s) => (bool d, float[4] t, float[4] o) {
                d = Identity(c)
                t = Sin(s)
                o = Sin(t)
            }> (m, , x)
        }""",
        "its number of turns is computed at run time \\('m'\\), .* depends on values with fix, or .* makes as many rows",
    ),
    (
        """g (float[4] x) => (float[8] y) {
            k = Constant <value_int = 9> ()
            y = Loop <body = b (int64 i, bool c, float[4] s) => (bool d, float[8] t) {
                t = Concat <axis = 0> (s, s)
                m = ReduceMax <keepdims = 0> (t)
                d = Greater(m, m)
            }> (k, , x)
        }""",
        "whether it goes on is computed at run time",
    ),
    (
        """g (float[4] x) => (float[4] y) {
            y = Loop <body = b (int64 i, bool c, float[4] s) => (bool d, float[4] t) { d = Identity(c)  t = Sin(s) }> (, , x)
        }""",
        "at most 20000 operations are written out",
    ),
    (
        """g (float[4] x) => (float[4] y) {
            k = Constant <value_int = 2> ()
            y = Loop <body = b (int64 i, bool c, float[4] s) => (bool d, float[4] t) { d = Identity(c)
                t = Bernoulli(s)
            }> (k, , x)
        }""",
        "not supported: Bernoulli",
    ),
    (
        """g (float[4] x) => (float[4] y) {
            places = NonZero(x)
            shape = Shape(places)
            one = Constant <value_int = 1> ()
            k = Gather(shape, one)
            y = Loop <body = b (int64 i, bool c, float[4] s) => (bool d, float[4] t) { d = Identity(c)  t = Sin(s) }> (k, , x)
        }""",
        "known at run time only",
    ),
    (
        """g (float[4] x) => (float[4] y) {
            y = Scan <num_scan_inputs = 1, scan_input_axes = [1], body = b (float e) => (float o) { o = Sin(e) }> (x)
        }""",
        "along axis 1, which it has not",
    ),
]


@pytest.mark.parametrize(("text", "why"), REFUSED, ids=[why for _, why in REFUSED])
def test_a_loop_of_an_unknown_number_of_turns_is_refused(text: str, why: str) -> None:
    with pytest.raises(CsdfgenError, match=why):
        csdfgen.load(_model(text))
