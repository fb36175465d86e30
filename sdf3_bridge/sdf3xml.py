"""CSDF graphs as the XML of SDF3, both ways: `sdf3write` says how they are written, `sdf3read` what is read."""

from __future__ import annotations

from sdf3_bridge.sdf3read import from_xml, read
from sdf3_bridge.sdf3write import to_xml, write

__all__ = ["from_xml", "read", "to_xml", "write"]
