"""What does each kind of layer take on this machine? Measured once, in some seconds, when a time is first predicted for it.

The profile is kept beside the library of kernels, by all that times depend on: the kernels, their compiler, the processor,
and the built-in layers. Medians of processor time bear other programs; `csdfgen profile` measures anew, for as long as wished.
"""

from __future__ import annotations

import datetime
import hashlib
import inspect
import logging
from dataclasses import replace
from functools import cache
from types import MappingProxyType

from csdfgen.backends.registry import find_backend, load_backend
from csdfgen.cache import get_folder, lock_folder, prune, use
from csdfgen.devices import facts, fitting, measure, samples, work
from csdfgen.devices.catalogue import HOST
from csdfgen.devices.files import profile_to_toml, read_profile
from csdfgen.devices.profile import DeviceProfile
from csdfgen.errors import InputError
from csdfgen.files import write_bytes
from csdfgen.stopping import interrupt_waits

_HEIGHTS: tuple[int | str, ...] = (1, 2, 4, 8, "whole")
_REPEATS = 5
_WAITS = logging.getLogger("csdfgen.waits")


@cache
def host_profile() -> DeviceProfile:
    """The profile of this machine with native kernels, by operator kind. Raises ToolError without a compiler or a cache."""
    kernels = load_backend(find_backend("emits"))
    parts = [kernels.name, kernels.code, *kernels.origin, facts.cpu_name()]
    parts += [inspect.getsource(one) for one in (fitting, measure, samples, work)]
    digest = hashlib.sha256("|".join(parts).encode()).hexdigest()[:24]
    folder = get_folder(kernels.name)
    path = folder / f"{HOST}-{digest}.toml"
    with interrupt_waits(), lock_folder(folder):
        if use(path):
            try:
                return read_profile(path)
            except InputError:  # damaged: measured again
                path.unlink(missing_ok=True)
        made = profile_to_toml(_measured(kernels.name, kernels.code)).encode()
        write_bytes(path, made, private=True)
        use(path)
    prune()
    return read_profile(path)


def _measured(backend: str, code: str) -> DeviceProfile:
    """Measure the built-in layers."""
    found = []
    models = [*samples.sample_models()]
    for done, one in enumerate(models):
        count = {"done": done, "total": len(models)}
        _WAITS.info("measuring the kernels once, about 10 s", extra=count)
        found.append(measure.sample_network(
            one.network, _HEIGHTS, _REPEATS, one.fuse, backend=backend, ways=one.ways, cached=one.cached
        ))  # fmt: skip
    today = datetime.date.today().isoformat()
    memory, processor = facts.machine()
    told = {
        "cpu": facts.cpu_name(),
        "kernels": code,
        "date": today,
        "load": facts.board_facts()["load"],
    }
    title = f"{facts.cpu_name()}, one core, native kernels, measured {today}"
    made = measure.make_profile(found, HOST, title, memory, processor, told)
    return replace(made, layers=MappingProxyType({}))  # of built-in layers: of no use to others
