"""A wheel with kernels runs natively where there is neither a compiler nor a cache, and compiles nothing."""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from csdfgen.backends.native.build import sources_digest
from csdfgen.backends.native.library import load
from csdfgen.backends.native.prebuilt import LEVELS, features, library_name
from tests.native_steps import compiler_missing
from tests.wheels import PLACE, flags_of, platform_wheel

pytestmark = [
    pytest.mark.skipif(bool(compiler_missing()), reason=compiler_missing() or "-"),
    pytest.mark.skipif(platform.machine() not in LEVELS, reason="wheels have no kernels for it"),
]

TAG = f"manylinux_2_17_{platform.machine()}.manylinux2014_{platform.machine()}"

FIRST = """
import json, sys, time
start = time.perf_counter()
import csdfgen, numpy
plan = csdfgen.plan(csdfgen.load(sys.argv[1]))
csdfgen.run(plan, numpy.zeros(plan.network.inputs[0].shape, numpy.float32))
seconds = time.perf_counter() - start
from csdfgen.backends.native.library import load
print(json.dumps([seconds, plan.options.backend, load().path.name]))
"""


@pytest.fixture(scope="module")
def platform_specific(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel with this machine's own library as that of its best level, as zig would need minutes."""
    made = load().path
    level = next(one for one in LEVELS[platform.machine()] if one.features <= features())
    name = library_name(level, sources_digest(), made)
    return platform_wheel(wheel, TAG, {name: made}, tmp_path_factory.mktemp("wheels"))


def test_the_wheel_says_what_it_is(platform_specific: Path) -> None:
    assert platform_specific.name.endswith(f"-py3-none-{TAG}.whl")
    with zipfile.ZipFile(platform_specific) as opened:
        (about,) = (name for name in opened.namelist() if name.endswith("/WHEEL"))
        lines = opened.read(about).decode().splitlines()
        assert opened.testzip() is None
        assert len([name for name in opened.namelist() if name.startswith(f"{PLACE}/")]) == 1
    assert "Root-Is-Purelib: false" in lines
    assert [f"Tag: py3-none-{one}" for one in TAG.split(".")] == [x for x in lines if "Tag" in x]


@pytest.mark.networks
def test_it_runs_without_a_compiler(platform_specific: Path, tmp_path: Path) -> None:
    """Installed by pip, which checks its tag and what it records, in an environment with an empty cache and no programs."""
    home = tmp_path / "home"
    venv.create(home, with_pip=False)
    python, empty = home / "bin" / "python", tmp_path / "empty"
    empty.mkdir()
    inside = Path(sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)}))
    pip = [sys.executable, "-m", "pip", "--python", str(python)]
    subprocess.run(
        [*pip, "install", "-qq", "--no-deps", "--no-index", platform_specific], check=True
    )
    others = [one for one in sys.path if one.endswith("site-packages")]  # numpy and the like
    (inside / "others.pth").write_text(f"import sys; sys.path += {others!r}\n")
    environment = {
        "PATH": str(empty),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "HOME": str(empty),
    }

    def ran(*command: str) -> str:
        done = subprocess.run(
            [python, *command], cwd=empty, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0 and "compiling" not in done.stderr, done.stderr
        return done.stdout

    seconds, backend, library = json.loads(ran("-c", FIRST, "zoo:resnet8"))
    assert backend == "native" and library.startswith("csdf-")
    print(f"the first frame is there after {seconds:.2f} s")
    said = ran("-m", "csdfgen", "run", "zoo:resnet8", "--check")
    assert re.search(r"^backend +native, kernels for ", said, re.M)
    assert re.search(r"^check +'probabilities': equal", said, re.M)
    assert not list((tmp_path / "cache").rglob("*.so"))
    assert str(inside) in ran("-c", "import csdfgen; print(csdfgen.__file__)")


def test_every_level_has_a_target_of_zig() -> None:
    for machine, levels in LEVELS.items():
        assert len({flags_of(machine, level) for level in levels}) == len(levels)
