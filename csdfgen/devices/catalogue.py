"""Which devices are known, and which file does a name stand for? A profile that csdfgen ships, `host`, or a TOML file."""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from importlib import resources
from pathlib import Path

from csdfgen.devices.files import profile_from_toml, read_profile
from csdfgen.devices.profile import DeviceProfile
from csdfgen.errors import InputError

HOST = "host"
HOST_FILE = Path("host.toml")
"""The file that `csdfgen profile` writes and `--device host` reads, in the current folder; without it the machine is measured
in some seconds, once.
"""

_DATA = "data"


@cache
def device_names() -> tuple[str, ...]:
    """Names of the shipped profiles, without `host`, which `csdfgen profile` makes."""
    folder = resources.files(__package__) / _DATA
    return tuple(
        sorted(
            entry.name[: -len(".toml")]
            for entry in folder.iterdir()
            if entry.name.endswith(".toml")
        )
    )


def device(name: str) -> DeviceProfile:
    """The profile of a name or of a .toml file.

    Raises InputError for an unknown device (with similar names), and for a profile with a fault; for `host` ToolError too,
    without a compiler.
    """
    if name.endswith(".toml"):
        return read_profile(name)
    if name == HOST:
        if HOST_FILE.exists():
            return read_profile(HOST_FILE)
        from csdfgen.devices.host import host_profile  # what it measures with is heavy

        return host_profile()
    known = device_names()
    if name not in known:
        near = get_close_matches(name, (*known, HOST), 3)
        hint = (
            f"did you mean {' or '.join(near)}?"
            if near
            else f"known devices: {', '.join((*known, HOST))}, or a .toml file"
        )
        raise InputError(f"is not a known device; {hint}", where=name)
    return _shipped(name)


@cache
def _shipped(name: str) -> DeviceProfile:
    """A profile that csdfgen ships, read once."""
    data = (resources.files(__package__) / _DATA / f"{name}.toml").read_bytes()
    return profile_from_toml(data, f"{name}.toml")
