"""The bridge on every recorded graph and answer of SDF3 and Kiter: by stand-ins that replay them,
or by the tools themselves.

Where CSDFGEN_SDF3 or CSDFGEN_KITER is set, the tools themselves are asked, and must still say what
was recorded.
"""

from __future__ import annotations

import csv
import os
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from csdfgen.dataflow.graph import CsdfGraph
from csdfgen.errors import CsdfgenError, ToolError
from schedules.throughput import throughput
from sdf3_bridge.engines import analyze_kiter, analyze_sdf3
from sdf3_bridge.grammar import (
    read_consistency,
    read_repetition_vector,
    read_storage,
    read_throughput,
)
from sdf3_bridge.names import encode_name
from sdf3_bridge.sdf3read import read
from tests.graphs import SDF3_DATA, ring
from tests.standin import Reply, Transcript, read_transcript, stand_in

if not SDF3_DATA.exists():
    pytest.skip(
        "the recorded answers of SDF3 and Kiter are not beside the repository",
        allow_module_level=True,
    )

REAL = {name: os.environ.get(f"CSDFGEN_{name.upper()}") for name in ("sdf3", "kiter")}
"""Where the tools are, if they are."""

TRANSCRIPTS = {
    path.stem: read_transcript(path) for path in sorted((SDF3_DATA / "transcripts").glob("*.txt"))
}


def recorded() -> dict[str, dict[str, str]]:
    """Graph -> tool and what it was asked -> its answer, of those that ended well."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    with (SDF3_DATA / "expected.csv").open() as file:
        for row in csv.DictReader(file):
            if "/bad/" not in row["graph"] and row["exit_code"] in ("0", ""):
                asked = (
                    row["metric"]
                    if row["tool"] == "reference"
                    else f"{row['tool']} {row['command'].split()[-1]} {row['metric']}"
                )
                found[row["graph"]].setdefault(asked, row["value"])
    return {graph: answers for graph, answers in found.items() if "/s0" not in graph}


RECORDED = recorded()
RATE, VECTOR = (
    "sdf3analysis-csdf throughput throughput",
    "sdf3analysis-csdf repetition_vector repetition_vector",
)
K_PERIODIC = "kiter KPeriodicThroughput"

LOOPS_ADDED = {
    f"t{number}"
    for number in ("07", "08", "39", "40", "50", "55", "57", "59", "60", "61", "62", "63")
}
"""Graphs with actors of several phases and no self-loop: another graph is asked about than the one
recorded.
"""

SDF3_REFUSED = {
    "t14": "nothing limits it",
    "t17": "no cycle of the graph takes time",
    "t26": "has an execution time of 4294967296; SDF3 computes right below 4294967295",
    "t65": "every actor fires 225,225 times or more .* equal phase counts .* make it 13",
    "t66": "every actor fires 1,009,008 times or more .* make it 16",
    "t67": "every actor fires 16,842,752 times or more .* make it 257",
    "t76": "every actor fires 99,353,414,160 times or more .* make it 112",
}
"""Graphs on which SDF3 is wrong, or endless, or has no number to say; the README of the data names
the facts.
"""

KITER_REFUSED = {
    "t14": "UNKNOWN HOWARD ERROR",
    "t17": "UNKNOWN HOWARD ERROR",
    "t62": "UNKNOWN HOWARD ERROR",
    "t71": "UNKNOWN HOWARD ERROR.*; Kiter is not reliable where actors may overlap with themselves",
    "t72": r"printed a throughput of 0.2; the analysis here finds 1/14 .*; Kiter is not reliable",
}


def short(graph: str) -> str:
    """t14 of graphs/t14_open_nolooops.xml."""
    return Path(graph).name.partition("_")[0]


def encoded(reply: Reply) -> Reply:
    """What the tool would print of a graph whose names are written as ours are."""
    named = re.sub(
        r"(?<=name=')(\w+)(?=')|(?<=thr\()(\w+)(?=\))",
        lambda match: encode_name(match[0]),
        reply.stdout,
    )
    return replace(reply, stdout=named)


def of(key: str) -> list[str]:
    return sorted(graph for graph, answers in RECORDED.items() if key in answers)


@pytest.fixture
def sdf3(tmp_path: Path) -> Callable[[str], str | Path]:
    """The tool, or a stand-in with what was recorded for a graph."""

    def find(graph: str) -> str | Path:
        answers, path = RECORDED[graph], Path(graph)
        vector = "".join(
            f" [{encode_name(actor)}] = {count}\n"
            for actor, count in (item.split("=") for item in answers[VECTOR].split(";"))
        )
        replies = {
            "repetition_vector": Reply(f"Repetition vector:\n{vector}analysis time: 0.02ms\n"),
            "throughput": Reply(
                f"thr({encode_name(path.stem)}) = {answers.get(RATE)}\nanalysis time: 0.02ms\n"
            ),
        }
        for transcript in TRANSCRIPTS.values():
            if transcript.graph == graph and transcript.command[0] == "sdf3analysis-csdf":
                replies[transcript.algorithm] = encoded(transcript.reply)
        return REAL["sdf3"] or stand_in(tmp_path, "sdf3analysis-csdf", replies)

    return find


@pytest.fixture
def kiter(tmp_path: Path) -> Callable[[str], str | Path]:
    def find(graph: str) -> str | Path:
        answers = RECORDED[graph]
        names = (
            ("Throughput", "throughput"),
            ("Period", "period"),
            ("Scheduling Size", "scheduling_size"),
        )
        lines = (
            f"KPeriodic {name} is {answers[f'{K_PERIODIC} {metric}']:>20}\n"
            for name, metric in names
        )
        reply = Reply("".join(lines))
        if answers[f"{K_PERIODIC} throughput"] == "inf":
            reply = TRANSCRIPTS["kiter_kperiodic_inf"].reply
        return REAL["kiter"] or stand_in(tmp_path, "kiter", {"KPeriodicThroughput": reply})

    return find


@pytest.mark.parametrize("name", of(RATE))
def test_throughput_by_sdf3(name: str, sdf3: Callable[[str], str | Path]) -> None:
    graph, answers = read(SDF3_DATA / name), RECORDED[name]
    if short(name) in LOOPS_ADDED and not REAL["sdf3"]:
        pytest.skip(
            "a graph with self-loops added is asked about, of which nothing was recorded; CSDFGEN_SDF3 is not set"
        )
    if short(name) in SDF3_REFUSED:
        with pytest.raises(CsdfgenError, match=SDF3_REFUSED[short(name)]):
            analyze_sdf3(graph, tool=sdf3(name))
        return
    found = analyze_sdf3(graph, tool=sdf3(name))
    assert found.throughput is not None and found.tool is not None and found.throughput.exact
    if short(name) in LOOPS_ADDED:
        assert any("a one-token self-loop was added" in note for note in found.notes)
        return
    assert found.tool.printed == answers[RATE]
    assert found.notes == ()
    assert f"{float(found.throughput.value / found.tool.k):.6g}" == answers[RATE]
    if "throughput_exact" in answers:
        assert found.throughput.value == Fraction(answers["throughput_exact"])
    if "k" in answers:
        assert found.tool.k == int(answers["k"])


@pytest.mark.parametrize("name", of(f"{K_PERIODIC} throughput"))
def test_throughput_by_kiter(name: str, kiter: Callable[[str], str | Path]) -> None:
    graph, answers = read(SDF3_DATA / name), RECORDED[name]
    if short(name) in KITER_REFUSED:
        with pytest.raises(ToolError, match=KITER_REFUSED[short(name)]):
            analyze_kiter(graph, tool=kiter(name))
        return
    found = analyze_kiter(graph, tool=kiter(name))
    assert found.throughput is not None and found.tool is not None and found.throughput.exact
    assert found.tool.printed == answers[f"{K_PERIODIC} throughput"]
    if "throughput_exact" in answers:
        assert found.throughput.value == Fraction(answers["throughput_exact"])


STORAGE = [
    f"csdf_buffersize{name}"
    for name in (
        "",
        "_branch",
        "_csdf",
        "_first_point_zero",
        "_not_minimal",
        "_not_monotone",
        "_self_loop",
    )
]


@pytest.mark.parametrize("name", STORAGE)
def test_storage_by_sdf3(name: str, sdf3: Callable[[str], str | Path]) -> None:
    transcript = TRANSCRIPTS[name]
    graph = read(SDF3_DATA / transcript.graph)
    found = analyze_sdf3(graph, buffers="front", tool=sdf3(transcript.graph))
    assert found.buffers is not None and found.tool is not None
    # the printed points that nothing dominates, with their sizes less 2 a self-loop, and every one
    # as fast as it is printed
    loops = 2 * sum(channel.is_serial for channel in graph.channels)
    printed = [
        (rate, int(size) - loops)
        for rate, size in re.findall(r"thr='(\S+)' sz='(\d+)'", transcript.reply.stdout)
    ]
    best = [
        entry
        for number, entry in enumerate(printed)
        if float(entry[0]) > max([0.0, *(float(rate) for rate, _ in printed[:number])])
    ]
    assert [
        (f"{float(point.throughput / found.tool.k):.6g}", point.size) for point in found.buffers
    ] == best
    for point in found.buffers:
        assert throughput(graph, point.capacities).value == point.throughput
        assert sum(point.capacities.values()) == point.size


def test_deadlocked_storage_is_none(sdf3: Callable[[str], str | Path]) -> None:
    name = TRANSCRIPTS["csdf_buffersize_deadlock"].graph
    found = analyze_sdf3(read(SDF3_DATA / name), buffers="front", tool=sdf3(name))
    assert (found.buffers, found.deadlock is not None) == ((), True)


def test_overlap_loops_of_the_recorded_graph(sdf3: Callable[[str], str | Path]) -> None:
    """`t37`: nothing but the marker was recorded, with the loop; without it there is a front."""
    transcript = TRANSCRIPTS["csdf_buffersize_overlap"]
    graph = read(SDF3_DATA / transcript.graph)
    assert read_storage(transcript.reply.stdout, [channel.name for channel in graph.channels]) == []
    if REAL["sdf3"] is None:
        with pytest.raises(
            ToolError, match="not understood"
        ):  # the loop is not asked about, so an answer with it is none
            analyze_sdf3(graph, buffers="front", tool=sdf3(transcript.graph))
        return
    found = analyze_sdf3(graph, buffers="front", tool=sdf3(transcript.graph))
    assert found.buffers is not None and [point.size for point in found.buffers] == [7, 8, 9]


# Every transcript by itself ---------------------------------------------------------------------


def graph_of(transcript: Transcript) -> CsdfGraph:
    return read(SDF3_DATA / transcript.graph)


READERS: dict[str, Callable[[str, CsdfGraph], object]] = {
    "consistency": lambda text, _: read_consistency(text),
    "repetition_vector": lambda text, graph: read_repetition_vector(
        text, [actor.name for actor in graph.actors]
    ),
    "throughput": lambda text, graph: read_throughput(text, graph.name),
    "throughput(x)": lambda text, graph: read_throughput(text, graph.name),
    "buffersize": lambda text, graph: read_storage(
        text, [channel.name for channel in graph.channels]
    ),
}
NO_NUMBER = {
    "csdf_throughput_inf": "no cycle of the graph takes time",
    "csdf_throughput_negative": "its counters overflowed",
    "csdf_throughput_no_cycle": "nothing limits it",
}
SAID = [
    name
    for name, transcript in TRANSCRIPTS.items()
    if name.startswith("csdf_")
    and transcript.reply.exit_code == 0
    and transcript.algorithm in READERS
    and "/bad/" not in transcript.graph
]
FAILED = [
    name
    for name, transcript in TRANSCRIPTS.items()
    if name.startswith(("csdf_", "kiter_"))
    and transcript.reply.exit_code != 0
    and not name.endswith(("help_flag", "help"))
]


@pytest.mark.parametrize("name", SAID)
def test_every_recorded_answer_is_understood_or_refused(name: str) -> None:
    transcript = TRANSCRIPTS[name]
    graph, reader = graph_of(transcript), READERS[transcript.algorithm]
    if name in NO_NUMBER:
        with pytest.raises(ToolError, match=NO_NUMBER[name]):
            reader(transcript.reply.stdout, graph)
        return
    reader(transcript.reply.stdout, graph)


@pytest.mark.parametrize("name", SAID)
def test_an_answer_that_is_cut_anywhere_is_refused(name: str) -> None:
    """All but those cut behind the answer, before the line of timing."""
    if name in NO_NUMBER:
        pytest.skip("refused as a whole")
    transcript = TRANSCRIPTS[name]
    graph, reader, text = (
        graph_of(transcript),
        READERS[transcript.algorithm],
        transcript.reply.stdout,
    )
    end = len(text[: text.rindex("analysis time")].rstrip())
    for cut in range(0, end, max(1, end // 40)):
        with pytest.raises(ToolError):
            reader(text[:cut], graph)


@pytest.mark.parametrize("name", FAILED)
def test_every_recorded_failure_is_one_line(name: str, tmp_path: Path) -> None:
    transcript = TRANSCRIPTS[name]
    ask: Callable[..., object]
    if name.startswith("csdf_"):
        tool, ask = stand_in(tmp_path, "sdf3analysis-csdf", {"*": transcript.reply}), analyze_sdf3
    else:
        tool, ask = stand_in(tmp_path, "kiter", {"*": transcript.reply}), analyze_kiter
    with pytest.raises(ToolError) as error:
        ask(ring(), tool=tool, timeout=0.5 if transcript.reply.exit_code is None else 30.0)
    text, code, stderr = str(error.value), transcript.reply.exit_code, transcript.reply.stderr
    assert "\n" not in text and "\x1b" not in text and "Call stack" not in text
    if code is None:
        assert "gave no answer in 0.5 s" in text
    elif code < 0:
        assert re.search("was killed by SIG(SEGV|FPE|ABRT)", text)
    elif "Unknown analysis algorithm." in stderr or "Unsupported algorithm" in stderr:
        assert "this release does not know the algorithm; no fault of the graph" in text
    else:
        assert f"ended with exit code {code}: " in text


ONE_SIDED = SDF3_REFUSED.keys() | KITER_REFUSED.keys() | LOOPS_ADDED
"""Graphs on which not both have an answer."""


@pytest.mark.skipif(not all(REAL.values()), reason="CSDFGEN_SDF3 and CSDFGEN_KITER are not set")
@pytest.mark.parametrize(
    "name",
    [name for name in of(RATE) if short(name) not in ONE_SIDED] if all(REAL.values()) else ["-"],
)
def test_the_two_tools_and_we_agree(name: str) -> None:
    """Wherever both have a number."""
    graph = read(SDF3_DATA / name)
    answers = [
        analyze_sdf3(graph, tool=REAL["sdf3"]).throughput,
        analyze_kiter(graph, tool=REAL["kiter"]).throughput,
    ]
    assert {answer.value for answer in answers if answer is not None} == {throughput(graph).value}
