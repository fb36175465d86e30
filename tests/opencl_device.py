"""Is there a device of OpenCL that builds kernels?"""

from __future__ import annotations

from functools import cache

from csdfgen.errors import ToolError

__all__ = ["device_missing"]


@cache
def device_missing() -> str:
    """Why there is none here; "" if there is one. PyPI's PoCL knows no processor that is newer than itself."""
    try:
        from csdfgen.backends.opencl.devices import choose_device
        from csdfgen.backends.opencl.driver import OpenCL

        OpenCL(choose_device()).kernel("add_f32")
    except ToolError as error:
        return str(error)
    return ""
