"""Sequences and tensors without elements are resolved when a model is read: random programs of both against onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import csdfgen
import runtime
from csdfgen.errors import CsdfgenError
from tests.builder import Graph, reference
from tests.models import model
from tests.ways import some


class Program:
    """A random program: tensors of one rank and lists of them, with what numpy makes of the same."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.graph = Graph(seed=seed, opset=int(self.rng.choice([15, 18, 21])))
        rank = int(self.rng.integers(1, 5))
        shape = [int(n) for n in self.rng.integers(1, 6, rank)]
        self.tensors = [(self.graph.input("x", shape), tuple(shape))]
        self.lists: list[tuple[str, list[tuple[int, ...]]]] = []

    def number(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def one_of(self, things: list) -> tuple:
        return things[self.number(0, len(things) - 1)]

    def place(self, count: int) -> tuple[int, str]:
        """A position among so many, and a constant that names it."""
        place = self.number(0, count - 1)
        named = place - count if self.number(0, 1) else place
        kind = self.rng.choice(["int32", "int64"])
        return place, self.graph.constant(np.array(named, kind))

    def split(self) -> None:
        name, shape = self.one_of(self.tensors)
        if not shape:
            return
        axis = self.number(0, len(shape) - 1)
        size, keep = shape[axis], self.number(0, 1)
        given = {"axis": axis - len(shape) * self.number(0, 1), "keepdims": keep}
        style = self.number(0, 2)
        if style == 0:
            made = self.graph.node("SplitToSequence", name, **given)
            sizes = [1] * size
        elif style == 1:
            each = self.number(1, size + 1)
            given["keepdims"] = 1
            made = self.graph.node(
                "SplitToSequence", name, self.graph.constant(np.int64(each)), **given
            )
            sizes = [min(each, size - k) for k in range(0, size, each)]
        else:
            cuts = sorted(self.number(0, size) for _ in range(self.number(0, 3)))
            sizes = np.diff([0, *cuts, size]).tolist()
            made = self.graph.node(
                "SplitToSequence", name, self.graph.constant(np.array(sizes, np.int64)), **given
            )
        rest = (shape[:axis], shape[axis + 1 :])
        squeezed = style == 0 and not keep
        self.lists.append(
            (made, [rest[0] + rest[1] if squeezed else (*rest[0], n, *rest[1]) for n in sizes])
        )

    def construct(self) -> None:
        chosen = [self.one_of(self.tensors) for _ in range(self.number(1, 3))]
        made = self.graph.node("SequenceConstruct", *(name for name, _ in chosen))
        self.lists.append((made, [shape for _, shape in chosen]))

    def insert(self) -> None:
        name, shapes = self.one_of(self.lists)
        tensor, shape = self.one_of(self.tensors)
        if self.number(0, 2):
            # -1 is in front of the last one: places are counted among those that were there
            count = len(shapes)
            place = self.number(0, count)
            named = place - count if place < count and self.number(0, 1) else place
            made = self.graph.node(
                "SequenceInsert", name, tensor, self.graph.constant(np.int64(named))
            )
        else:
            place, made = len(shapes), self.graph.node("SequenceInsert", name, tensor)
        self.lists.append((made, [*shapes[:place], shape, *shapes[place:]]))

    def erase(self) -> None:
        name, shapes = self.one_of(self.lists)
        if len(shapes) < 2:
            return
        place, constant = self.place(len(shapes))
        if self.number(0, 2):
            made = self.graph.node("SequenceErase", name, constant)
        else:
            place, made = len(shapes) - 1, self.graph.node("SequenceErase", name)
        self.lists.append((made, shapes[:place] + shapes[place + 1 :]))

    def at(self) -> None:
        name, shapes = self.one_of(self.lists)
        if not shapes:
            return
        place, constant = self.place(len(shapes))
        made = self.graph.node("SequenceAt", name, constant)
        if self.number(0, 1):
            made = self.graph.node("Sin", made)
        self.tensors.append((made, shapes[place]))

    def join(self) -> None:
        name, shapes = self.one_of(self.lists)
        if not shapes or len(set(map(len, shapes))) > 1:
            return
        new, rank = self.number(0, 1), len(shapes[0])
        axis = self.number(0, rank - 1 + new) if rank + new else 0
        apart = [s[:axis] + s[axis + 1 - new :] for s in shapes]
        if len(set(apart)) > 1 or not rank + new or (new and len(set(shapes)) > 1):
            return
        named = axis - (rank + new) * self.number(0, 1)
        made = self.graph.node("ConcatFromSequence", name, axis=named, new_axis=new)
        size = len(shapes) if new else sum(s[axis] for s in shapes)
        self.tensors.append((made, (*shapes[0][:axis], size, *shapes[0][axis + 1 - new :])))

    def nothing(self) -> None:
        """Some, or no, positions of an axis, by one of several operators; what is there beside it."""
        name, shape = self.one_of(self.tensors)
        if not shape:
            return
        axis = self.number(0, len(shape) - 1)
        ints = lambda *values: self.graph.constant(np.array(values, np.int64))  # noqa: E731
        style, size = self.number(0, 4), shape[axis]
        kept = (*shape[:axis], 0, *shape[axis + 1 :])
        if style == 0:
            made = self.graph.node("Slice", name, ints(size), ints(size), ints(axis))
        elif style == 1:
            made = self.graph.node("Split", name, ints(0, size), axis=axis, outputs=2)
            self.tensors.append((made[:-1] + "1", shape))
        elif style == 2:
            made = self.graph.node("Gather", name, ints(), axis=axis)
        elif style == 3:
            zero = [0 if k == axis else n for k, n in enumerate(shape)]
            made = self.graph.node(
                "Reshape",
                self.graph.node("Slice", name, ints(0), ints(0), ints(axis)),
                ints(*zero),
                allowzero=1,
            )
        else:
            made = self.graph.node("Slice", name, ints(1), ints(1), ints(axis))
            kept = (*shape[:axis], *shape[axis + 1 :])
            made = self.graph.node("ReduceSum", made, ints(axis), keepdims=0)
        self.tensors.append((made, kept))
        if style < 4:
            order = [(made, kept), (name, shape)]
            both = [n for n, _ in (order if self.number(0, 1) else order[::-1])]
            self.tensors.append((self.graph.node("Concat", *both, axis=axis), shape))
        if self.number(0, 1):
            self.tensors.append((self.graph.node("Tanh", made), kept))

    def count(self) -> None:
        name, _ = self.one_of(self.lists)
        made = self.graph.node("SequenceLength", name)
        self.tensors.append((self.graph.node("Cast", made, to=onnx.TensorProto.FLOAT), ()))

    def grow(self, steps: int) -> onnx.ModelProto:
        self.nothing()
        self.split()
        self.construct()
        for _ in range(steps):
            kinds = (
                self.split,
                self.construct,
                self.insert,
                self.erase,
                self.at,
                self.at,
                self.join,
                self.join,
                self.nothing,
                self.count,
            )
            kinds[self.number(0, len(kinds) - 1)]()
        self.tensors.append((self.graph.node("Sin", "x"), self.tensors[0][1]))
        names = dict.fromkeys(name for name, _ in self.tensors[-4:] if name != "x")
        return self.graph.model(*names, checked=False)


def _agrees(
    model: onnx.ModelProto, feeds: Mapping[str, np.ndarray], wanted: Mapping[str, np.ndarray]
) -> None:
    network = csdfgen.load(model)
    for rows in ("1", "auto", "whole"):
        for backend in ("native", "numpy"):
            found = runtime.compile(csdfgen.plan(network, rows=rows, backend=backend))(feeds)
            for name, value in wanted.items():
                assert found[name].shape == value.shape, (rows, backend, name)
                np.testing.assert_allclose(
                    found[name], value, 1e-5, 1e-6, err_msg=f"{rows} {backend} {name}"
                )


@pytest.mark.parametrize("seed", range(some(40, 1500)))
def test_random_programs_of_sequences_and_of_tensors_without_elements(seed: int) -> None:
    program = Program(seed)
    model = program.grow(8)
    feeds = program.graph.feeds()
    try:
        wanted = reference(model, feeds)
    except Exception:  # onnxruntime gives a tensor without elements the memory of another
        names = [output.name for output in model.graph.output]
        wanted = dict(zip(names, ReferenceEvaluator(model).run(None, feeds), strict=True))
    _agrees(model, feeds, wanted)


KNOWN: Mapping[str, str] = {
    "unbind, as torch writes it": """
        g (float[3,4] x) => (float[4] y) {
            one = Constant <value = int64 {1}> ()
            parts = SplitToSequence <axis = 0, keepdims = 0> (x, one)
            y = SequenceAt(parts, one)
        }""",
    "a list that a loop grows": """
        g (float[3,4] x) => (float[n,4] y, int64 k) {
            count = Constant <value_int = 3> ()
            go = Constant <value = bool {1}> ()
            none = SequenceEmpty <dtype = 1> ()
            all = Loop <body = b (int64 i, bool c, seq(float[3,4]) s) => (bool d, seq(float[3,4]) t) {
                d = Identity(c)
                n = Cast <to = 1> (i)
                row = Add(x, n)
                t = SequenceInsert(s, row)
            }> (count, go, none)
            y = ConcatFromSequence <axis = -2> (all)
            k = SequenceLength(all)
        }""",
    "a branch that takes one": """
        g (float[3,4] x, bool c) => (float[n,4] y) {
            parts = SplitToSequence(x)
            y = If <then_branch = a () => (float[n,4] z) { k = Constant <value_int = 0> ()  z = SequenceAt(parts, k) },
                else_branch = b () => (float[n,4] z) { k = Constant <value_int = -1> ()  z = SequenceAt(parts, k) }> (c)
        }""",
    "a sequence through a function": """
        g (float[3,4] x) => (float[n,4] y) {
            parts = local.halves(x)
            k = Constant <value_int = 1> ()
            same = Identity(parts)
            y = SequenceAt(same, k)
        }
        <domain: "local", opset_import: ["" : 18]>
        halves (a) => (b) {
            two = Constant <value = int64[2] {1, 2}> ()
            b = SplitToSequence(a, two)
        }""",
    "a tensor that is given as it came": """
        g (float[3,4] x) => (float[3,4] y, float[3,4] z) {
            k = Constant <value_int = 0> ()
            all = SequenceConstruct(x, x)
            y = SequenceAt(all, k)
            z = Neg(y)
        }""",
    "a tensor of a name that parts could have": """
        g (float[2,4] x) => (float[1,4] y, float[2,4] z) {
            k = Constant <value_int = 0> ()
            parts = SplitToSequence(x)
            "parts/0" = Neg(x)
            y = SequenceAt(parts, k)
            z = Sin("parts/0")
        }""",
    "nothing is the output": """
        g (float[3,4] x) => (float[n,4] y, float[3,4] z) {
            two = Constant <value_ints = [9]> ()
            y = Slice(x, two, two)
            z = Sin(x)
        }""",
    "no positions are gathered, and scattered": """
        g (float[3,4] x) => (float[n,4] y, float[3,4] z) {
            none = Constant <value = int64[0] {}> ()
            y = Gather(x, none)
            z = Sin(x)
        }""",
}


@pytest.mark.parametrize("case", KNOWN)
def test_sequences_and_nothing_where_exporters_write_them(case: str) -> None:
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 18, "local" : 1]> {KNOWN[case]}'
    )
    rng = np.random.default_rng(3)
    for flag in (True, False):
        feeds = {
            i.name: rng.normal(size=[d.dim_value for d in i.type.tensor_type.shape.dim]).astype(
                np.float32
            )
            if i.name == "x"
            else np.array(flag)
            for i in model.graph.input
        }
        _agrees(model, feeds, reference(model, feeds))


REFUSED: list[tuple[str, str]] = [
    (
        "g (float[3,4] x) => (seq(float) y) { y = SplitToSequence(x) }",
        "output 'y' is a sequence of . tensors; join them",
    ),
    (
        "g (seq(float) x) => (float[n] y) { k = Constant <value_int = 0> ()  y = SequenceAt(x, k) }",
        "input 'x': is not a tensor",
    ),
    (
        "g (float[3,4] x, int64 k) => (float[n,4] y) { s = SplitToSequence(x)  y = SequenceAt(s, k) }",
        "its position is computed at run time \\('k'\\), it must be a constant",
    ),
    (
        "g (float[3,4] x) => (float[n,4] y) { k = Constant <value_int = 3> ()  s = SplitToSequence(x)  y = SequenceAt(s, k) }",
        "position \\[3\\] is not among the . that there are",
    ),
    (
        "g (float[3,4] x) => (float[n,4] y) { k = Constant <value_int = -1> ()  s = SplitToSequence(x, k)"
        " y = SequenceAt(s, k) }",
        "parts of -1 positions",
    ),
    (
        "g (float[3,4] x) => (float[n,4] y) { k = Constant <value_ints = [2, 2]> ()  s = SplitToSequence(x, k)"
        " y = ConcatFromSequence <axis = 0> (s) }",
        "do not make up",
    ),
    (
        "g (float[3,4] x) => (float[n,4] y) { s = SplitToSequence(x)  y = Sin(s) }",
        "reads a sequence of . tensors; it needs tensors",
    ),
    (
        "g (float[3,4] x) => (float[n,4] y) { y = ConcatFromSequence <axis = 0> (x) }",
        "is a tensor, a sequence is needed",
    ),
    (
        "g (float[3,4] x) => (float[n,4] y, float[3,4] z) { s = SequenceEmpty()  y = ConcatFromSequence <axis = 0> (s)"
        " z = Sin(x) }",
        "joins a sequence without tensors",
    ),
    (
        "g (float[3,4] x, bool c) => (float[n,4] y) { k = Constant <value_int = 0> ()"
        " s = If <then_branch = a () => (seq(float) p) { p = SplitToSequence(x) },"
        " else_branch = b () => (seq(float) p) { p = SequenceConstruct(x) }> (c)  y = SequenceAt(s, k) }",
        "is a sequence, and its condition is computed",
    ),
    (
        "g (float[1000000] x) => (float[n] y) { k = Constant <value_int = 0> ()  s = SplitToSequence(x)  y = SequenceAt(s, k) }",
        "makes 1000000 tensors, at most 20000",
    ),
    (
        "g (float[3,4] x) => (float[3,4] y) { k = Constant <value_ints = [0]> ()  s = Slice(x, k, k)"
        " m = Softmax(s)  p = MatMul(x, m)  y = Add(p, x) }",
        "MatMul",
    ),
]


@pytest.mark.parametrize(("text", "why"), REFUSED, ids=[why for _, why in REFUSED])
def test_sequences_that_are_not_known_are_refused_by_name(text: str, why: str) -> None:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> {text}')
    with pytest.raises(CsdfgenError, match=why):
        csdfgen.load(model)


@pytest.mark.parametrize("order", ["y, k", "k, y"])
def test_constant_outputs_of_which_one_is_without_elements(order: str) -> None:
    """Symptom: "the output would be 0x2, which has no elements" if the first one was."""
    both = {"y": "float[0,2] y", "k": "int64[2] k"}
    outputs = ", ".join(both[name] for name in order.split(", "))
    text = f"""g (float[3,2] x) => ({outputs}) <int64[1] n = {{0}}>
        {{ y = Slice(x, n, n) k = Shape(x) }}"""
    found = runtime.run(csdfgen.plan(csdfgen.load(model(text))), np.zeros((3, 2), np.float32))
    assert found["y"].shape == (0, 2) and found["k"].tolist() == [3, 2]
    with pytest.raises(CsdfgenError, match="no output has elements"):
        csdfgen.plan(csdfgen.load(model(text.replace(outputs, both["y"]))))


def test_an_if_may_choose_between_tensors_without_elements() -> None:
    """Symptom: it was refused, whatever read its result."""
    text = """g (float[3,2] x) => (y) <int64[1] n = {0}, int64[1] m = {1}, float zero = {0}> {
        s = ReduceMax <keepdims = 0> (x) c = Greater(s, zero)
        e = If (c) <then_branch = a () => (float[0,2] p) { p = Slice(x, n, n) },
            else_branch = b () => (float[0,2] q) { r = Slice(x, m, m) q = Neg(r) }>
        y = Concat <axis = 0> (e, x) }"""
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    found = runtime.run(csdfgen.plan(csdfgen.load(model(text))), x)
    np.testing.assert_array_equal(found["y"], x)


def test_parts_without_elements_among_quantized_ones() -> None:
    """The part that is clipped on its way to integers has none."""
    g = Graph(opset=13)
    form = [g.constant(np.float32(0.1)), g.constant(np.int8(0))]

    def stored(x: str) -> str:
        return g.node("DequantizeLinear", g.node("QuantizeLinear", x, *form), *form)

    x = stored(g.input("x", (1, 2, 5)))
    none = g.node("Split", x, g.constant(np.array([0, 2])), outputs=2, axis=1)
    every = g.nodes[-1].output[1]
    joined = g.node("Concat", stored(g.node("Relu", none)), stored(every), axis=1)
    proto = g.model(stored(joined))
    network = csdfgen.load(proto)
    (name,) = (one.name for one in network.outputs)
    found = runtime.run(csdfgen.plan(network), g.feeds())[name]
    np.testing.assert_allclose(found, reference(proto, g.feeds())[name], atol=1e-6)
