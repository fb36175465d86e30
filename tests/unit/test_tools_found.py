"""SDF3 and Kiter are found by option, variable and PATH, and `doctor` shows what was found."""

from __future__ import annotations

from pathlib import Path

import pytest

from csdfgen.cli import main
from csdfgen.cli.doctor import diagnose
from csdfgen.errors import ToolError
from sdf3_bridge.tools import KITER, SDF3, Family, find_tool
from tests.standin import Reply, stand_in

FAMILIES = pytest.mark.parametrize("family", [SDF3, KITER], ids=["sdf3", "kiter"])


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("CSDFGEN_SDF3", "CSDFGEN_KITER"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "path").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "path"))


@FAMILIES
def test_option_goes_first(family: Family, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = [
        stand_in(tmp_path / name, family.program, {}) for name in ("option", "variable", "path")
    ]
    found = find_tool(family)
    assert found is not None and (found.path, found.said_by) == (places[2], "PATH")
    monkeypatch.setenv(family.variable, str(places[1]))
    found = find_tool(family)
    assert found is not None and (found.path, found.said_by) == (places[1], family.variable)
    found = find_tool(family, str(tmp_path / "option"))
    assert found is not None and (found.path, found.said_by) == (places[0], family.option)


@FAMILIES
def test_absent(family: Family) -> None:
    assert find_tool(family) is None
    assert (find_tool(SDF3), find_tool(KITER)) == (None, None)


@pytest.mark.parametrize(
    ("family", "folder"),
    [
        (family, folder.replace("*", "Linux"))
        for family in (SDF3, KITER)
        for folder in family.folders
    ],
    ids=lambda value: value if isinstance(value, str) else value.title,
)
def test_folders_of_a_release(family: Family, folder: str, tmp_path: Path) -> None:
    path = stand_in(tmp_path / "release" / folder, family.program, {})
    found = find_tool(family, tmp_path / "release")
    assert found is not None and found.path.samefile(path)


def test_a_relative_place_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path / "here", SDF3.program, {})
    monkeypatch.chdir(tmp_path)
    found = find_tool(SDF3, "here")
    assert found is not None and found.version() == "1.0"


@FAMILIES
@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("none", "is not there"),
        ("path", "holds no "),
        ("file", "'file' is not a program that can be run"),
    ],
)
def test_a_wrong_place_is_told_and_nothing_else_tried(
    family: Family, place: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("text")
    wrong = tmp_path / place
    if place != "path":
        stand_in(tmp_path / "path", family.program, {})
    with pytest.raises(ToolError) as error:
        find_tool(family, wrong)
    assert str(error.value).startswith(f"{family.option}={wrong}: {message}")
    monkeypatch.setenv(family.variable, str(wrong))
    with pytest.raises(ToolError, match=f"{family.variable}="):
        find_tool(family)


@FAMILIES
def test_another_program_is_told(family: Family, tmp_path: Path) -> None:
    other = stand_in(
        tmp_path,
        "other",
        {"--help": Reply("sdf3analysis-sdf (version 1.0)\n"), "-h": Reply("Usage: other\n")},
    )
    found = find_tool(family, other)
    assert found is not None
    with pytest.raises(
        ToolError, match=rf"other: is not {family.program}: '{family.flag}' does not print"
    ):
        found.version()


def doctor(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> tuple[int, str, str]:
    monkeypatch.setenv("COLUMNS", "400")
    code = main(("doctor",))
    out, err = capfd.readouterr()
    return code, out, err


def test_no_tools(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = doctor(capfd, monkeypatch)
    assert code == 0
    for family in (SDF3, KITER):
        assert f"not installed; {family.variable} can point to it" in out
        assert (
            sum(finding.what == family.title and not finding.trouble for finding in diagnose()) == 1
        )


def test_doctor_with_tools(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [stand_in(tmp_path / "path", family.program, {}) for family in (SDF3, KITER)]
    code, out, _ = doctor(capfd, monkeypatch)
    assert code == 0
    assert f"version 1.0 ({paths[0]}, by PATH)" in out
    assert f"version not told ({paths[1]}, by PATH)" in out


def test_doctor_with_a_wrong_place(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CSDFGEN_KITER", str(tmp_path / "none"))
    code, out, err = doctor(capfd, monkeypatch)
    assert code == 1
    assert "cannot be used" in out
    assert (
        err
        == f"Kiter: 1 trouble; CSDFGEN_KITER={tmp_path / 'none'}: is not there; Kiter is looked for at it\n"
    )
