"""CSDF graphs as the XML of SDF3, both ways: `sdf3write` describes how they are written, `sdf3read` what
is read.
"""

from __future__ import annotations

from sdf3_bridge.sdf3read import Sdf3File, from_xml, read, read_file
from sdf3_bridge.sdf3write import to_xml, write
from sdf3_bridge.variants import WriteOptions, variant

__all__ = [
    "Sdf3File",
    "WriteOptions",
    "from_xml",
    "read",
    "read_file",
    "to_xml",
    "variant",
    "write",
]
