"""The bridge to SDF3: graphs in its XML, names as its tools can print them.

sdf3xml.write("graph.xml", graph)
graph = sdf3xml.read("graph.xml")
"""

from __future__ import annotations

from sdf3_bridge import sdf3xml
from sdf3_bridge.names import decode_name, encode_name

__all__ = ["decode_name", "encode_name", "sdf3xml"]
