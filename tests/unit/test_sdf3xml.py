"""SDF3 XML: written as both tools read it, read strictly, round trip without loss, reference
graphs.
"""

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

from csdfgen.dataflow.graph import Actor, Channel, CsdfGraph, add_serial_loops, repetition_vector
from csdfgen.errors import CapacityExceededError, GraphError
from sdf3_bridge import decode_name, encode_name, sdf3xml
from sdf3_bridge.sdf3xml import WriteOptions
from tests.graphs import SDF3_DATA, SEEDED, convolution, ring
from tests.sdf3_documents import ACTORS, CHANNEL, TIMES, document

needs_data = pytest.mark.skipif(
    not SDF3_DATA.is_dir(), reason="the SDF3 reference graphs are not beside the repository"
)

GRAPHS = sorted((SDF3_DATA / "graphs").glob("*.xml"))


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
    ports = [
        (actor.get("name"), port.get("name"))
        for actor in root.iter("actor")
        for port in actor.iter("port")
    ]
    ends = [
        (c.get(f"{side}Actor"), c.get(f"{side}Port"))
        for c in root.iter("channel")
        for side in ("src", "dst")
    ]
    assert sorted(ports) == sorted(ends)
    assert len(set(ports)) == len(ports)


def channels_of(graph: CsdfGraph, options: WriteOptions) -> list[str]:
    """Names of the channels in a file."""
    return [channel.name for channel in sdf3xml.from_xml(sdf3xml.to_xml(graph, options)).channels]


def test_self_loops_are_an_option() -> None:
    graph = convolution()
    serial = ["serial_src", "serial_conv", "serial_snk"]
    assert channels_of(graph, WriteOptions()) == [*serial, "in", "rows", "out"]  # serial ones first
    assert channels_of(graph, WriteOptions(overlap=False)) == [*serial, "in", "out"]
    assert channels_of(graph, WriteOptions(serial="keep")) == ["in", "rows", "out"]
    looped = add_serial_loops(graph)
    assert channels_of(looped, WriteOptions()) == ["in", "rows", "out", *serial]  # where they were
    assert channels_of(looped, WriteOptions(serial="keep", overlap=False)) == ["in", "out", *serial]
    assert channels_of(looped, WriteOptions(serial="drop")) == ["in", "rows", "out"]


def test_capacities_are_channels_back_or_sizes() -> None:
    graph = replace(
        convolution(4),
        channels=(*convolution(4).channels, Channel("idle", "src", "snk", (0,) * 4, (0,) * 4)),
    )
    capacities = {"in": 3, "rows": 4, "idle": 7}
    back = sdf3xml.from_xml(sdf3xml.to_xml(graph, WriteOptions("keep", capacities=capacities)))
    assert back.channels == (
        *graph.channels,
        Channel("space_in", "conv", "src", (2, 1, 1, 0), (1,) * 4, 3, 0, "space"),
        Channel("space_rows", "conv", "conv", (0, 2, 2, 2), (2, 2, 2, 0), 4, 0, "space"),
    )
    data = sdf3xml.to_xml(
        graph, WriteOptions("keep", overlap=False, capacities=capacities, capacities_as="sizes")
    )
    assert b'   <channelProperties channel="in"><bufferSize sz="3"/></channelProperties>\n' in data
    assert data.count(b"bufferSize") == 2  # the overlap took its own along
    with pytest.raises(
        GraphError, match="graph 'conv': has no channel 'no', which is given a capacity"
    ):
        sdf3xml.to_xml(graph, WriteOptions(capacities={"out": 1, "no": 2}))
    with pytest.raises(
        CapacityExceededError, match="channel 'ba': 1 initial tokens, but the capacity is 0"
    ):
        sdf3xml.to_xml(ring(), WriteOptions(capacities={"ba": 0}))


def test_rates_are_divided_by_their_gcd_together_with_the_tokens() -> None:
    channels = (
        Channel("whole", "A", "B", (6,), (4,), 8, 3),
        Channel("rest", "A", "B", (6,), (4,), 3, 3),
        Channel("none", "A", "B", (0,), (0,), 4, 3),
    )
    graph = CsdfGraph("g", (Actor("A", (1,)), Actor("B", (1,))), channels)
    options = WriteOptions(
        "keep", gcd=True, capacities={"whole": 15, "rest": 9}, capacities_as="sizes"
    )
    divided, sizes = sdf3xml.variant(graph, options)
    assert divided.channels == (Channel("whole", "A", "B", (3,), (2,), 4, 6), *channels[1:])
    assert sizes == {"whole": 7, "rest": 9}
    assert sdf3xml.from_xml(sdf3xml.to_xml(graph, options)) == divided
    heavy = replace(graph, channels=(replace(channels[0], token_bytes=2**62),))
    with pytest.raises(
        GraphError,
        match=r"channel 'whole': .* 2 tokens of 4611686018427387904 bytes in one are more than",
    ):
        sdf3xml.to_xml(heavy, options=WriteOptions(gcd=True))


def test_a_throughput_constraint_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "g.xml"
    sdf3xml.write(
        path,
        ring(),
        WriteOptions(capacities={"ab": 2}, capacities_as="sizes", throughput="0.00000003"),
    )
    assert (
        b"<timeConstraints><throughput>0.00000003</throughput></timeConstraints>"
        in path.read_bytes()
    )
    found = sdf3xml.read_file(path)
    assert (found.capacities, found.throughput) == ({"ab": 2}, "0.00000003")
    with pytest.raises(GraphError, match="throughput '1/5' is not a decimal number"):
        sdf3xml.to_xml(ring(), WriteOptions(throughput="1/5"))


@given(st.text(), st.text(), st.text(alphabet="_xX5F2/"))
@SEEDED
def test_names_are_encoded_reversibly_and_apart(one: str, other: str, tricky: str) -> None:
    for name in (one, other, tricky, one + tricky):
        assert re.fullmatch(r"[A-Za-z0-9_]+", encode_name(name))
        assert decode_name(encode_name(name)) == name
    assert (encode_name(one) == encode_name(other)) == (one == other)


@given(
    st.lists(st.text(st.characters(), min_size=1), min_size=2, max_size=2, unique=True),
    st.text(min_size=1),
)
@SEEDED
def test_any_names_survive_the_file(names: list[str], channel: str) -> None:
    actors = tuple(Actor(name, (1,)) for name in names)
    graph = CsdfGraph(channel, actors, (Channel(channel, names[0], names[1], (1,), (1,)),))
    assert sdf3xml.from_xml(sdf3xml.to_xml(graph, WriteOptions(serial="keep"))) == graph


def test_onnx_names_stay_readable() -> None:
    text = sdf3xml.to_xml(CsdfGraph("net", (Actor('/stem/Conv:0"é"', (1,)),), ())).decode()
    assert """originalName='/stem/Conv:0"é"'""" in text
    edited = text.replace("/stem/Conv", "/head/Conv")
    assert sdf3xml.from_xml(edited.encode()).actors[0].name == '/head/Conv:0"é"'


TIMED = (Actor("A", (2**32 - 2,)), Actor("B", (1,)))
PHASED = CsdfGraph(
    "g", (Actor("A", (1, 2)), Actor("B", (1,))), (Channel("ab", "A", "B", (1, 0), (1,)),)
)


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        (CsdfGraph("g", TIMED, ()), []),
        (
            CsdfGraph("g", (Actor("A", (1, 2**32 - 1)), Actor("B", (2**40,))), ()),
            [
                "a time of actor 'A' is 4294967295 (and 1 more); SDF3 takes more than 4294967294 for a deadlock"
            ],
        ),
        (
            CsdfGraph("g", TIMED, (Channel("ab", "A", "B", (2**31,), (1,)),)),
            [
                "graph 'g': SDF3 would count it wrongly, csdfgen does not: the number of firings of actor 'B' in an iteration "
                "of SDF3 is 2,147,483,648; SDF3 counts right below 2,147,483,648"
            ],
        ),
        (
            CsdfGraph(
                "g",
                (Actor("A", (1,) * 256), Actor("B", (1,) * 257)),
                (Channel("ab", "A", "B", (1,) * 256, (1,) * 257),),
            ),
            [
                "graph 'g': SDF3 would count it wrongly, csdfgen does not: every actor fires 65,792 times or "
                "more in an iteration ('A' the fewest), and SDF3's counters hold only if one fires fewer than 65,536 times"
            ],
        ),
        (
            CsdfGraph(
                "g",
                TIMED,
                (Channel("ab", "A", "B", (1,), (2,)), Channel("ba", "B", "A", (1,), (1,))),
            ),
            [
                "channel 'ba': out of balance on the cycle B - A - B: 'B' produces 1 * 1 = 1 tokens, 'A' consumes 1 * 2 = 2; "
                "SDF3 does not end on an inconsistent graph"
            ],
        ),
        (
            CsdfGraph("g", TIMED, (Channel("ab", "A", "B", (1,), (2**32,)),)),
            [
                "a rate of channel 'ab' is 4294967296; SDF3 keeps 32 bits, at most 4294967295, and cuts more without a word"
            ],
        ),
        (
            CsdfGraph("g", TIMED, (Channel("ab", "A", "B", (1,), (1,), 2**32),)),
            [
                "the number of initial tokens of channel 'ab' is 4294967296; SDF3 keeps 32 bits, at most 4294967295, and cuts "
                "more without a word"
            ],
        ),
        (
            CsdfGraph("g", TIMED, (Channel("ab", "A", "B", (0,), (0,)),)),
            [
                "channel 'ab' never carries a token; SDF3 calls a graph with such a channel inconsistent"
            ],
        ),
    ],
)
def test_wrongly_read(graph: CsdfGraph, said: list[str], caplog: pytest.LogCaptureFixture) -> None:
    sdf3xml.to_xml(graph)
    assert caplog.messages == said


def test_without_serial_loops_more_would_be_read_wrongly(caplog: pytest.LogCaptureFixture) -> None:
    sdf3xml.to_xml(PHASED)
    assert not caplog.messages
    sdf3xml.to_xml(
        replace(PHASED, actors=(*PHASED.actors, Actor("C", (1, 1)))), WriteOptions("keep")
    )
    assert caplog.messages == [
        "actor 'C' is on no channel; SDF3 and Kiter refuse such an actor; give it a serial self-loop",
        "actor 'A' has 2 phases and no serial self-loop; SDF3 counts overlapping firings of several phases wrongly",
    ]


def test_a_graph_that_no_tool_reads_is_not_written() -> None:
    with pytest.raises(GraphError, match="graph 'g': has no actor; SDF3 needs at least one"):
        sdf3xml.to_xml(CsdfGraph("g", (), ()))
    with pytest.raises(GraphError, match="its name is used twice"):
        sdf3xml.to_xml(CsdfGraph("g", (Actor("A", (1,)), Actor("A", (1,))), ()))


def test_write_and_read_a_file(tmp_path: Path) -> None:
    path = tmp_path / "g.xml"
    sdf3xml.write(path, ring())
    assert sdf3xml.read(path) == sdf3xml.variant(ring(), WriteOptions())[0]


# -- reading ------------------------------------------------------------------------------------


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
    text = (
        document()
        .decode()
        .replace("<sdf3 ", "<sdf3 xmlns='http://www.es.ele.tue.nl/sdf3' ")
        .replace("'ab'", "'äb'")
    )
    data = f"<?xml version='1.0' encoding='ISO-8859-1'?><!-- <!DOCTYPE no --><?x y?>{text}".encode(
        "latin-1"
    )
    assert sdf3xml.from_xml(data).channels[0].name == "äb"


@pytest.mark.parametrize(
    ("processors", "times"),
    [
        ([("default='true'", 1), ("", 2)], 1),
        ([("default='true'", 1), ("default='true'", 2)], 1),
        ([("", 3), ("default='true'", 1), ("default='true'", 2)], 1),
        ([("default='true'", 1), ("default='false'", 2)], 1),
        ([("default='false'", 1), ("", 2)], 1),
        ([("", 1), ("", 2)], 2),
        ([], 0),
    ],
)
def test_the_default_processor_counts(processors: list[tuple[str, int]], times: int) -> None:
    listed = "".join(
        f"<processor {mark}><executionTime time='{time}'/></processor>" for mark, time in processors
    )
    data = document(properties=f"<actorProperties actor='B'>{listed}</actorProperties>")
    assert sdf3xml.from_xml(data).actors[1].execution_times == (times,)


def test_two_default_processors_are_told_of_which_actor(caplog: pytest.LogCaptureFixture) -> None:
    """As in SDF3's h263decoder.xml."""
    listed = "".join(
        f"<processor type='{name}' default='true'><executionTime time='{time}'/></processor>"
        for name, time in (("arm", 26018), ("dsp", 10958))
    )
    other = "<processor type='fpga'><executionTime time='7'/></processor>"
    data = document(
        properties=f"<actorProperties actor='A'>{listed}{other}</actorProperties>\n"
        f"<actorProperties actor='B'>{listed}</actorProperties>".replace("26018", "26018,1", 1)
    )
    graph = sdf3xml.from_xml(data, "g.xml")
    assert [a.execution_times for a in graph.actors] == [(26018, 1), (26018,)]
    assert caplog.messages == [
        "g.xml:8: <actorProperties> 'A': marks processors 'arm' and 'dsp' as default; the time of the "
        "first is taken, SDF3 takes the last (and 1 more)",
        "g.xml: not modelled and dropped: 1 processor that is not the default",
    ]


def test_several_property_blocks_are_joined() -> None:
    first, second = TIMES.split("\n")
    data = document(properties=f"{first}\n</csdfProperties>\n<csdfProperties>\n{second}")
    assert [a.execution_times for a in sdf3xml.from_xml(data).actors] == [(3, 4), (5,)]


def test_what_is_filled_in_or_dropped_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    extra = """<channelProperties channel='ab'><bufferSize sz='1'/><tokenSize sz='32'/><tokenType type='t'/>
<bandwidth min='1'/></channelProperties>
<graphProperties><timeConstraints><throughput>0.1</throughput><latency>3</latency></timeConstraints></graphProperties>"""
    with caplog.at_level(logging.WARNING):
        graph = sdf3xml.from_xml(document(properties=extra), "g.xml")
    assert [a.execution_times for a in graph.actors] == [(0, 0), (0,)]
    assert caplog.messages == [
        "g.xml:3: <actor> 'A': has no execution time; 0 is taken (and 1 more)",
        "g.xml: not modelled and dropped: 1 bandwidth, 1 bufferSize, 1 latency constraint, 1 throughput constraint, 1 tokenType",
    ]
    assert graph.channels[0].token_bytes == 4


def test_an_attribute_that_is_not_read_is_named(caplog: pytest.LogCaptureFixture) -> None:
    space = "xmlns:xsi='http://www.w3.org/2001/XMLSchema-instance' xsi:noNamespaceSchemaLocation='http://127.0.0.1:9/x.xsd'"
    sized = "<channelProperties channel='ab'><bufferSize sz='3' src='1' dst='2'/><bufferSize mem='4'/></channelProperties>"
    text = document(
        ACTORS, CHANNEL.replace("/>", " initialToken='5' inBandwidth='1'/>"), TIMES + sized
    ).decode()
    text = text.replace("<sdf3 ", f"<sdf3 {space} ").replace(
        "default='true'", "default='true' name='p'"
    )
    assert sdf3xml.from_xml(text.encode(), "g.xml").channels[0].initial_tokens == 0
    assert caplog.messages == [
        "g.xml: not modelled and dropped: 2 bufferSize, 1 dst of bufferSize, 1 inBandwidth of channel, "
        "1 initialToken of channel, 1 mem of bufferSize, 2 name of processor, 1 src of bufferSize"
    ]


def test_warnings_stay_few_and_short(caplog: pytest.LogCaptureFixture) -> None:
    odd = "".join(f"<x{i:03}/>" for i in range(500)) + f"<{'y' * 5000}/>"
    ends = "".join(f"<port name='p{i}' type='in' rate='1'/>" for i in range(300))
    starts = ends.replace("'in'", "'out'")
    channels = "".join(
        f"<channel name='c{i}' srcActor='A' srcPort='p{i}' dstActor='B' dstPort='p{i}'/>"
        for i in range(300)
    )
    sizes = "".join(
        f"<channelProperties channel='c{i}'><tokenSize sz='{8 * i + 1}'/></channelProperties>"
        for i in range(300)
    )
    graph = sdf3xml.from_xml(
        document(
            f"{odd}<actor name='A'>{starts}</actor><actor name='B'>{ends}</actor>", channels, sizes
        ),
        "g.xml",
    )
    assert [channel.token_bytes for channel in graph.channels] == [i + 1 for i in range(300)]
    assert [message[: message.index(";")] for message in caplog.messages[:2]] == [
        "g.xml:3: <actor> 'A': has no execution time",
        "g.xml:4: <channel> 'c0': has tokens of 1 bits",
    ]
    assert len(caplog.messages) == 3 and caplog.messages[1].endswith(
        "; 1 bytes are taken (and 299 more)"
    )
    assert caplog.messages[2].endswith("1 x011, 489 kinds more") and len(caplog.messages[2]) < 200


def test_nothing_is_included(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "more.xml").write_text("<actor name='C'/>")
    include = f"<xi:include xmlns:xi='http://www.w3.org/2001/XInclude' href='{tmp_path}/more.xml'/>"
    data = f"<?xml-stylesheet href='file:///{tmp_path}/more.xml'?>".encode() + document(
        ACTORS + include
    )
    assert sdf3xml.from_xml(data, "g.xml") == sdf3xml.from_xml(document())
    assert caplog.messages == ["g.xml: not modelled and dropped: 1 include"]


@pytest.mark.parametrize(
    ("size", "bits", "taken", "said"),
    [
        ("", "32", 4, None),
        ("", "12", 2, "g.xml:5: <channel> 'ab': has tokens of 12 bits; 2 bytes are taken"),
        (" size='4'", "32", 4, None),
        (
            " size='40'",
            "32",
            40,
            "g.xml:5: <channel> 'ab': has tokens of size 40, and of 32 bits; its size counts",
        ),
    ],
)
def test_tokens_have_a_size_of_kiter_or_bits_of_sdf3(
    size: str, bits: str, taken: int, said: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    properties = (
        f"{TIMES}<channelProperties channel='ab'><tokenSize sz='{bits}'/></channelProperties>"
    )
    graph = sdf3xml.from_xml(
        document(channels=CHANNEL.replace("/>", f"{size}/>"), properties=properties), "g.xml"
    )
    assert graph.channels[0].token_bytes == taken
    assert caplog.messages == ([said] if said else [])


def test_what_is_said_twice_counts_last(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    twice = "<channelProperties channel='ab'><bufferSize sz='{}'/><tokenSize sz='{}'/></channelProperties>\n"
    limit = "<graphProperties><timeConstraints><throughput> {} </throughput></timeConstraints></graphProperties>\n"
    path = tmp_path / "g.xml"
    path.write_bytes(
        document(
            properties=TIMES
            + twice.format(1, 8)
            + twice.format(2, 16)
            + limit.format(3)
            + limit.format("4e-1")
        )
    )
    found = sdf3xml.read_file(path)
    assert (found.graph.channels[0].token_bytes, found.capacities, found.throughput) == (
        2,
        {"ab": 2},
        "4e-1",
    )
    assert caplog.messages == [
        f"{path}:10: <bufferSize>: gives the size of a buffer a second time; the last one counts",
        f"{path}:10: <tokenSize>: gives the bits of a token a second time; the last ones count",
        f"{path}:12: <throughput>: constrains the throughput a second time; the last one counts",
    ]


def test_what_an_actor_is_stays_where_it_is_not_its_name() -> None:
    named = document(
        ACTORS.replace("name='A'", "name='A' type='add'").replace("name='B'", "name='B' type='B'")
    )
    graph = sdf3xml.from_xml(named)
    assert [actor.function for actor in graph.actors] == ["add", ""]
    assert sdf3xml.from_xml(sdf3xml.to_xml(graph, WriteOptions("keep"))) == graph


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
    assert sdf3xml.from_xml(sdf3xml.to_xml(graph, WriteOptions(serial="keep"))) == graph


@needs_data
def test_what_kiter_writes_is_read_as_the_graph_that_it_read() -> None:
    text = (SDF3_DATA / "transcripts" / "kiter_printxml.txt").read_text()
    printed = sdf3xml.from_xml(text[text.index("<?xml") : text.index("\n=== stderr")].encode())
    known = sdf3xml.read(SDF3_DATA / "graphs" / "t01_ring.xml")
    assert printed.actors == known.actors
    assert {replace(c, name="") for c in printed.channels} == {
        replace(c, name="") for c in known.channels
    }
