"""SDF3 XML: written as both tools read it, read strictly, round trip without loss, reference graphs."""

from __future__ import annotations

import csv
import logging
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from csdfgen.errors import GraphError, InconsistentError, InputError
from csdfgen.graph import Actor, Channel, CsdfGraph, is_consistent, repetition_vector, with_serial_loops
from sdf3_bridge import decode_name, encode_name, sdf3xml
from tests.graphs import SDF3_DATA, SEEDED, consistent_graphs, convolution, ring

needs_data = pytest.mark.skipif(not SDF3_DATA.is_dir(), reason="the SDF3 reference graphs are not beside the repository")

GRAPHS = sorted((SDF3_DATA / "graphs").glob("*.xml"))
BAD = sorted((SDF3_DATA / "graphs" / "bad").glob("*.xml"))


def test_the_xml_is_what_both_tools_read() -> None:
    text = sdf3xml.to_xml(convolution(4)).decode()
    assert text.startswith(
        '<?xml version="1.0" encoding="UTF-8"?>\n<sdf3 type="csdf" version="1.0">\n <applicationGraph name="conv">'
    )
    assert '<actor name="conv" type="conv" function="Conv 3x3">' in text
    assert '<port name="in_in" type="in" rate="2,2*1,0"/>' in text
    assert (
        '<channel name="in" srcActor="src" srcPort="out_in" dstActor="conv" dstPort="in_in" size="40" channelKind="data"/>'
        in text
    )
    assert (
        '<channel name="serial_src" srcActor="src" srcPort="out_serial_src" dstActor="src" dstPort="in_serial_src"'
        ' initialTokens="1" size="0" channelKind="serial"/>' in text
    )
    assert '<processor type="p1" default="true"><executionTime time="4*3"/></processor>' in text
    root = etree.fromstring(text.encode())
    items = re.compile(r"(\d+\*)?\d+(,(\d+\*)?\d+)*")
    assert all(items.fullmatch(port.get("rate")) for port in root.iter("port"))
    ports = [(actor.get("name"), port.get("name")) for actor in root.iter("actor") for port in actor.iter("port")]
    ends = [(c.get(f"{side}Actor"), c.get(f"{side}Port")) for c in root.iter("channel") for side in ("src", "dst")]
    assert sorted(ports) == sorted(ends)
    assert len(set(ports)) == len(ports)


def test_serial_loops_are_an_option() -> None:
    assert sdf3xml.from_xml(sdf3xml.to_xml(convolution())) == with_serial_loops(convolution())
    assert sdf3xml.from_xml(sdf3xml.to_xml(convolution(), serial=False)) == convolution()


@given(consistent_graphs())
@SEEDED
def test_reading_what_was_written_gives_the_graph_back(graph: CsdfGraph) -> None:
    data = sdf3xml.to_xml(graph, serial=False)
    assert data == sdf3xml.to_xml(graph, serial=False)
    back = sdf3xml.from_xml(data)
    assert [replace(c, kind="data") for c in back.channels] == list(graph.channels)
    assert (back.name, back.actors) == (graph.name, graph.actors)


@given(st.text(), st.text(), st.text(alphabet="_xX5F2/"))
@SEEDED
def test_names_are_encoded_reversibly_and_apart(one: str, other: str, tricky: str) -> None:
    for name in (one, other, tricky, one + tricky):
        assert re.fullmatch(r"[A-Za-z0-9_]+", encode_name(name))
        assert decode_name(encode_name(name)) == name
    assert (encode_name(one) == encode_name(other)) == (one == other)


@given(st.lists(st.text(st.characters(), min_size=1), min_size=2, max_size=2, unique=True), st.text(min_size=1))
@SEEDED
def test_any_names_survive_the_file(names: list[str], channel: str) -> None:
    actors = tuple(Actor(name, (1,)) for name in names)
    graph = CsdfGraph(channel, actors, (Channel(channel, names[0], names[1], (1,), (1,)),))
    assert sdf3xml.from_xml(sdf3xml.to_xml(graph, serial=False)) == graph


def test_onnx_names_stay_readable() -> None:
    text = sdf3xml.to_xml(CsdfGraph("net", (Actor('/stem/Conv:0"é"', (1,)),), ())).decode()
    assert """originalName='/stem/Conv:0"é"'""" in text
    edited = text.replace("/stem/Conv", "/head/Conv")
    assert sdf3xml.from_xml(edited.encode()).actors[0].name == '/head/Conv:0"é"'


def test_large_numbers_are_written_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    graph = CsdfGraph("g", (Actor("A", (2**32 - 2,)),), ())
    sdf3xml.to_xml(graph)
    assert not caplog.messages
    sdf3xml.to_xml(CsdfGraph("g", (Actor("A", (2**32 - 1,)),), ()))
    assert caplog.messages == ["a time of actor 'A' is 4294967295; SDF3 computes with 32 bits and is wrong from 4294967295 on"]


def test_a_graph_that_no_tool_reads_is_not_written() -> None:
    with pytest.raises(GraphError, match="graph 'g': has no actor; SDF3 needs at least one"):
        sdf3xml.to_xml(CsdfGraph("g", (), ()))
    with pytest.raises(GraphError, match="its name is used twice"):
        sdf3xml.to_xml(CsdfGraph("g", (Actor("A", (1,)), Actor("A", (1,))), ()))


def test_write_and_read_a_file(tmp_path: Path) -> None:
    path = tmp_path / "g.xml"
    sdf3xml.write(path, ring())
    assert sdf3xml.read(path) == with_serial_loops(ring())


# -- reading ------------------------------------------------------------------------------------

ACTORS = """<actor name='A'><port name='o' type='out' rate='2,1'/></actor>
<actor name='B'><port name='i' type='in' rate='1'/></actor>"""
CHANNEL = "<channel name='ab' srcActor='A' srcPort='o' dstActor='B' dstPort='i'/>"
TIMES = """<actorProperties actor='A'><processor type='p' default='true'><executionTime time='3,4'/></processor></actorProperties>
<actorProperties actor='B'><processor type='p' default='true'><executionTime time='5'/></processor></actorProperties>"""


def document(actors: str = ACTORS, channels: str = CHANNEL, properties: str = TIMES, kind: str = "csdf") -> bytes:
    return (
        f"<sdf3 type='{kind}' version='1.0'><applicationGraph name='g'>\n<{kind} name='g' type='g'>\n{actors}\n{channels}\n"
        f"</{kind}>\n<{kind}Properties>\n{properties}\n</{kind}Properties></applicationGraph></sdf3>"
    ).encode()


def test_a_foreign_file_is_read() -> None:
    assert sdf3xml.from_xml(document()) == CsdfGraph(
        "g", (Actor("A", (3, 4)), Actor("B", (5,))), (Channel("ab", "A", "B", (2, 1), (1,)),)
    )


def test_an_sdf_graph_is_read_and_has_one_phase_an_actor() -> None:
    single = document(ACTORS.replace("2,1", "2"), properties=TIMES.replace("3,4", "3"), kind="sdf")
    assert [a.phases for a in sdf3xml.from_xml(single).actors] == [1, 1]
    with pytest.raises(GraphError, match="has 2 rates; a port of an 'sdf' graph has 1"):
        sdf3xml.from_xml(document(kind="sdf"))


def test_a_default_namespace_comments_and_latin_1_do_not_matter() -> None:
    text = document().decode().replace("<sdf3 ", "<sdf3 xmlns='http://www.es.ele.tue.nl/sdf3' ").replace("'ab'", "'äb'")
    data = f"<?xml version='1.0' encoding='ISO-8859-1'?><!-- <!DOCTYPE no --><?x y?>{text}".encode("latin-1")
    assert sdf3xml.from_xml(data).channels[0].name == "äb"


@pytest.mark.parametrize(
    ("processors", "times"),
    [
        ([("default='true'", 1), ("", 2)], 1),
        ([("default='true'", 1), ("default='true'", 2)], 2),
        ([("default='true'", 1), ("default='false'", 2)], 1),
        ([("default='false'", 1), ("", 2)], 1),
        ([("", 1), ("", 2)], 2),
        ([], 0),
    ],
)
def test_the_default_processor_counts(processors: list[tuple[str, int]], times: int) -> None:
    listed = "".join(f"<processor {mark}><executionTime time='{time}'/></processor>" for mark, time in processors)
    data = document(properties=f"<actorProperties actor='B'>{listed}</actorProperties>")
    assert sdf3xml.from_xml(data).actors[1].execution_times == (times,)


def test_several_property_blocks_are_joined() -> None:
    first, second = TIMES.split("\n")
    data = document(properties=f"{first}\n</csdfProperties>\n<csdfProperties>\n{second}")
    assert [a.execution_times for a in sdf3xml.from_xml(data).actors] == [(3, 4), (5,)]


def test_what_is_filled_in_or_dropped_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    extra = """<channelProperties channel='ab'><bufferSize sz='1'/><tokenSize sz='4'/></channelProperties>
<graphProperties><timeConstraints/></graphProperties>"""
    with caplog.at_level(logging.WARNING):
        graph = sdf3xml.from_xml(document(properties=extra), "g.xml")
    assert [a.execution_times for a in graph.actors] == [(0, 0), (0,)]
    assert caplog.messages == [
        "g.xml:3: <actor> 'A': has no execution time; 0 is taken (and 1 more)",
        "g.xml: not modelled and dropped: 1 bufferSize, 1 graphProperties, 1 tokenSize",
    ]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "g.xml:1: is not well-formed XML: Document is empty, line 1, column 1"),
        (document()[:-9], "g.xml:10: is not well-formed XML: "),
        (
            document().replace(b"<sdf3 ", b"<sdf4 ").replace(b"sdf3>", b"sdf4>"),
            "g.xml:1: <sdf4>: is the root element; 'sdf3' is needed",
        ),
        (document().replace(b"type='csdf'", b"type='xsdf'"), "g.xml:1: <sdf3>: type 'xsdf' is not 'sdf' or 'csdf'"),
        (
            document().replace(b"type='csdf'", b"type='fsmsadf'"),
            "g.xml:1: <sdf3>: type 'fsmsadf' is no SDF or CSDF graph; scenario and resource files are not supported",
        ),
        (document().replace(b"type='csdf'", b"type='sdf'"), "g.xml:2: <csdf> 'g': is in a file of type 'sdf'"),
        (
            b"<sdf3 type='sdf'><architectureGraph/></sdf3>",
            "g.xml:1: <sdf3>: holds 0 application graphs, 1 is needed; there is <architectureGraph>",
        ),
        (document(actors="", channels="", properties=""), "g.xml:2: <csdf> 'g': has no actor"),
        (document(ACTORS.replace("'B'", "'A'")), "g.xml:4: <actor> 'A': an actor of this name is in line 3 already"),
        (document(ACTORS.replace("'i' type='in'", "'i' type='inout'")), "g.xml:4: <port> 'i': type 'inout' is not 'in' or 'out'"),
        (
            document(ACTORS.replace("</actor>", "<port name='o' type='in' rate='1'/></actor>", 1)),
            "g.xml:3: <port> 'o': a port of this name is in line 3 already",
        ),
        (
            document(ACTORS.replace("</actor>", "<port name='p' type='in' rate='1'/></actor>", 1)),
            "g.xml:3: <port> 'p': its rate list has length 1, that of port 'o' 2; one rate per phase is needed",
        ),
        (document(ACTORS.replace("2,1", "2,-1")), "g.xml:3: <port> 'o': rate '-1' is negative"),
        (document(ACTORS.replace("2,1", "")), "g.xml:3: <port> 'o': 'rate' is empty"),
        (
            document(ACTORS.replace("2,1", "1;2")),
            "g.xml:3: <port> 'o': rate '1;2' has initial phases (Kiter's ';'), which are not supported",
        ),
        (
            document(ACTORS.replace("2,1", "18446744073709551617,1")),
            "g.xml:3: <port> 'o': rate '18446744073709551617' is larger than 9223372036854775807",
        ),
        (
            document(ACTORS.replace("2,1", "4000000000*1")),
            "g.xml:3: <port> 'o': rate list of 4000000000 entries or more; at most 10000000 are read",
        ),
        (document(channels=CHANNEL.replace("'B'", "'C'")), "g.xml:5: <channel> 'ab': dstActor 'C' is no actor of the graph"),
        (document(channels=CHANNEL.replace("'i'", "'j'")), "g.xml:5: <channel> 'ab': dstPort 'j' is no port of actor 'B'"),
        (
            document(channels=CHANNEL.replace("srcActor='A' srcPort='o'", "srcActor='B' srcPort='i'")),
            "g.xml:5: <channel> 'ab': srcPort 'i' is of type 'in'; 'out' is needed",
        ),
        (document(channels=CHANNEL * 2), "g.xml:5: <channel> 'ab': srcPort 'o' of actor 'A' is on another channel already"),
        (
            document(channels=CHANNEL.replace("/>", " initialTokens='-1'/>")),
            "g.xml:5: <channel> 'ab': initialTokens '-1' is negative",
        ),
        (
            document(channels=CHANNEL.replace("/>", " initialTokens='1,2'/>")),
            "g.xml:5: <channel> 'ab': initialTokens list of 2 entries or more; at most 1 are read",
        ),
        (
            document(channels=CHANNEL.replace("/>", " channelKind='fifo'/>")),
            "g.xml:5: <channel> 'ab': channelKind 'fifo' is not one of data, overlap, serial",
        ),
        (
            document(properties=TIMES.replace("3,4", "3")),
            "g.xml:8: <executionTime>: its time list has length 1, actor 'A' has 2 phase(s)",
        ),
        (
            document(properties=TIMES.replace("'B'", "'Z'")),
            "g.xml:9: <actorProperties> 'Z': is for an actor that the graph does not have",
        ),
        (
            document(properties="<channelProperties channel='z'/>"),
            "g.xml:8: <channelProperties> 'z': is for a channel that the graph does not have",
        ),
    ],
)
def test_a_wrong_file_is_refused_with_line_and_element(data: bytes, message: str) -> None:
    with pytest.raises(GraphError) as caught:
        sdf3xml.from_xml(data, "g.xml")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


LAUGHS = "<!DOCTYPE sdf3 [<!ENTITY a 'ha'>" + "".join(f"<!ENTITY a{i} '{'&a;' * 10}'>" for i in range(9)) + "]>"


@pytest.mark.parametrize(
    "prolog",
    [
        LAUGHS,
        f"<?xml version='1.0'?>\n<!-- > -->\n{LAUGHS}",
        "<!DOCTYPE sdf3 SYSTEM 'file:///etc/passwd'>",
        "<!DOCTYPE sdf3 [<!ENTITY x SYSTEM 'file:///etc/passwd'>]>",
        "<!DOCTYPE sdf3 [<!ENTITY % x SYSTEM 'http://127.0.0.1:9/x.dtd'> %x;]>",
    ],
)
def test_no_entity_is_ever_declared(prolog: str) -> None:
    data = prolog.encode() + document().replace(b"'g'", b"'&a;'")
    with pytest.raises(GraphError, match=r"^graph: has a DOCTYPE, which could declare entities"):
        sdf3xml.from_xml(data)
    for encoding in ("utf-16", "utf-7", "cp037"):
        hidden = f"<?xml version='1.0' encoding='{encoding}'?>{prolog.split('?>')[-1]}{document().decode()}".encode(encoding)
        with pytest.raises(GraphError):
            sdf3xml.from_xml(hidden)


def test_files_that_would_take_much_memory_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "large.xml"
    with path.open("wb") as file:
        file.truncate(200 * 2**20)
    with pytest.raises(InputError, match=r"holds 209715200 bytes; at most 67108864 are read$"):
        sdf3xml.read(path)
    with pytest.raises(GraphError, match=r"has 4000001 elements and attributes; at most 4000000 are read$"):
        sdf3xml.from_xml(b"<a>" + b"<b/>" * 4_000_000)
    with pytest.raises(GraphError, match="is not well-formed XML"):
        sdf3xml.from_xml(b"<a>" * 100_000)


# -- reference data -----------------------------------------------------------------------------


@needs_data
@pytest.mark.parametrize("path", GRAPHS, ids=[p.stem for p in GRAPHS])
def test_reference_graphs_are_read_and_their_repetition_vectors_found(path: Path) -> None:
    with (SDF3_DATA / "expected.csv").open(newline="") as file:
        wanted = {
            row["graph"]: row["value"]
            for row in csv.DictReader(file)
            if (row["tool"], row["metric"]) == ("reference", "repetition_vector")
        }
    graph = sdf3xml.read(path)
    pairs = (entry.split("=") for entry in wanted[f"graphs/{path.name}"].split(";"))
    assert repetition_vector(graph) == {actor: int(count) for actor, count in pairs}
    assert sdf3xml.from_xml(sdf3xml.to_xml(graph, serial=False)) == graph


READABLE = {
    "b04_no_type": "as Kiter reads it",
    "b08_no_properties": "times are only missing",
    "b09_inconsistent": "inconsistent, not malformed",
    "b10_inconsistent_dl": "inconsistent, not malformed",
    "b15_no_exectime": "times are only missing",
    "b16_no_default": "as Kiter reads it",
    "b19_port_unconnected": "as Kiter reads it",
    "b23_rate_space": "as SDF3 reads it",
    "b30_missing_graph_type": "not used",
    "b31_missing_actor_type": "not used",
    "b39_all_zero_rate": "inconsistent, not malformed",
    "b41_two_processors": "one is marked default",
    "b42_entity_attr_amp": "well-formed",
    "b44_source_without_input": "both tools read it",
    "b46_isolated_actor": "as SDF3 reads it",
}
"""Files of graphs/bad that mean something all the same, and why."""


@needs_data
@pytest.mark.parametrize("path", BAD, ids=[p.stem for p in BAD])
def test_bad_reference_graphs_give_one_line_or_mean_something(path: Path) -> None:
    if path.stem in READABLE:
        graph = sdf3xml.read(path)
        assert is_consistent(graph) == ("inconsistent" not in READABLE[path.stem])
        return
    with pytest.raises(GraphError) as caught:
        sdf3xml.read(path)
    assert not isinstance(caught.value, InconsistentError)
    assert re.match(rf"{re.escape(str(path))}:\d+: .+", str(caught.value))
    assert "\n" not in str(caught.value)
