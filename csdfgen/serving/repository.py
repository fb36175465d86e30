"""Which models are served, by which name, and in what memory each?

Models are files, names of the zoo, or a folder that is read again on request: models that are new there start, those that have
changed are replaced, and those that have gone stop, each after its open requests are answered.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from csdfgen.errors import CsdfgenError, InputError, PlanError, first_line, option, prefix_errors
from csdfgen.model.network import Network
from csdfgen.model.options import DEFAULTS
from csdfgen.model.several import is_several, name_networks
from csdfgen.model.units import parse_size
from csdfgen.reading.loader import load
from csdfgen.serving.engine import Engine
from csdfgen.serving.service import Service, plan

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_SUFFIX = ".onnx"


@dataclass(eq=False)
class Repository:
    """Engines by name. sources: model by name, as typed; folder: all models in it, too. memory: bytes of all models, None for
    any. given: arguments of `plan`; engine: of `Engine`; loading: of `load`. failed: how often each model could not be
    read again, "" for the folder; reasons: why the ones that failed last did.
    """

    sources: Mapping[str, str]
    folder: Path | None = None
    memory: int | str | None = None
    given: Mapping[str, Any] = field(default_factory=dict)
    engine: Mapping[str, Any] = field(default_factory=dict)
    loading: Mapping[str, Any] = field(default_factory=dict)
    engines: dict[str, Engine] = field(default_factory=dict, init=False)
    failed: Counter[str] = field(default_factory=Counter, init=False)
    reasons: dict[str, str] = field(default_factory=dict, init=False)
    _stamps: dict[str, tuple[str, float]] = field(default_factory=dict, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def start(self, progress: Callable[[str], None] = lambda name: None) -> None:
        """Load, plan and measure all models. Raises CsdfgenError, with the model in front."""
        with self._lock:
            found = self._find()
            services = self._planned(found, progress)
            for name, service in services.items():
                self.engines[name] = Engine(service, **self.engine)
            self._stamps = found

    def reload(self) -> list[str]:
        """Read the folder again; returns a line for everything that has changed, or could not. What could not be read leaves the
        model of its name as it runs, and all models if it is the folder.
        """
        said: list[str] = []
        with self._lock:
            self.reasons.clear()
            try:
                found = self._find()
            except (CsdfgenError, OSError) as error:
                return [self._fail("", error)]
            for name, stamp in found.items():
                if self._stamps.get(name) == stamp:
                    continue
                try:
                    (service,) = self._planned({name: stamp}, lambda name: None).values()
                    made = Engine(service, **self.engine)
                except Exception as error:
                    said.append(self._fail(name, error))
                    continue
                old = self.engines.get(name)
                self.engines[name] = made
                said.append(f"{name}: {'replaced' if old else 'started'}")
                if old is not None:
                    old.close()
                self._stamps[name] = stamp
            for name in [name for name in self.engines if name not in found]:
                self.engines.pop(name).close()
                self._stamps.pop(name, None)
                said.append(f"{name}: stopped")
        return said

    def _fail(self, name: str, error: Exception) -> str:
        """Note that a model could not be read; returns the line that says so."""
        self.failed[name] += 1
        known = isinstance(error, (CsdfgenError, OSError))
        why = (
            str(error) if known else f"internal error: {type(error).__name__}: {first_line(error)}"
        )
        self.reasons[name] = why
        runs = "what runs stays" if name in self.engines else "not loaded"
        return f"{name}: {runs}: {why}" if name else f"what runs stays: {why}"

    def index(self) -> list[dict[str, str]]:
        """The models as the protocol's extension lists them: those that run, and those that could not be read."""
        ready = {name: ("READY", self.reasons.get(name, "")) for name in list(self.engines)}
        others = {name: ("UNAVAILABLE", why) for name, why in list(self.reasons.items()) if name}
        return [
            {"name": name, "version": "1", "state": state, "reason": why}
            for name, (state, why) in sorted({**others, **ready}.items())
        ]

    def drain(self) -> None:
        """Let open requests finish without waiting for others to fill batches."""
        for engine in list(self.engines.values()):
            engine.drain()

    def close(self) -> None:
        """Answer what is open, and end all workers."""
        for engine in list(self.engines.values()):
            engine.close()

    def _find(self) -> dict[str, tuple[str, float]]:
        """Model and time of change by name. Raises InputError if there is none, and for a folder that cannot be read."""
        found = {name: (source, 0.0) for name, source in self.sources.items()}
        if self.folder is not None:
            try:
                names = sorted(self.folder.iterdir())
            except OSError as error:
                raise InputError(
                    f"cannot be read: {error.strerror}", where=str(self.folder)
                ) from None
            for path in names:
                if path.suffix == _SUFFIX and _NAME.fullmatch(path.stem) and path.stem not in found:
                    found[path.stem] = str(path), -1.0
                    with suppress(OSError):  # a link to nothing is a model, which cannot be loaded
                        found[path.stem] = str(path), path.stat().st_mtime
        if not found:
            raise InputError(f"has no {_SUFFIX} models", where=str(self.folder))
        return found

    def _planned(
        self, found: Mapping[str, tuple[str, float]], progress: Callable[[str], None]
    ) -> dict[str, Service]:
        """A service for each model; where all together exceed the memory, each gets its least and a share of the rest by its
        need. Raises CsdfgenError.
        """
        networks: dict[str, Network] = {}
        for name, (source, _) in found.items():
            progress(name)
            with prefix_errors(source):
                weights = self.given.get("weights", DEFAULTS.weights)
                networks[name] = load(source, weights=weights, **self.loading)
        made: dict[str, Service] = {}
        for name, network in networks.items():
            with prefix_errors(found[name][0]):
                made[name] = plan(network, **self.given)
        total = None if self.memory is None else parse_size(self.memory)
        # a model that is replaced answers what is open, in its own memory, while the new one runs
        others = sum(one.service.total_bytes for one in self.engines.values())
        wanted = sum(one.total_bytes for one in made.values())
        if total is None or others + wanted <= total:
            return made
        if len(made) == 1 and not others:
            ((name, network),) = networks.items()
            with prefix_errors(found[name][0]):
                return {name: plan(network, **{**self.given, "memory": total})}
        least = {name: self._least(network) for name, network in networks.items()}
        room = total - others - sum(least.values())
        if room < 0:
            raise PlanError(
                f"{option('memory', self.memory)}: {len(made)} models need {sum(least.values()):,} bytes at least"
                f"{f', those that run have {others:,}' if others else ''}; allow that, or lower {option('max_batch')}",
                least=others + sum(least.values()),
            )
        need = {name: max(0, one.total_bytes - least[name]) for name, one in made.items()}
        shares = {
            name: least[name] + room * need[name] // max(1, sum(need.values())) for name in made
        }
        return {
            name: plan(network, **{**self.given, "memory": shares[name]})
            for name, network in networks.items()
        }

    def _least(self, network: Network) -> int:
        try:
            return plan(network, **{**self.given, "memory": 1}).total_bytes
        except PlanError as error:
            return error.least


def name_models(models: Sequence[str], names: Sequence[str]) -> tuple[dict[str, str], Path | None]:
    """Models by name, and the folder if one is among them. names: of the first models; the others are called as their
    files. Raises InputError.
    """
    found: dict[str, str] = {}
    folder = None
    given = list(names)
    for model in models:
        if Path(model).is_dir():
            if folder is not None:
                raise InputError("is the second folder; one is served", where=model)
            folder = Path(model)
            continue
        stem = model.split(":", 1)[1] if model.startswith("zoo:") else Path(model).stem
        stem = name_networks(model) if is_several(model) else stem
        name = given.pop(0) if given else re.sub(r"[^A-Za-z0-9._-]", "_", stem)
        if not _NAME.fullmatch(name):
            raise InputError(
                f"{option('name', name[:40])}: letters, digits, '.', '_' and '-' are needed, at most 128"
            )
        if name in found:
            raise InputError(f"'{name}' is the name of two models; give {option('name')} for each")
        found[name] = model
    if given:
        raise InputError(f"{option('name', given[0])} is for no model; {len(found)} are given")
    return found, folder
