"""`csdfgen devices`: which devices are known, where does every number of a profile come from, and which devices of OpenCL
are there?
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from csdfgen.cli.command import Command, argument
from csdfgen.cli.options import JSON
from csdfgen.cli.terminal import dim_text, escape, say, say_json, table
from csdfgen.errors import InputError
from csdfgen.model.options import declare

if TYPE_CHECKING:
    from csdfgen.devices.profile import DeviceProfile, Quantity


_SHOWN_LAYERS = 12


@dataclass(frozen=True, kw_only=True)
class Devices(Command):
    """List the known devices, or show every number of one with its unit and origin."""

    examples = (
        "csdfgen devices",
        "csdfgen devices jetson-tx2",
        "csdfgen devices board.toml --json",
        "csdfgen devices --opencl",
    )

    name: str | None = argument("[NAME|FILE.toml]", "A device to show.", default=None)
    opencl: bool = declare(
        "List the OpenCL devices of this machine, for --backend opencl --cl-device N.", False
    )
    as_json: bool = declare("Print one JSON object instead of text.", False, names=JSON)

    def run(self) -> None:
        """List the devices, or show one. Raises InputError."""
        from csdfgen.devices.catalogue import HOST, HOST_FILE, device, device_names
        from csdfgen.devices.files import profile_to_json

        if self.opencl:
            if self.name is not None:
                raise InputError(
                    f"--opencl lists the devices of this machine, {self.name} is a profile; leave one of them out"
                )
            _show_opencl(self.as_json)
            return
        if self.name is not None:
            profile = device(self.name)
            if self.as_json:
                say_json(profile_to_json(profile))
            else:
                _show(profile)
            return
        profiles = [device(known) for known in device_names()]
        profiles += [device(HOST)] if HOST_FILE.exists() else []
        if self.as_json:
            say_json([profile_to_json(profile) for profile in profiles])
            return
        rows = [
            (
                one.name,
                str(one.memory.usable),
                f"{one.processor.cores.value:.0f}",
                one.kind,
                dim_text(one.title),
            )
            for one in profiles
        ]
        if not HOST_FILE.exists():
            how = dim_text(f"csdfgen profile -o {HOST_FILE} measures this machine")
            rows.append((HOST, "", "", "not measured yet", how))
        say(
            table("device", "> usable memory", "> cores", "times", "", rows=rows),
            "\ncsdfgen devices NAME shows every number with its origin; csdfgen analyze MODEL --device NAME uses it.",
        )


def _show_opencl(as_json: bool) -> None:
    """The devices of OpenCL on this machine. Raises ToolError where there is none."""
    from csdfgen.backends.opencl.devices import CHOICE, choose_device, devices

    found = [one.to_json() for one in devices()]
    if as_json:
        say_json(found)
        return
    facts = [key for key in found[0] if key != "number"]
    rows = [(key.replace("_", " "), *(_said(one[key]) for one in found)) for key in facts]
    say(
        table("device", *(str(one["number"]) for one in found), rows=rows),
        f"\nDevice {choose_device().number} computes by default; --cl-device N|NAME asks for another, {CHOICE} for all commands.",
    )


def _said(value: str | int) -> str:
    """A fact about a device."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else value


def _show(profile: DeviceProfile) -> None:
    numbers = ((key, str(one), one.origin, one.source) for key, one in _quantities(profile))
    say(
        f"{escape(profile.name)}: {escape(profile.title)}; times {profile.kind}\n",
        table("number", "> value", "origin", "source", rows=numbers),
    )
    more = len(profile.layers) - _SHOWN_LAYERS
    if more > 0:
        say(f"and {more} more layer shapes, in {escape(profile.where)} and with --json")
    for title, texts in (("sources", profile.sources), ("conditions", profile.conditions)):
        if texts:
            shown = table(
                "", "", rows=((f"  {key}", dim_text(text)) for key, text in texts.items())
            )
            shown.show_header = False
            say(f"\n{title}", shown)
    say(*[""] * bool(profile.notes), *(f"note: {escape(note)}" for note in profile.notes))


def _quantities(profile: DeviceProfile) -> Iterator[tuple[str, Quantity]]:
    """Every single number of a profile with its place; of measured layers the first ones."""
    from csdfgen.devices.profile import Quantity

    parts: list[tuple[str, Any]] = [("memory", profile.memory), ("processor", profile.processor)]
    parts += [
        (" ".join(filter(None, (", ".join(cost.types), cost.kernel, cost.formats))), cost)
        for cost in profile.operators
    ]
    parts += [(layer.key, layer) for layer in list(profile.layers.values())[:_SHOWN_LAYERS]]
    for place, part in parts:
        for field in fields(part):
            number = getattr(part, field.name)
            if isinstance(number, Quantity):
                yield f"{place}: {field.name}", number
