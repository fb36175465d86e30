"""How does text become kernels? A program for each kernel, built when it is first needed, its binary kept on disk.

A binary is known by the text, the options, the device and its driver. A file that is damaged, or that the driver does not
take, is built anew.
"""

from __future__ import annotations

import hashlib
import logging
import tempfile
import threading
from collections.abc import Callable
from time import perf_counter
from typing import Any

from csdfgen.backends.device.shapes import Blocks
from csdfgen.backends.device.sources import assemble_source
from csdfgen.cache import get_folder, prune, release, use
from csdfgen.errors import CsdfgenError, ToolError
from csdfgen.files import write_bytes

_LOG = logging.getLogger(__name__)


class BuildError(Exception):
    """Text that does not become a program, or a binary that is none; the text is the log."""


class Builder:
    """Programs of a device, by kernel. seconds: that their building took.

    folder: of their binaries in the cache. device: its name. known: what binaries depend on besides the text. compiled: a
    binary of text. loaded: a program of a binary. Both raise BuildError.
    """

    def __init__(
        self,
        folder: str,
        device: str,
        known: tuple[str, ...],
        blocks: Blocks,
        compiled: Callable[[str], tuple[Any, bytes]],
        loaded: Callable[[bytes], Any],
    ) -> None:
        self._folder, self._device, self._known, self._blocks = folder, device, known, blocks
        self._compiled, self._loaded = compiled, loaded
        self._made: dict[str, Any] = {}
        self._lock, self.seconds = threading.Lock(), 0.0

    def program(self, kernel: str) -> Any:
        """The built program of a kernel. Raises ToolError for one that does not build, with the first line of the log; the
        rest is in a file.
        """
        with self._lock:
            found = self._made.get(kernel)
            if found is None:
                start = perf_counter()
                found = self._made[kernel] = self._built(kernel)
                self.seconds += perf_counter() - start
        return found

    def _built(self, kernel: str) -> Any:
        text = assemble_source(kernel, self._blocks)
        key = hashlib.sha256("\0".join((*self._known, text)).encode()).hexdigest()
        file = None
        try:
            file = get_folder(self._folder) / f"{key}.bin"
            if use(file):
                return self._loaded(_checked(file.read_bytes()))
        except ToolError as error:
            _LOG.info("binaries are not kept: %s", error)
        except (ValueError, OSError, BuildError) as error:
            _LOG.info("%s is built anew: %s", file, error)
        finally:
            if file is not None:
                release(file)  # it is read as a whole
        try:
            made, content = self._compiled(text)
        except BuildError as error:
            raise ToolError(self._log(kernel, str(error))) from None
        if file is not None:
            try:
                write_bytes(file, hashlib.sha256(content).digest() + content, private=True)
                prune()
            except CsdfgenError as error:
                _LOG.info("the binary of %s is not kept: %s", kernel, error)
        return made

    def _log(self, kernel: str, log: str) -> str:
        lines = [line.strip() for line in log.splitlines() if "error" in line] or [log[:200]]
        with tempfile.NamedTemporaryFile(
            "w", prefix="csdfgen-", suffix=".log", delete=False
        ) as file:
            file.write(log)
        return f"kernel {kernel} does not build on {self._device}: {lines[0]} ({file.name} has the whole log)"


def _checked(content: bytes) -> bytes:
    """A binary behind its digest. Raises ValueError."""
    digest, binary = content[:32], content[32:]
    if hashlib.sha256(binary).digest() != digest:
        raise ValueError("the file is damaged")
    return binary
