"""How does text become kernels? A program for each kernel, built when it is first needed, its binary kept on disk.

A binary is known by the text, the options, the device and its driver. A file that is damaged, or that the driver does not
take, is built anew.
"""

from __future__ import annotations

import hashlib
import logging
import tempfile
import threading
import warnings
from typing import Any

from csdfgen.backends.device.shapes import Blocks
from csdfgen.backends.device.sources import text_of
from csdfgen.backends.native.build import cache_folder
from csdfgen.backends.opencl.devices import Device
from csdfgen.errors import InputError, ToolError
from csdfgen.files import write_bytes

__all__ = ["Builder"]

_LOG = logging.getLogger(__name__)


class Builder:
    """Kernels of a device, in a context of it. blocks: what their items compute."""

    OPTIONS = ("-cl-std=CL1.2",)

    def __init__(self, device: Device, context: Any) -> None:
        self._device, self._context = device, context
        self.blocks = Blocks.of(device.kind, device.lanes)
        self._made: dict[str, Any] = {}
        self._lock = threading.Lock()

    def program(self, kernel: str) -> Any:
        """The built program of a kernel. Raises ToolError for one that does not build, with the first line of the log; the
        rest is in a file.
        """
        with self._lock:
            found = self._made.get(kernel)
            if found is None:
                found = self._made[kernel] = self._built(kernel)
        return found

    def _built(self, kernel: str) -> Any:
        import pyopencl as cl

        text = text_of(kernel, self.blocks)
        file = cache_folder("opencl") / f"{self._digest(text)}.bin"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                binary = _checked(file.read_bytes())
                made = cl.Program(self._context, [self._device.handle], [binary])
                return made.build(options=list(self.OPTIONS))
        except FileNotFoundError:
            pass
        except (ValueError, OSError, cl.Error) as error:
            _LOG.info("%s is built anew: %s", file, error)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = cl.Program(self._context, text)
                made.build(
                    options=list(self.OPTIONS), cache_dir=False
                )  # kept here, not by pyopencl
        except cl.Error as error:
            raise ToolError(self._log(kernel, str(error))) from None
        try:
            content = made.get_info(cl.program_info.BINARIES)[0]
            file.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(file, hashlib.sha256(content).digest() + content)
        except (OSError, InputError) as error:
            _LOG.info("the binary of %s is not kept: %s", kernel, error)
        return made

    def _digest(self, text: str) -> str:
        device = self._device
        known = (device.name, device.platform, device.version, device.driver, *self.OPTIONS, text)
        return hashlib.sha256("\0".join(known).encode()).hexdigest()

    def _log(self, kernel: str, log: str) -> str:
        lines = [line.strip() for line in log.splitlines() if "error" in line] or [log[:200]]
        with tempfile.NamedTemporaryFile(
            "w", prefix="csdfgen-", suffix=".log", delete=False
        ) as file:
            file.write(log)
        return f"kernel {kernel} does not build on {self._device.name}: {lines[0]} ({file.name} has the whole log)"


def _checked(content: bytes) -> bytes:
    """A binary behind its digest. Raises ValueError."""
    digest, binary = content[:32], content[32:]
    if hashlib.sha256(binary).digest() != digest:
        raise ValueError("the file is damaged")
    return binary
