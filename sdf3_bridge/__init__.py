"""The bridge to SDF3 and Kiter: their XML, names that survive what they print, and calls of the tools
(`sdf3_bridge.engines`).

sdf3xml.write("graph.xml", graph)
graph = sdf3xml.read("graph.xml")
"""

from __future__ import annotations

from sdf3_bridge import sdf3xml
from sdf3_bridge.names import decode_name, encode_name

__all__ = ["decode_name", "encode_name", "sdf3xml"]
