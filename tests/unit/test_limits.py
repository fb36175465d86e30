"""What a network takes in total is bounded before it is made: it runs, or is refused at once in one sentence."""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from csdfgen import limits
from csdfgen.errors import CsdfgenError, ModelError
from csdfgen.limits import read_available_bytes
from tests.command import python
from tests.counting import count_calls
from tests.ways import some

MEMORY = 1 << 29
"""Bytes that the machine of the law has."""

LONG = 9_000_000
"""Calls after which a network is taken to be planned."""

CALLS, BYTES = 7_000_000, 190 << 20
"""Within which a refusal comes: two seconds, and memory beside the interpreter and its libraries (100 MB)."""


class Chain:
    """A graph that grows: nodes, and the name and shape of its end."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.functions: list[onnx.FunctionProto] = []

    def node(self, op_type: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(
            helper.make_node(op_type, inputs, [name], name, domain=domain, **attributes)
        )
        return name

    def constant(self, values: Any, dtype: type = np.int64) -> str:
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.array(values, dtype), name))
        return name

    def times(self) -> int:
        """How many times something is there: mostly few, or far too many."""
        return 1 << self.rng.choice((1, 1, 2, 3, self.rng.randrange(4, 34)))

    def model(self, shape: list[int], end: str) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "grown",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info(end, TensorProto.FLOAT, None)],
            self.weights,
        )
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
        return helper.make_model(
            graph, opset_imports=opsets, functions=self.functions, ir_version=8
        )


def of_maps(one: Chain, end: str) -> str:
    """An operator that makes a map of rank 4 larger."""
    axis, times = one.rng.randrange(1, 4), one.times()
    sizes = [times if k == axis else 1 for k in range(4)]
    kind = one.rng.choice(("Resize", "Tile", "Concat", "Pad", "Expand", "MatMul", "ConvTranspose"))
    if kind == "Resize":
        return one.node("Resize", end, "", one.constant(sizes, np.float32), mode="nearest")
    if kind == "Tile":
        return one.node("Tile", end, one.constant(sizes))
    if kind == "Concat":
        return one.node("Concat", *[end] * min(times, 8), axis=axis)
    if kind == "Pad":
        return one.node("Pad", end, one.constant([0] * 4 + [n - 1 for n in sizes]))
    if kind == "Expand":
        thin = one.node("ReduceMax", end, axes=[axis])
        return one.node("Expand", thin, one.constant(sizes))
    if kind == "MatMul":
        thin = one.node("ReduceMax", end, axes=[3])
        return one.node("MatMul", thin, one.node("Transpose", thin, perm=[0, 1, 3, 2]))
    thin = one.node("ReduceMax", end, axes=[1])
    weight = one.constant(np.ones((1, 2, 2, 2)), np.float32)
    return one.node("ConvTranspose", thin, weight, strides=[min(times, 1 << 20), 2])


def of_constants(one: Chain, end: str) -> str:
    """A constant that is computed from constants, added to the map."""
    found = one.constant([1.0, 2.0], np.float32)
    for _ in range(one.rng.randrange(1, 40)):
        kind, times = (
            one.rng.choice(("Concat", "Tile", "Expand", "Pad", "OneHot", "Range")),
            one.times(),
        )
        if kind == "Concat":
            found = one.node("Concat", found, found, axis=0)
        elif kind == "Tile":
            found = one.node("Tile", found, one.constant([times]))
        elif kind == "Expand":
            wide = one.node("Expand", found, one.constant([min(times, 1 << 12), 1]))
            found = one.node("Reshape", wide, one.constant([-1]))
        elif kind == "Pad":
            found = one.node("Pad", found, one.constant([0, times]))
        elif kind == "OneHot":
            hot = one.node(
                "OneHot",
                one.constant([1, 2]),
                one.constant([times]),
                one.constant([0, 1], np.float32),
            )
            found = one.node("Concat", found, one.node("Reshape", hot, one.constant([-1])), axis=0)
        else:
            row = one.node("Range", *(one.constant(n, np.float32) for n in (0, times, 1)))
            found = one.node("Concat", found, row, axis=0)
    return one.node("Add", end, one.node("ReduceMax", found, axes=[0]))


def of_functions(one: Chain, end: str) -> str:
    """A function that calls another one twice, which does so too."""
    depth, opsets = (
        one.rng.randrange(1, 40),
        [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)],
    )
    for k in range(depth):
        inner = ("Relu", "") if k == 0 else (f"f{k - 1}", "own")
        nodes = [
            helper.make_node(inner[0], [a], [b], domain=inner[1])
            for a, b in (("a", "b"), ("b", "c"))
        ]
        one.functions.append(helper.make_function("own", f"f{k}", ["a"], ["c"], nodes, opsets))
    return one.node(f"f{depth - 1}", end, domain="own")


def of_loops(one: Chain, end: str) -> str:
    """A Loop in a Loop in a Loop."""
    info, graph, inside = helper.make_tensor_value_info, None, "Relu"
    for depth in range(one.rng.randrange(1, 4)):
        state, done, going, on = (f"{name}{depth}" for name in ("s", "r", "c", "o"))
        given = [state] if graph is None else [one.constant(one.times()), "", state]
        own = {} if graph is None else {"body": graph}
        nodes = [
            helper.make_node("Identity", [going], [on]),
            helper.make_node(inside, given, [done], f"inner{depth}", **own),
        ]
        counted = info(f"i{depth}", TensorProto.INT64, []), info(going, TensorProto.BOOL, [])
        ends = info(on, TensorProto.BOOL, []), info(done, TensorProto.FLOAT, None)
        graph = helper.make_graph(
            nodes, f"body{depth}", [*counted, info(state, TensorProto.FLOAT, None)], ends
        )
        inside = "Loop"
    return one.node("Loop", one.constant(one.times()), "", end, body=graph)


GROWING: tuple[Callable[[Chain, str], str], ...] = (
    of_maps,
    of_maps,
    of_maps,
    of_constants,
    of_functions,
    of_loops,
)


def grown(seed: int) -> onnx.ModelProto:
    """A random chain of operators that grow what they read."""
    rng = Random(seed)
    one, shape, end = Chain(rng), [1, 2, 4, 4], "x"
    if rng.random() < 0.3:
        shape[rng.randrange(1, 4)] = one.times()
    if rng.random() < 0.5:
        end = rng.choice(GROWING[3:])(one, end)
    for _ in range(rng.randrange(1, 6)):
        end = of_maps(one, end)
    return one.model(shape, one.node("Relu", end))


def outcome(proto: onnx.ModelProto) -> tuple[str, int, int]:
    """(what is said, or "" for a plan; calls; bytes that the process has grown by)."""
    import csdfgen

    def answer() -> str:
        try:
            csdfgen.plan(csdfgen.load(proto))
        except CsdfgenError as error:
            return str(error)
        return ""

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    calls, said = count_calls(answer, LONG)
    grew = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return said, calls, grew << 10


def apart(seeds: range) -> Iterator[tuple[int, str, int, int]]:
    """The outcome of each seed, in a child of a process that has imported everything and computes with one thread."""
    code = "from tests.unit.test_limits import serve; serve()"
    given = python(
        "-c",
        code,
        seeds.start,
        seeds.stop,
        cwd=Path(__file__).parents[2],
        env={"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    found = [json.loads(line) for line in given.stdout.splitlines()]
    assert [seed for seed, *_ in found] == list(seeds), given.stderr[-2000:]
    yield from (tuple(one) for one in found)


def serve() -> None:
    """The process of `apart`."""
    limits.read_available_bytes = lambda root=Path("/"): MEMORY
    outcome(grown(0))  # imports all
    for seed in range(*map(int, sys.argv[1:])):
        proto = grown(seed)
        child = os.fork()
        if not child:
            print(json.dumps((seed, *outcome(proto))), flush=True)
            os._exit(0)
        if os.waitpid(child, 0)[1]:  # it is being planned
            print(json.dumps((seed, "", LONG, 0)), flush=True)


def test_what_was_taken_counts() -> None:
    budget = limits.Budget()
    most = limits.OPERATIONS.most
    budget.take(limits.OPERATIONS, most - 1, "its graph")
    budget.take(limits.OPERATIONS, 1, "a branch")
    with pytest.raises(ModelError, match=f"a function: {most + 1:,} operations"):
        budget.take(limits.OPERATIONS, 1, "a function")


def test_weights_may_be_computed_from_weights_of_the_file() -> None:
    """As weight standardization is exported: each step folds the whole weight."""
    import csdfgen

    one = Chain(Random(0))
    weight = one.constant(np.ones((1, 1, 1024, 1024)), np.float32)
    steps = limits.FOLDED.most // (4 << 20) + 2
    for _ in range(steps):
        weight = one.node("Mul", weight, one.constant(2, np.float32))
    proto = one.model([1, 1, 1024, 1024], one.node("Add", "x", weight))
    (layer,) = csdfgen.load(proto).layers
    (folded,) = layer.constants.values()
    assert folded.max() == 2**steps


@pytest.mark.networks
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_what_grows_is_planned_or_refused_at_once() -> None:
    """Planned in the memory that the machine has, or refused within few calls and 300 MB."""
    found = list(apart(range(some(25, 1000))))
    refused = [one for one in found if one[1]]
    assert 0.2 < len(refused) / len(found) < 0.95
    late = [one for one in refused if one[2] > CALLS or one[3] > BYTES or "\n" in one[1]]
    assert not late
    assert not [one for one in found if one[3] > MEMORY]


def written(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "megabytes"),
    [
        ({}, 900),
        # version 2: the group above the process's own leaves less, and inactive pages of files are free
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/b/memory.max": "max\n",
                "sys/fs/cgroup/a/b/memory.current": f"{1 << 20}\n",
                "sys/fs/cgroup/a/memory.max": f"{500 << 20}\n",
                "sys/fs/cgroup/a/memory.current": f"{300 << 20}\n",
                "sys/fs/cgroup/a/memory.stat": f"anon 1\ninactive_file {100 << 20}\n",
            },
            300,
        ),
        (
            {
                "proc/self/cgroup": "3:cpu:/c\n4:memory:/c\n",
                "sys/fs/cgroup/memory/c/memory.limit_in_bytes": f"{64 << 20}\n",
                "sys/fs/cgroup/memory/c/memory.usage_in_bytes": f"{24 << 20}\n",
            },
            40,
        ),
    ],
    ids=["no group", "version 2", "version 1"],
)
def test_what_a_machine_has_left(tmp_path: Path, files: dict[str, str], megabytes: int) -> None:
    root = written(tmp_path, {"proc/meminfo": f"MemAvailable:  {900 << 10} kB\n", **files})
    assert read_available_bytes(root) == megabytes << 20
