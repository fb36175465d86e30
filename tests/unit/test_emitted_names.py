"""Names of networks and arrays that mean something else in C or C++: emitted code compiles all the same."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import csdfgen
from csdfgen.backends.native.build import WARNINGS
from csdfgen.emission.emit import emit
from csdfgen.emission.names import identifiers, network_name
from tests.board_networks import absent, plan_of
from tests.builder import Graph
from tests.command import Call
from tests.emitted import STRICT, run
from tests.native_steps import compiler_missing

pytestmark = pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-")

_RESERVED = """
alignas alignof and and_eq bitor catch char16_t char8_t co_await compl concept consteval constexpr constinit decltype
dynamic_cast explicit friend linux mutable namespace noexcept not nullptr reinterpret_cast requires static_assert static_cast
template this thread_local throw typeid typename unix using virtual wchar_t xor INPUT OUTPUT PI
"""
"""Words of later standards and of C++, and macros of compilers and of Arduino."""

_ARDUINO = "#define INPUT 0x0\n#define OUTPUT 0x1\n#define PI 3.14\n"


def named(words: list[str], arrays: str) -> onnx.ModelProto:
    """Inputs that are added up, or outputs, that have these names; a further output is a constant."""
    shape = ["N", 1, 3, 2]
    one = [helper.make_tensor_value_info("one", TensorProto.FLOAT, shape)]
    many = [helper.make_tensor_value_info(word, TensorProto.FLOAT, shape) for word in words]
    if arrays == "inputs":
        nodes = [helper.make_node("Sum", words, ["one"])]
        inputs, outputs = many, one
    else:
        nodes = [helper.make_node("Relu", ["one"], [word]) for word in words]
        inputs, outputs = one, many
    fixed = numpy_helper.from_array(np.ones((1, 3), np.float32), "fixed")
    nodes.append(helper.make_node("Identity", ["fixed"], ["fixed_out"]))
    outputs = [*outputs, helper.make_tensor_value_info("fixed_out", TensorProto.FLOAT, [1, 3])]
    graph = helper.make_graph(nodes, "named", inputs, outputs, [fixed])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("arrays", ["inputs", "outputs"])
def test_arrays_are_named_as_anything_in_the_code(arrays: str, tmp_path: Path) -> None:
    """By each identifier of the emitted files, by words of other standards, by macros."""
    absent("c++")
    emit(plan_of("residual"), "small", tmp_path / "small", target="generic")
    texts = [path.read_text() for path in (tmp_path / "small").glob("*.[ch]")]
    words = {*re.findall(r"\b[A-Za-z_]\w{0,30}\b", "\n".join(texts)), *_RESERVED.split()}
    network = csdfgen.load(named(sorted(words - {"one", "fixed"}), arrays), batch=2)
    plan = csdfgen.plan(network, backend="native")
    made = emit(plan, "odd", tmp_path / "odd", target="generic")
    (tmp_path / "odd/odd.cpp").write_text(f'{_ARDUINO}#include "odd.h"\nint main() {{}}\n')
    sources = [one for one in made.files if one.endswith(".c") and "kernels" not in one]
    for standard in ("-std=c99", "-std=gnu17"):
        command = ["cc", standard, "-fsyntax-only", "-DCSDF_SCALAR", *WARNINGS, *STRICT, "-I."]
        run(*command, *sources, folder=tmp_path / "odd")
    run("c++", "-std=gnu++20", "-fsyntax-only", *STRICT[:2], "odd.cpp", folder=tmp_path / "odd")


def test_macros_of_other_headers_name_no_array() -> None:
    assert identifiers(["INPUT", "M_PI", "X", "X_0"]) == ["t_INPUT", "t_M_PI", "X", "X_0"]


def test_networks_are_not_named_as_types() -> None:
    """NAME_t is no type of the headers that this machine has."""
    headers = "complex fenv inttypes math setjmp signal stdint stdio stdlib string sys/types threads time wchar wctype pthread"
    text = "".join(f"#include <{one}.h>\n" for one in headers.split())
    command = ["cc", "-std=gnu11", "-D_GNU_SOURCE", "-E", "-P", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    types = {*re.findall(r"\b([A-Za-z]\w*)_t;", done.stdout), "float32", "q7", "u16", "atomic"}
    assert len(types) > 60
    assert [one for one in sorted(types) if network_name(one) == one] == []


def test_a_network_and_its_stream_are_compiled_together(tmp_path: Path) -> None:
    model = named(["x"], "inputs")
    for title in ("net1", "net1_stream"):
        plan = csdfgen.plan(csdfgen.load(model), backend="native")
        emit(plan, title, tmp_path / title, target="generic")
    headers = [str(path) for path in tmp_path.glob("*/net1*.h")]
    text = "".join(f'#include "{path}"\n' for path in headers)
    (tmp_path / "both.c").write_text(text)
    assert sorted(Path(one).name for one in headers) == ["net1.h", "net1_stream_net.h"]
    assert not run("cc", "-std=c99", "-Werror", "-fsyntax-only", "both.c", folder=tmp_path)


def test_emitting_one_plan_of_a_table_is_said(call: Call) -> None:
    graph = Graph()
    onnx.save(graph.model(graph.node("Relu", graph.input("x", (1, 2, 5, 5)))), "net.onnx")
    assert call("schedule", "net.onnx", "--requests", "1,2", "-o", "table.json").code == 0
    said = call("emit-c", "table.json", "--model", "net.onnx", "-o", "c", "--target", "generic")
    assert "the fastest of a table of plans" in said.out
