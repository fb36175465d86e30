"""`csdfgen devices`: which devices are known, and where does every number of a profile come from?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from rich.text import Text

from csdfgen.cli.terminal import console, plain, table
from csdfgen.devices.catalogue import HOST, HOST_FILE, device, device_names
from csdfgen.devices.profile import DeviceProfile, Quantity

__all__ = ["run_devices"]

_SHOWN_LAYERS = 12


def run_devices(name: str | None, as_json: bool) -> None:
    """List the devices, or show one. Raises InputError."""
    if name is not None:
        profile = device(name)
        if as_json:
            print(json.dumps(_as_json(profile), indent=2, allow_nan=False))
        else:
            _print_profile(profile)
        return
    profiles = [device(known) for known in device_names()]
    if HOST_FILE.exists():
        profiles.append(device(HOST))
    if as_json:
        print(json.dumps([_as_json(profile) for profile in profiles], indent=2, allow_nan=False))
    else:
        _print_list(profiles)


def _print_list(profiles: list[DeviceProfile]) -> None:
    rows = table("device", "usable memory", "cores", "times", "", right=("usable memory", "cores"))
    for profile in profiles:
        cores = f"{profile.processor.cores.value:.0f}"
        rows.add_row(
            profile.name,
            str(profile.memory.usable),
            cores,
            profile.kind,
            Text(plain(profile.title), style="dim"),
        )
    if not HOST_FILE.exists():
        rows.add_row(
            HOST,
            "",
            "",
            "not measured yet",
            Text(f"csdfgen profile -o {HOST_FILE} measures this machine", style="dim"),
        )
    out = console()
    out.print(rows)
    out.print(
        "\ncsdfgen devices NAME shows every number with its origin; csdfgen analyze MODEL --device NAME uses it."
    )


def _print_profile(profile: DeviceProfile) -> None:
    out = console()
    out.print(f"{plain(profile.name)}: {plain(profile.title)}; times {profile.kind}\n")
    rows = table("number", "value", "origin", "source", right=("value",))
    for key, number in _quantities(profile):
        rows.add_row(plain(key), str(number), number.origin, number.source)
    out.print(rows)
    if len(profile.layers) > _SHOWN_LAYERS:
        out.print(
            f"and {len(profile.layers) - _SHOWN_LAYERS} more layer shapes, in {plain(profile.where)} and with --json"
        )
    for title, texts in (("sources", profile.sources), ("conditions", profile.conditions)):
        if texts:
            out.print(f"\n{title}")
            listed = table("", "")
            listed.show_header = False
            for key, text in texts.items():
                listed.add_row(f"  {plain(key)}", Text(plain(text), style="dim"))
            out.print(listed)
    for note in profile.notes:
        out.print(f"\nnote: {plain(note)}", end="")
    out.print()


def _quantities(profile: DeviceProfile) -> Iterator[tuple[str, Quantity]]:
    """Every single number of a profile with its place; of measured layers the first ones."""
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


def _as_json(profile: DeviceProfile) -> dict[str, Any]:
    return {
        "name": profile.name,
        "title": profile.title,
        "times": profile.kind,
        "memory": _numbers_as_json(profile.memory),
        "processor": _numbers_as_json(profile.processor),
        "operators": [
            {
                "types": list(cost.types),
                "kernel": cost.kernel,
                **({"formats": cost.formats} if cost.formats else {}),
                **_numbers_as_json(cost),
            }
            for cost in profile.operators
        ],
        "layers": [
            {"key": layer.key, "rows": list(layer.rows), **_numbers_as_json(layer)}
            for layer in profile.layers.values()
        ],
        "sources": dict(profile.sources),
        "conditions": dict(profile.conditions),
        "notes": list(profile.notes),
    }


def _numbers_as_json(owner: Any) -> dict[str, Any]:
    found = {}
    for field in fields(owner):
        number = getattr(owner, field.name)
        if hasattr(number, "origin"):
            value = list(number.written) if isinstance(number.written, tuple) else number.written
            found[field.name] = {
                "value": value,
                "unit": number.unit,
                "origin": number.origin,
                "source": number.source,
            }
    return found
