"""A plan survives its file, and a plan that was tampered with is refused with one line."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import csdfgen
import runtime
from csdfgen.errors import CapacityExceededError, CsdfgenError, InputError, PlanError, ScheduleError
from csdfgen.model.network import Network
from csdfgen.planning.plan_file import read_plan, to_json, write_plan
from tests.planning import to_plan
from tests.small_models import residual_classifier, two_inputs

Edit = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def network() -> Network:
    return csdfgen.load(residual_classifier())


@pytest.fixture(scope="module")
def plan_values(network: Network) -> dict[str, Any]:
    return to_json(csdfgen.plan(network, rows=2, backend="numpy"))


def reread(values: dict[str, Any], tmp_path: Path, network: Network) -> Any:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(values))
    return to_plan(read_plan(path), network)


@pytest.mark.parametrize("rows", [1, "auto", "whole", "3,conv2=1"])
@pytest.mark.parametrize("fuse", ["none", "full"])
@pytest.mark.parametrize("image", ["streamed", "resident"])
def test_plan_from_file_is_the_plan(
    network: Network, tmp_path: Path, rows: int | str, fuse: str, image: str
) -> None:
    plan = csdfgen.plan(network, rows=rows, fuse=fuse, image=image, backend="numpy")
    path = tmp_path / "plan.json"
    write_plan(path, plan)
    again = to_plan(read_plan(path), network)
    assert again.order == plan.order
    assert again.regions == plan.regions
    assert dict(again.figures) == dict(plan.figures)
    x = np.random.default_rng(0).uniform(-1, 1, (1, 3, 16, 12)).astype(np.float32)
    ours, theirs = runtime.run(again, x), runtime.run(plan, x)
    assert all(np.array_equal(ours[name], theirs[name]) for name in theirs)


def test_same_plan_gives_the_same_bytes(network: Network, tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        write_plan(tmp_path / name, csdfgen.plan(network, rows=1))
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def _flat(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Firings one by one instead of loops, so that they can be edited."""
    from csdfgen.files import Fields
    from schedules.schedule import firings_from_json

    found = firings_from_json(Fields(values, "test"))
    return [{"actor": firing.actor, "first": firing.phase, "count": 1} for firing in found]


def _swap_first_two_layers(values: dict[str, Any]) -> None:
    firings = _flat(values)
    at = next(i for i, firing in enumerate(firings) if firing["actor"] == "conv2")
    while firings[at - 1]["actor"] == "conv2":
        at -= 1
    firings[at - 1], firings[at] = firings[at], firings[at - 1]
    values["firings"] = firings


def _drop_last_firing(values: dict[str, Any]) -> None:
    values["firings"] = _flat(values)[:-1]


def _repeat_first_firing(values: dict[str, Any]) -> None:
    firings = _flat(values)
    values["firings"] = [firings[0], *firings]


def _offsets(buffer: dict[str, Any], key: str = "offsets") -> list[int]:
    return [int(value) for count, value in _runs(buffer[key]) for _ in range(count)]


def _put(buffer: dict[str, Any], offsets: list[int]) -> None:
    buffer["offsets"] = ",".join(map(str, offsets))


def _join_two_rows(values: dict[str, Any]) -> None:
    """The second row of a buffer onto the first, which is still needed."""
    conv = next(b for b in values["buffers"] if b["name"] == "x")
    offsets = _offsets(conv)
    _put(conv, [offsets[0], offsets[0], *offsets[2:]])


def _drop_a_row(values: dict[str, Any]) -> None:
    buffer = _blocks(values)[0]
    _put(buffer, _offsets(buffer)[:-1])


def _stack_buffers(values: dict[str, Any]) -> None:
    for buffer in _blocks(values):
        first = _offsets(buffer)[0]
        _put(buffer, [abs(at - first) for at in _offsets(buffer)])
    _fit(values)


def _move_a_row(values: dict[str, Any]) -> None:
    buffer = _blocks(values)[0]
    offsets = _offsets(buffer)
    _put(buffer, [*offsets[:-1], offsets[-1] + 4])


def _blocks(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [buffer for buffer in values["buffers"] if buffer["kind"] != "workspace"]


def _scratch(values: dict[str, Any]) -> dict[str, Any]:
    return next(buffer for buffer in values["buffers"] if buffer["kind"] == "workspace")


def _drop_scratch(values: dict[str, Any]) -> None:
    values["buffers"].remove(_scratch(values))


def _shrink_scratch(values: dict[str, Any]) -> None:
    scratch = _scratch(values)
    scratch["sizes"] = ",".join(
        f"{count}*{int(size) - 4}" for count, size in _runs(scratch["sizes"])
    )


def _move_scratch(values: dict[str, Any]) -> None:
    """Onto the rows of the image, which the first firings read."""
    at = next(_offsets(buffer)[0] for buffer in _blocks(values) if buffer["name"] == "x")
    for buffer in values["buffers"]:
        if buffer["kind"] == "workspace":
            buffer["offsets"] = ",".join(f"{count}*{at}" for count, _ in _runs(buffer["offsets"]))
    _fit(values)


def _fit(values: dict[str, Any]) -> None:
    """The arena ends where its last buffer does."""
    ends = [values["arena"]]
    for buffer in values["buffers"]:
        if buffer["kind"] == "workspace":
            pairs = zip(_offsets(buffer), _offsets(buffer, "sizes"), strict=True)
            ends += [at + size for at, size in pairs if size]
    values["arena"] = max(ends)


def _runs(text: str) -> list[tuple[int, str]]:
    pairs = [part.split("*") if "*" in part else ["1", part] for part in text.split(",")]
    return [(int(count), value) for count, value in pairs]


def _set(path: str, value: Any) -> Edit:
    def edit(values: dict[str, Any]) -> None:
        *outer, last = path.split(".")
        for key in outer:
            values = values[int(key)] if isinstance(values, list) else values[key]
        values[last] = value

    return edit


def _drop(key: str) -> Edit:
    return lambda values: values.pop(key)


TAMPERED: list[tuple[Edit, type[CsdfgenError], str]] = [
    (_swap_first_two_layers, ScheduleError, "not written yet"),
    (_drop_last_firing, ScheduleError, "which has"),
    (_repeat_first_firing, ScheduleError, "comes next"),
    (_join_two_rows, CapacityExceededError, "they are stored at bytes"),
    (_drop_a_row, PlanError, "offsets for 15 of 16 rows"),
    (_stack_buffers, PlanError, "at the same time|its buffers end"),
    (_set("arena", 2**40), PlanError, "its buffers end at"),
    (_set("arena", 64), PlanError, "its buffers end at"),
    (_move_a_row, PlanError, "no multiple of 16"),
    (_set("buffers.0.offsets", "16*-64"), PlanError, "is negative"),
    (_set("apart", 1), PlanError, "true or false"),
    (_set("buffers.0.name", "nothing"), PlanError, "'nothing'"),
    (lambda values: values["buffers"].pop(0), PlanError, "its buffers end at|has no buffer"),
    (lambda values: values["buffers"].append(values["buffers"][0]), PlanError, "one each"),
    (_set("firings", [{"actor": "nobody", "first": 0, "count": 1}]), PlanError, "no actor of"),
    (_set("firings", [{"actor": "x", "first": 0, "count": 2**40}]), PlanError, "at most"),
    (
        _set("firings", [{"actor": "x", "first": 0, "count": 1, "iteration": 1}]),
        PlanError,
        "1 iteration",
    ),
    (_set("options.rows", "1"), PlanError, "made for"),
    (_drop_scratch, PlanError, "workspaces, .* are needed"),
    (_shrink_scratch, PlanError, "its kernel needs"),
    (_move_scratch, PlanError, "at the same time|its buffers end"),
    (_set("digest", "0" * 16), PlanError, "made for"),
    (lambda v: _scratch(v).update(sizes="x"), PlanError, "'sizes'"),
    (lambda v: _scratch(v).update(offsets="1*9999999999999999"), PlanError, "at most|for"),
    (_set("options.rows", "-1"), InputError, "rows='-1'"),
    (_set("options.rows", "nobody=1"), InputError, "nobody"),
    (_set("options.fuse", "most"), InputError, "most"),
    (_set("format", "csdfgen-graph"), PlanError, "'csdfgen-plan' is needed"),
    (_set("version", 99), PlanError, "99"),
    (_drop("buffers"), PlanError, "'buffers'"),
    (_drop("firings"), PlanError, "'firings'"),
    (_drop("options"), PlanError, "'options'"),
    (_set("inputs.x", "1x3"), PlanError, "list of at most"),
]


@pytest.mark.parametrize(("edit", "error", "said"), TAMPERED)
def test_tampered_plan_is_refused(
    network: Network,
    plan_values: dict[str, Any],
    tmp_path: Path,
    edit: Edit,
    error: type[CsdfgenError],
    said: str,
) -> None:
    values = copy.deepcopy(plan_values)
    edit(values)
    with pytest.raises(error, match=said) as caught:
        reread(values, tmp_path, network)
    assert str(caught.value).startswith(str(tmp_path / "plan.json"))
    assert "\n" not in str(caught.value)


def test_plan_of_another_network_names_both(plan_values: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="'two'") as caught:
        reread({**plan_values, "model": "residual.onnx"}, tmp_path, csdfgen.load(two_inputs()))
    assert "residual.onnx" in str(caught.value)


def test_heights_of_layers_of_another_network_name_both(
    plan_values: dict[str, Any], tmp_path: Path
) -> None:
    values = {**plan_values, "model": "residual.onnx"}
    values["options"] = {**plan_values["options"], "rows": "2,elsewhere=1"}
    said = "made for 'residual.onnx', does not fit 'two': rows names 'elsewhere'"
    with pytest.raises(InputError, match=said):
        reread(values, tmp_path, csdfgen.load(two_inputs()))


@pytest.mark.parametrize("version", [1, 2])
def test_files_of_older_releases_are_refused(
    network: Network, plan_values: dict[str, Any], tmp_path: Path, version: int
) -> None:
    with pytest.raises(PlanError, match=f"'version' is {version}; this program reads 3 and later"):
        reread({**plan_values, "version": version}, tmp_path, network)
