"""Models of PyTorch: modules, exported programs and .pt2 files run as torch computes them; what is missing is named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import csdfgen
import runtime
from csdfgen.errors import InputError, ModelError
from csdfgen.reading import pytorch
from tests.command import Call, refused

WAY_OUT = {
    "net.pt": "csdfgen.load(module, example)",
    "net.PTH": "csdfgen.load(module, example)",
    "net.safetensors": "csdfgen.load(module, example)",
    "net.pb": "python -m tf2onnx.convert --graphdef",
    "net.h5": "format='onnx'",
    "net.keras": "format='onnx'",
}


@pytest.fixture(scope="module")
def torch() -> Any:
    pytest.importorskip("onnxscript", reason="onnxscript is not installed (csdfgen[torch])")
    return pytest.importorskip("torch", reason="torch is not installed (csdfgen[torch])")


@pytest.fixture(scope="module")
def module(torch: Any) -> Any:
    nn = torch.nn
    torch.manual_seed(1)
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.5),
        nn.Conv2d(8, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5),
    )  # fmt: skip
    net[1].running_mean.uniform_(-1, 1)
    return net.train()


@pytest.fixture(scope="module")
def file(torch: Any, module: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("torch") / "net.pt2"
    example = (torch.zeros(1, 3, 17, 14),)
    torch.export.save(torch.export.export(module.eval(), example), path)
    module.train()
    return path


def computed(torch: Any, module: Any, x: np.ndarray) -> np.ndarray:
    module.eval()
    with torch.no_grad():
        found: np.ndarray = module(torch.from_numpy(x)).numpy()
    module.train()
    return found


def test_a_module_computes_as_in_torch_and_stays_as_it_is(torch: Any, module: Any) -> None:
    network = csdfgen.load(module, torch.zeros(1, 3, 17, 14))
    assert network.name == "Sequential"
    assert module.training and module[1].training, "load() left the module in evaluation mode"
    x = np.random.default_rng(0).normal(size=network.inputs[0].shape).astype(np.float32)
    (y,) = runtime.run(csdfgen.plan(network), x).values()
    np.testing.assert_allclose(y, computed(torch, module, x), rtol=1e-4, atol=1e-5)


def test_a_file_computes_as_in_torch(torch: Any, module: Any, file: Path) -> None:
    network = csdfgen.load(file)
    x = np.random.default_rng(1).normal(size=network.inputs[0].shape).astype(np.float32)
    (y,) = runtime.run(csdfgen.plan(network, rows=1), x).values()
    np.testing.assert_allclose(y, computed(torch, module, x), rtol=1e-4, atol=1e-5)


def test_the_command_line_takes_a_file_wherever_it_takes_a_model(call: Call, file: Path) -> None:
    done = call("run", str(file), "--check")
    assert done.code == 0 and "equal" in done.out, done.err
    plan = file.with_name("plan.json")
    assert call("schedule", str(file), "-o", str(plan)).code == 0
    assert call("run", str(file), "--plan", str(plan)).code == 0


def test_modules_with_several_inputs_take_a_tuple(torch: Any) -> None:
    class Sum(torch.nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
        def forward(self, a: Any, b: Any) -> Any:
            return torch.relu(a) + b

    network = csdfgen.load(Sum(), (torch.zeros(1, 2, 5, 5), torch.zeros(1, 2, 5, 5)))
    assert len(network.inputs) == 2 and network.name == "Sum"


def test_without_an_example_the_error_says_so(torch: Any, module: Any) -> None:
    with pytest.raises(InputError, match=r"Sequential: .*needs an example input"):
        csdfgen.load(module)
    program = torch.export.export(module.eval(), (torch.zeros(1, 3, 17, 14),))
    module.train()
    with pytest.raises(InputError, match="leave example out"):
        csdfgen.load(program, torch.zeros(1, 3, 17, 14))
    assert csdfgen.load(program).inputs[0].shape == (1, 3, 17, 14)


def test_what_torch_refuses_is_one_line(torch: Any) -> None:
    class Branch(torch.nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
        def forward(self, x: Any) -> Any:
            return x + 1 if x.sum() > 0 else x

    with pytest.raises(ModelError, match=r"Branch: torch\.export refuses it") as found:
        csdfgen.load(Branch(), torch.zeros(1, 2))
    assert "\n" not in str(found.value)


def test_a_file_that_is_no_program_is_refused(torch: Any, call: Call, tmp_path: Path) -> None:
    path = tmp_path / "net.pt2"
    path.write_bytes(b"PK\x03\x04" + bytes(60))
    assert f"{path}: torch.export refuses it" in refused(call(str(path)))


def test_examples_are_for_models(torch: Any) -> None:
    with pytest.raises(InputError, match="not for int"):
        csdfgen.load(3, np.zeros(3))


def test_without_torch_the_error_names_the_extra(tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "net.pt2"
    path.write_bytes(b"PK")
    monkeypatch.setitem(sys.modules, "torch", None)
    assert not pytorch.is_torch(path)
    with pytest.raises(InputError, match=r"net.pt2: .*pip install 'csdfgen\[torch\]'"):
        csdfgen.load(path)


def test_torch_is_imported_only_when_needed() -> None:
    code = (
        "import sys, csdfgen; csdfgen.load('zoo:lenet5'); "
        "sys.exit(any(n in sys.modules for n in ('torch', 'onnxscript')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", WAY_OUT)
def test_files_of_other_frameworks_are_refused(name: str, call: Call, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(b"\x80\x02TFL3 no onnx" * 9)
    assert WAY_OUT[name] in refused(call(str(path)))


def test_the_content_counts_not_the_suffix(tmp_path: Path) -> None:
    """An ONNX file may be called .pb, as some old ones are."""
    from zoo_models import ZOO

    path = tmp_path / "net.pb"
    path.write_bytes(ZOO["lenet5"].build(28, 28).SerializeToString())
    assert csdfgen.load(path).layers


def test_layers_are_named_after_modules() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="node_relu"),
        helper.make_node("Relu", ["a"], ["y"]),
    ]
    for node, scopes in zip(
        nodes, ("['', 'layer1', 'layer1.0', 'relu']", "['', 'relu_1']"), strict=True
    ):
        node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=scopes)
    ends = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 3, 8, 8]) for name in "xy"
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    assert [layer.name for layer in csdfgen.load(model).layers] == ["layer1.0/node_relu", "Relu_1"]
