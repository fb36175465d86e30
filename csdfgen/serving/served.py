"""How do models of a repository get a server over HTTP? `csdfgen serve` and `csdfgen.serve` run it until a signal comes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from csdfgen.errors import InputError
from csdfgen.serving.repository import Repository


def serve_models(
    repository: Repository,
    limits: Mapping[str, Any],
    address: tuple[str, int],
    on_ready: Callable[[int], None],
    version: str,
    start: Callable[[], None],
) -> None:
    """Open the port, start the models, serve until a signal comes. limits: fields of `http.Limits`. start: starts the models of
    the repository. Raises InputError for a port that cannot be had, and without the packages of csdfgen[serve].
    """
    try:
        from csdfgen.serving.http import Limits, Server
    except ImportError as error:
        raise InputError(
            f"{error.name} is not installed; pip install 'csdfgen[serve]' has what the server needs"
        ) from None
    server = Server(repository, Limits(**limits), *address, on_ready, version)
    opened = server.listen()
    start()
    server.run([opened])
