"""Who computes? The backends, each in a folder of its own, and the registry that makes them."""

from types import MappingProxyType

__all__ = ["ALWAYS", "COMPILES", "FOLDERS", "OPENED"]

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

COMPILES = "native"
"""The backend that compiles programs to files."""

OPENED = f"{FOLDERS[COMPILES]}.opened"
"""The module whose `CompiledProgram` runs such a file."""
