"""Who computes? The backends, each in a folder of its own, and the registry that makes them."""

from types import MappingProxyType

__all__ = ["ALWAYS", "FOLDERS", "OPENED"]

FOLDERS = MappingProxyType(
    {
        "native": "csdfgen.backends.native",
        "numpy": "csdfgen.backends.numpy",
        "opencl": "csdfgen.backends.opencl",
        "cuda": "csdfgen.backends.cuda",
    }
)
"""Names of backends -> their folders, the first that a machine can have is the default."""

ALWAYS = "numpy"
"""The backend that every machine has."""

OPENED = "csdfgen.backends.native.opened"
"""The module whose `CompiledProgram` runs a file of the backend that compiles."""
