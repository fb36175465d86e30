"""A small SDF3 file in parts, so that a test can change one of them."""

from __future__ import annotations

ACTORS = """<actor name='A'><port name='o' type='out' rate='2,1'/></actor>
<actor name='B'><port name='i' type='in' rate='1'/></actor>"""
CHANNEL = "<channel name='ab' srcActor='A' srcPort='o' dstActor='B' dstPort='i'/>"
TIMES = """<actorProperties actor='A'><processor type='p' default='true'><executionTime time='3,4'/></processor></actorProperties>
<actorProperties actor='B'><processor type='p' default='true'><executionTime time='5'/></processor></actorProperties>"""


def document(
    actors: str = ACTORS, channels: str = CHANNEL, properties: str = TIMES, kind: str = "csdf"
) -> bytes:
    """A file of two actors (lines 3 and 4), one channel (line 5) and their times (lines 8 and 9)."""
    return (
        f"<sdf3 type='{kind}' version='1.0'><applicationGraph name='g'>\n<{kind} name='g' type='g'>\n{actors}\n{channels}\n"
        f"</{kind}>\n<{kind}Properties>\n{properties}\n</{kind}Properties></applicationGraph></sdf3>"
    ).encode()
