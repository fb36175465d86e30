"""Which devices are known, and which file does a name mean? The profiles shipped with csdfgen,
`host`, or any TOML file.
"""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from importlib import resources
from pathlib import Path

from csdfgen.devices.files import profile_from_toml, read_profile
from csdfgen.devices.profile import DeviceProfile
from csdfgen.errors import InputError

__all__ = ["HOST", "HOST_FILE", "device", "device_names"]

HOST = "host"
HOST_FILE = Path("host.toml")
"""Where `csdfgen profile` writes, and `--device host` looks: the current folder."""

_DATA = "data"


@cache
def device_names() -> tuple[str, ...]:
    """Names of the shipped profiles; `host` is not among them, it is made by `csdfgen profile`."""
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

    Raises InputError: no such device (with names that are near), or a profile that says something
        wrong.
    """
    if name.endswith(".toml"):
        return read_profile(name)
    if name == HOST:
        if not HOST_FILE.exists():
            raise InputError(
                f"is not measured yet: there is no {HOST_FILE} here; csdfgen profile -o {HOST_FILE} makes it",
                where=HOST,
            )
        return read_profile(HOST_FILE)
    known = device_names()
    if name not in known:
        near = get_close_matches(name, (*known, HOST), 3)
        said = (
            f"did you mean {' or '.join(near)}?"
            if near
            else f"known: {', '.join((*known, HOST))}, or a .toml file"
        )
        raise InputError(f"is no device that csdfgen knows; {said}", where=name)
    return _shipped(name)


@cache
def _shipped(name: str) -> DeviceProfile:
    """A profile that csdfgen ships, read once."""
    data = (resources.files(__package__) / _DATA / f"{name}.toml").read_bytes()
    return profile_from_toml(data, f"{name}.toml")
