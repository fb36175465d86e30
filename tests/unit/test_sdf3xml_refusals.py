"""Bad SDF3 files, a row a case: one line that names file, line and element, in bounded time and
memory, nothing else opened.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from csdfgen.cli import main
from csdfgen.errors import GraphError
from schedules.analysis import analyze
from sdf3_bridge import sdf3xml
from tests.command import python
from tests.counting import count_calls
from tests.graphs import SDF3_DATA
from tests.sdf3_documents import ACTORS, CHANNEL, TIMES, document

ROOT = Path(__file__).resolve().parents[2]
RIGHT = document()
LONG = "x" * 200


def actors(old: str, new: str) -> bytes:
    """The file with a change in the lines of its actors."""
    assert old in ACTORS
    return document(ACTORS.replace(old, new, 1))


def channel(old: str, new: str) -> bytes:
    assert old in CHANNEL
    return document(channels=CHANNEL.replace(old, new, 1))


def times(old: str, new: str) -> bytes:
    assert old in TIMES
    return document(properties=TIMES.replace(old, new, 1))


def instead(old: str, new: str) -> bytes:
    """The file with a change anywhere, wherever it occurs."""
    assert old in RIGHT.decode()
    return RIGHT.replace(old.encode(), new.encode())


def entities(levels: int) -> str:
    """Declarations of which the last expands to 10 to the power of `levels` texts."""
    return "<!ENTITY a0 'ha'>" + "".join(
        f"<!ENTITY a{i} '{f'&a{i - 1};' * 10}'>" for i in range(1, levels + 1)
    )


REFUSED: list[tuple[bytes, str]] = [
    # not XML
    (b"", "1: is not well-formed XML: Document is empty, line 1, column 1"),
    (b"   \n  ", "2: is not well-formed XML: Start tag expected"),
    (b"hello, world", "1: is not well-formed XML: Start tag expected"),
    (b"\x7fELF\x02\x01\x01" + bytes(64), "1: has a NUL byte, which no text in UTF-8 has"),
    (RIGHT[:-9], "10: is not well-formed XML: "),
    (RIGHT[:160], "4: is not well-formed XML: "),
    (
        instead("</actor>\n", "</port>\n"),
        "3: is not well-formed XML: Opening and ending tag mismatch",
    ),
    (
        actors("name='A'", "name='A' name='A'"),
        "3: is not well-formed XML: Attribute name redefined",
    ),
    (RIGHT + RIGHT, "10: is not well-formed XML: Extra content at the end of the document"),
    (instead("'ab'", "'a\0b'"), "5: has a NUL byte, which no text in UTF-8 has"),
    (instead("'ab'", "'a\x1bb'"), "5: is not well-formed XML: "),
    (instead("'ab'", "'a&#27;b'"), "5: is not well-formed XML: xmlParseCharRef"),
    (gzip.compress(RIGHT), " is compressed (gzip); unpack it first"),
    (bz2.compress(RIGHT), " is compressed (bzip2); unpack it first"),
    (lzma.compress(RIGHT), " is compressed (xz); unpack it first"),
    # encodings
    (instead("'ab'", "'äb'").decode().encode("latin-1"), "5: is not well-formed XML: "),
    (RIGHT.decode().encode("utf-16"), "1: has a NUL byte"),
    (
        b"<?xml version='1.0' encoding='UTF-16'?>" + RIGHT,
        "1: is encoded as 'utf-16'; UTF-8 is needed",
    ),
    (
        b"<?xml version='1.0' encoding='utf-7'?>" + RIGHT,
        "1: is encoded as 'utf-7'; UTF-8 is needed",
    ),
    ("<?xml version='1.0' encoding='cp037'?><!DOCTYPE s><s/>".encode("cp037"), ""),
    (
        b"<?xml version='1.0' encoding='%s'?>" % LONG.encode(),
        f"1: is encoded as '{LONG[:60]}...'; UTF-8",
    ),
    # entities
    (
        f"<!DOCTYPE sdf3 [{entities(9)}]>".encode() + instead("'ab'", "'&a9;'"),
        "1: has a DOCTYPE, which could declare entities; SDF3 files have none, remove it",
    ),
    (
        f"<!DOCTYPE s [<!ENTITY a '{'a' * 10**6}'>]><s>{'&a;' * 10**5}</s>".encode(),
        "1: has a DOCTYPE",
    ),
    (
        b"<?xml version='1.0'?>\n<!-- > -->\n<!DOCTYPE s [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><s>&x;</s>",
        "3: has a DOCTYPE",
    ),
    (b"<!DOCTYPE sdf3 SYSTEM 'http://127.0.0.1:9/x.dtd'>" + RIGHT, "1: has a DOCTYPE"),
    (b"<!DOCTYPE s [<!ENTITY % x SYSTEM 'http://127.0.0.1:9/x.dtd'> %x;]><s/>", "1: has a DOCTYPE"),
    (instead("'ab'", "'&x;'"), "5: is not well-formed XML: Entity 'x' not defined"),
    # size
    (b"<a>" * 10**6, "1: is not well-formed XML: Excessive depth in document"),
    (actors("</actor>", "<x>" * 300 + "</x>" * 300 + "</actor>"), "3: is not well-formed XML: "),
    (actors("2,1", "1," * 10**7 + "1"), "3: is not well-formed XML: "),
    (
        b"<a>" + b"<b/>" * 1_000_000,
        " has 1000001 elements and attributes; at most 1000000 are read",
    ),
    (
        actors("2,1", "1000000000*1"),
        "3: <port> 'o': rate list of 1000000000 entries or more; at most 10000000 are read",
    ),
    (
        actors("2,1", f"1{'0' * 40}*1"),
        f"3: <port> 'o': the repeat of rate '1{'0' * 39}...' is larger than ",
    ),
    (
        document(
            "<actor name='A'>"
            + "".join(f"<port name='p{i}' type='in' rate='1000000*1'/>" for i in range(11))
            + "</actor>"
        ),
        "3: <port> 'p10': rate list of 1000000 entries, after 10000000 before it; at most 10000000 of a graph are read",
    ),
    # other files of SDF3
    (instead("sdf3", "sdf4"), "1: <sdf4>: is the root element; 'sdf3' is needed"),
    (instead("type='csdf'", "type='xsdf'"), "1: <sdf3>: type 'xsdf' is not 'sdf' or 'csdf'"),
    (
        instead("type='csdf'", "type='sadf'"),
        "1: <sdf3>: type 'sadf' is a scenario-aware graph (SADF); only SDF and CSDF graphs are read",
    ),
    (
        instead("type='csdf'", "type='fsmsadf'"),
        "1: <sdf3>: type 'fsmsadf' is a scenario graph (FSM-SADF); only SDF and CSDF graphs are read",
    ),
    (
        b"<sdf3 type='csdf'>\n<applicationGraph name='g'>\n<scenariograph name='s'/></applicationGraph></sdf3>",
        "3: <scenariograph> 's': this is a scenario graph (FSM-SADF); only SDF and CSDF graphs are read",
    ),
    (
        b"<fsmsadf/>",
        "1: <fsmsadf>: type 'fsmsadf' is a scenario graph (FSM-SADF); only SDF and CSDF graphs are read",
    ),
    (
        b"<sdf3 type='sdf'>\n<architectureGraph name='arch'/></sdf3>",
        "2: <architectureGraph> 'arch': this is an architecture of tiles and connections; only SDF and CSDF graphs are read",
    ),
    (
        b"<sdf3 type='sdf'>\n<mapping appGraph='g'/></sdf3>",
        "2: <mapping>: this is a mapping to an architecture; only",
    ),
    (
        b"<sdf3 type='sdf'>\n<systemUsage/></sdf3>",
        "2: <systemUsage>: this is the resource usage of a system; only",
    ),
    (
        b"<sdf3 type='sdf'>\n<storageThroughputTradeOffs/></sdf3>",
        "2: <storageThroughputTradeOffs>: this is a result of SDF3's buffersize; only SDF and CSDF graphs are read",
    ),
    (
        b"<sdf3 type='sdf'>\n<settings type='generate'/></sdf3>",
        "2: <settings>: this is settings of a",
    ),
    (b"<sdf3 type='sdf'/>", "1: <sdf3>: holds 0 application graphs, 1 is needed; there is nothing"),
    (
        b"<sdf3 type='sdf'><applicationGraph/><applicationGraph/></sdf3>",
        "1: <sdf3>: holds 2 application graphs, 1 is needed; there is <applicationGraph>",
    ),
    (
        b"<sdf3 type='sdf'>\n<applicationGraph name='g'/></sdf3>",
        "2: <applicationGraph> 'g': holds 0 <sdf> or <csdf> elements; 1 is needed",
    ),
    (instead("sdf3 type='csdf'", "sdf3 type='sdf'"), "2: <csdf> 'g': is in a file of type 'sdf'"),
    # actors and ports
    (document("", "", ""), "2: <csdf> 'g': has no actor"),
    (actors("name='A'", ""), "3: <actor>: has no 'name'"),
    (actors("name='A'", "name=' '"), "3: <actor> '': 'name' is empty"),
    (actors("'B'", "'A'"), "4: <actor> 'A': an actor of this name is in line 3 already"),
    (
        actors("'B'", "'C' originalName='A'"),
        "4: <actor> 'C': an actor of this name is in line 3 already",
    ),
    (actors("name='o'", ""), "3: <port>: has no 'name'"),
    (actors("type='out'", ""), "3: <port> 'o': has no 'type'"),
    (actors("rate='1'", ""), "4: <port> 'i': has no 'rate'"),
    (actors("'in'", "'inout'"), "4: <port> 'i': type 'inout' is not 'in' or 'out'"),
    (
        actors("</actor>", "<port name='o' type='in' rate='1'/></actor>"),
        "3: <port> 'o': a port of this name is in line 3 already",
    ),
    (
        actors("</actor>", "<port name='p' type='in' rate='1'/></actor>"),
        "3: <port> 'p': its rate list has length 1, that of port 'o' 2; one rate per phase is needed",
    ),
    (
        actors("</actor>", "<port name='p' type='in' rate='3*1'/></actor>"),
        "3: <port> 'p': its rate list has length 3, that of port 'o' 2; one rate per phase is needed",
    ),
    (document(kind="sdf"), "3: <port> 'o': has 2 rates; a port of an 'sdf' graph has 1"),
    # numbers
    (actors("2,1", "2,-1"), "3: <port> 'o': rate '-1' is negative"),
    (actors("2,1", ""), "3: <port> 'o': 'rate' is empty"),
    (actors("2,1", "2,,1"), "3: <port> 'o': rate is empty, or has an empty item"),
    (actors("2,1", "2, ,1"), "3: <port> 'o': rate is empty, or has an empty item"),
    (actors("2,1", "2*"), "3: <port> 'o': rate is empty, or has an empty item"),
    (actors("2,1", "0*2"), "3: <port> 'o': rate list repeats an entry 0 times"),
    (actors("2,1", "-1*2"), "3: <port> 'o': the repeat of rate '-1' is negative"),
    (
        actors("2,1", "2*2*2"),
        "3: <port> 'o': the repeat of rate '2*2' is not a whole decimal number",
    ),
    (actors("2,1", "x"), "3: <port> 'o': rate 'x' is not a whole decimal number"),
    (actors("2,1", "1.5,1"), "3: <port> 'o': rate '1.5' is not a whole decimal number"),
    (actors("2,1", "0x10,1"), "3: <port> 'o': rate '0x10' is not a whole decimal number"),
    (actors("2,1", "٣,1"), "3: <port> 'o': rate '٣' is not a whole decimal number"),
    (
        actors("2,1", "010,1"),
        "3: <port> 'o': rate '010' has a leading zero, which SDF3 reads as octal; write it without",
    ),
    (
        actors("2,1", "1;2"),
        "3: <port> 'o': rate '1;2' has initial phases (Kiter's ';'), which are not supported",
    ),
    (actors("2,1", f"{2**63},1"), f"3: <port> 'o': rate '{2**63}' is larger than {2**63 - 1}"),
    (actors("2,1", "9" * 10**6), f"3: <port> 'o': rate '{'9' * 40}...' is larger than "),
    (
        channel("/>", " initialTokens='1,2'/>"),
        "5: <channel> 'ab': initialTokens list of 2 entries or more; at most 1 are read",
    ),
    (channel("/>", " initialTokens='-1'/>"), "5: <channel> 'ab': initialTokens '-1' is negative"),
    (
        channel("/>", f" initialTokens='{2**64}'/>"),
        f"5: <channel> 'ab': initialTokens '{2**64}' is larger than",
    ),
    (channel("/>", " initialTokens=''/>"), "5: <channel> 'ab': 'initialTokens' is empty"),
    (channel("/>", " size='-4'/>"), "5: <channel> 'ab': size '-4' is negative"),
    (times("3,4", "3,-4"), "8: <executionTime>: time '-4' is negative"),
    (times("3,4", "3,2.5"), "8: <executionTime>: time '2.5' is not a whole decimal number"),
    # channels
    (channel("name='ab'", ""), "5: <channel>: has no 'name'"),
    (
        document(channels=CHANNEL * 2),
        "5: <channel> 'ab': a channel of this name is in line 5 already",
    ),
    (
        document(channels=f"{CHANNEL}\n{CHANNEL.replace('ab', 'ba')}"),
        "6: <channel> 'ba': srcPort 'o' of actor 'A' is on another channel already",
    ),
    (channel("srcActor='A'", ""), "5: <channel> 'ab': has no 'srcActor'"),
    (channel("'B'", "'C'"), "5: <channel> 'ab': dstActor 'C' is no actor of the graph"),
    (
        channel("'B'", f"'{LONG}'"),
        f"5: <channel> 'ab': dstActor '{LONG[:60]}...' is no actor of the graph",
    ),
    (channel("dstPort='i'", ""), "5: <channel> 'ab': has no 'dstPort'"),
    (channel("'i'", "'j'"), "5: <channel> 'ab': dstPort 'j' is no port of actor 'B'"),
    (
        channel("srcActor='A' srcPort='o'", "srcActor='B' srcPort='i'"),
        "5: <channel> 'ab': srcPort 'i' is of type 'in'; 'out' is needed",
    ),
    (
        channel("/>", " channelKind='fifo'/>"),
        "5: <channel> 'ab': channelKind 'fifo' is not one of data, overlap, serial, space",
    ),
    # properties
    (times("3,4", "3"), "8: <executionTime>: its time list has length 1, phases of actor 'A': 2"),
    (times("3,4", "3*3"), "8: <executionTime>: its time list has length 3, phases of actor 'A': 2"),
    (times("3,4", ""), "8: <executionTime>: 'time' is empty"),
    (times("time='3,4'", ""), "8: <executionTime>: has no 'time'"),
    (times("'B'", "'Z'"), "9: <actorProperties> 'Z': is for an actor that the graph does not have"),
    (times(" actor='A'", ""), "8: <actorProperties>: has no 'actor'"),
    (
        document(properties="<channelProperties channel='z'/>"),
        "8: <channelProperties> 'z': is for a channel that the graph does not have",
    ),
    (
        document(
            properties="<channelProperties channel='ab'><bufferSize sz='-1'/></channelProperties>"
        ),
        "8: <bufferSize>: sz '-1' is negative",
    ),
    (
        document(properties="<channelProperties channel='ab'><tokenSize/></channelProperties>"),
        "8: <tokenSize>: has no 'sz'",
    ),
    (
        document(
            properties="<graphProperties><timeConstraints><throughput>fast</throughput></timeConstraints></graphProperties>"
        ),
        "8: <throughput>: throughput 'fast' is not a decimal number",
    ),
    (
        instead("type='g'", "type='g' csdfgen='{'"),
        "2: <csdf> 'g': attribute csdfgen:1: is not JSON: ",
    ),
    (document(channels="\n" * 200_000 + CHANNEL.replace("'B'", "'C'")), "20000"),
]
"""Case -> a file, and how the one line goes on behind the file's name and a colon."""


@pytest.mark.every
@pytest.mark.parametrize(("data", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_a_bad_file_is_refused_in_one_line(
    data: bytes, said: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.xml"
    path.write_bytes(data)
    calls, code = count_calls(lambda: main([str(path), "-o", str(tmp_path / "out.json")]))
    assert code == 1 and calls < 500_000
    printed = capfd.readouterr()
    assert printed.out == ""
    lines = printed.err.splitlines()
    assert len(lines) == 1 and len(lines[0]) < len(str(path)) + 250
    assert lines[0].startswith(f"{path}:{said}"), lines[0]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.xml"]


def test_what_is_no_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder, large, name = (
        tmp_path / "folder.xml",
        tmp_path / "large.xml",
        tmp_path / f"{LONG * 2}.xml",
    )
    folder.mkdir()
    with large.open("wb") as file:
        file.truncate(200 * 2**20)
    for path, said in (
        (folder, "cannot be read: Is a directory"),
        (tmp_path / "missing.xml", "cannot be read: No such file or directory"),
        (name, "cannot be read: File name too long"),
        (large, "holds 209715200 bytes; at most 67108864 are read"),
    ):
        assert main([str(path)]) == 1
        assert capfd.readouterr() == ("", f"{path}: {said}\n")


def phases(count: int, ports: int) -> str:
    """Actors of many ports and phases, as many as are read."""
    inside = "".join(f"<port name='p{i}' type='in' rate='{count}*1'/>" for i in range(ports))
    return f"<actor name='A'>{inside}</actor>"


@pytest.mark.parametrize(
    "make",
    [
        lambda: (
            b"<sdf3 type='csdf'><applicationGraph name='g'>"
            + b"<x/>" * 990_000
            + b"</applicationGraph></sdf3>"
        ),
        lambda: document("<actor name='A'>" + "<x a=''/>" * 490_000 + "</actor>"),
        lambda: document(
            "".join(
                f"<actor name='a{i}'><port name='p' type='in' rate='1'/></actor>"
                for i in range(120_000)
            ),
            "",
            "",
        ),
        lambda: document(phases(9_999_999, 1), "", ""),
        lambda: document(phases(100_000, 99), "", ""),
        lambda: document(f"<actor name='{'A' * 9_000_000}'/>" * 7, "", ""),
    ],
    ids=["elements", "attributes", "actors", "phases", "lists", "names"],
)
def test_the_largest_files(make: Callable[[], bytes], tmp_path: Path) -> None:
    path = tmp_path / "large.xml"
    path.write_bytes(make())
    assert path.stat().st_size < 64 * 2**20
    limit = 2 * 2**30
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = python(
        "-m",
        "csdfgen",
        path,
        "-o",
        tmp_path / "out.json",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 20
    if run.returncode == 1:
        assert run.stderr.startswith(f"{path}:") and len(run.stderr.splitlines()) == 1
    else:
        assert run.returncode == 0 and all(
            line.startswith(f"warning: {path}") for line in run.stderr.splitlines()
        )


# Reference data ---------------------------------------------------------------------------------

BAD = sorted((SDF3_DATA / "graphs" / "bad").glob("*.xml"))

MEANT: dict[str, tuple[str, str]] = {
    "b04_no_type": ("1/6", "as Kiter reads it"),
    "b08_no_properties": ("inf", "a graph without times, which both tools only refuse to time"),
    "b09_inconsistent": ("inconsistent", "well-formed; SDF3 does not end"),
    "b10_inconsistent_dl": ("inconsistent", "well-formed; SDF3 prints 0"),
    "b15_no_exectime": ("1/3", "a graph without the times of one actor; both tools crash"),
    "b16_no_default": ("1/6", "as Kiter reads it"),
    "b19_port_unconnected": ("1/6", "as Kiter reads it; SDF3 crashes"),
    "b23_rate_space": ("1/6", "as SDF3 reads it"),
    "b30_missing_graph_type": ("1/6", "as Kiter reads it; nothing depends on it"),
    "b31_missing_actor_type": ("1/6", "as Kiter reads it; nothing depends on it"),
    "b39_all_zero_rate": ("inconsistent", "well-formed; SDF3 prints 0"),
    "b41_two_processors": (
        "1/6",
        "as SDF3 reads it: one of two is marked default, Kiter takes the last one",
    ),
    "b42_entity_attr_amp": ("1/6", "well-formed, as both tools read it"),
    "b44_source_without_input": ("1/3", "as both tools read it"),
    "b46_isolated_actor": ("1/6", "as SDF3 reads it; Kiter crashes"),
}
"""Files of graphs/bad that are read -> throughput, and why."""

REFUSED_FILES: dict[str, str] = {
    "b01_malformed": "26: is not well-formed XML: Opening and ending tag mismatch",
    "b02_empty": "1: is not well-formed XML: Document is empty",
    "b03_not_xml": "1: is not well-formed XML: Start tag expected",
    "b05_type_sdf": "4: <csdf> 'base': is in a file of type 'sdf'",
    "b06_no_appgraph": "2: <sdf3>: holds 0 application graphs, 1 is needed; there is <applGraph>",
    "b07_no_csdf": "3: <applicationGraph> 'base': holds 0 <sdf> or <csdf> elements; 1 is needed",
    "b11_rate_too_short": "8: <port> 'o_ab': its rate list has length 1, that of port 'o_sl_A' 2",  # SDF3 repeats it
    "b12_rate_too_long": "8: <port> 'o_ab': its rate list has length 3, that of port 'o_sl_A' 2",  # SDF3 counts 3 times as many
    "b13_time_too_short": "23: <executionTime>: its time list has length 1, phases of actor 'A': 2",
    "b14_time_too_long": "23: <executionTime>: its time list has length 3, phases of actor 'A': 2",
    "b17_unknown_actor": "18: <channel> 'sl_B': dstActor 'Z' is no actor of the graph",
    "b18_unknown_port": "19: <channel> 'ab': dstPort 'zz' is no port of actor 'B'",
    "b20_dup_actor": "11: <actor> 'A': an actor of this name is in line 5 already",
    "b21_rate_text": "6: <port> 'o_sl_A': rate 'x' is not a whole decimal number",  # SDF3 reads 0
    "b22_rate_negative": "6: <port> 'o_sl_A': rate '-1' is negative",  # SDF3 does not end
    "b24_rate_blank_item": "6: <port> 'o_sl_A': rate is empty, or has an empty item",  # SDF3 aborts
    "b25_rate_empty": "6: <port> 'o_sl_A': 'rate' is empty",
    "b26_rate_star_tail": "6: <port> 'o_sl_A': rate is empty, or has an empty item",
    "b27_rate_octal": "6: <port> 'o_sl_A': rate '010' has a leading zero",  # 8 for SDF3, 10 for Kiter
    "b28_rate_float": "6: <port> 'o_sl_A': rate '1.5' is not a whole decimal number",  # both tools cut it
    "b29_missing_port_rate": "6: <port> 'o_sl_A': has no 'rate'",
    "b32_missing_channel_name": "19: <channel>: has no 'name'",
    "b33_wrong_port_dir": "19: <channel> 'ab': dstPort 'i_ab' is of type 'out'; 'in' is needed",
    "b34_bad_port_type": "14: <port> 'i_ab': type 'inout' is not 'in' or 'out'",  # SDF3 takes it for an input
    "b35_tokens_negative": "20: <channel> 'ab_bk': initialTokens '-2' is negative",  # SDF3 does not end, Kiter prints -0.25
    "b36_tokens_text": "20: <channel> 'ab_bk': initialTokens 'two' is not a whole decimal number",  # both tools read 0
    "b37_time_negative": "24: <executionTime>: time '-3' is negative",  # SDF3 prints 0, Kiter -0.166666667
    "b38_time_float": "24: <executionTime>: time '2.5' is not a whole decimal number",  # 2 for SDF3, 2.5 for Kiter
    "b40_no_actors": "1: <csdf> 'e': has no actor",
    "b43_init_phase_kiter": "6: <port> 'o_sl_A': rate '1;1,1' has initial phases (Kiter's ';')",  # SDF3 cuts it
    "b45_port_used_twice": "20: <channel> 'ab_bk': srcPort 'o_sl_B' of actor 'B' is on another channel already",
    "b47_actor_props_unknown": "24: <actorProperties> 'Z': is for an actor that the graph does not have",
    "b48_empty_time": "24: <executionTime>: 'time' is empty",
}
"""Files of graphs/bad that are refused, and how; where a tool answers all the same, what."""


@pytest.mark.skipif(not BAD, reason="the SDF3 reference graphs are not beside the repository")
def test_every_bad_reference_graph_is_decided_on() -> None:
    assert {path.stem for path in BAD} == {*MEANT, *REFUSED_FILES}


@pytest.mark.parametrize("path", BAD, ids=[path.stem for path in BAD])
def test_bad_reference_graphs_mean_something_or_are_refused(path: Path) -> None:
    if path.stem in MEANT:
        found = analyze(sdf3xml.read(path))
        assert (str(found.throughput.value) if found.throughput else "inconsistent") == MEANT[
            path.stem
        ][0]
        return
    with pytest.raises(GraphError) as caught:
        sdf3xml.read(path)
    assert str(caught.value).startswith(f"{path}:{REFUSED_FILES[path.stem]}")
    assert "\n" not in str(caught.value)
