"""CSDF graphs: what is refused, repetition vectors, rate lists in short form, JSON both ways."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from csdfgen import files
from csdfgen.dataflow import graph_json
from csdfgen.dataflow.graph import (
    MAX_RATES,
    Actor,
    Channel,
    CsdfGraph,
    add_serial_loops,
    format_runs,
    parse_short_form,
    repetition_vector,
    validate,
)
from csdfgen.errors import GraphError, InconsistentError, InputError
from tests.graphs import SEEDED, consistent_graphs, convolution, ring

A, B = Actor("A", (1, 1)), Actor("B", (1,))
AB = Channel("ab", "A", "B", (1, 1), (1,))


def graph(*channels: Channel, actors: tuple[Actor, ...] = (A, B)) -> CsdfGraph:
    return CsdfGraph("g", actors, channels)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (graph(actors=(A, A)), "actor 'A': its name is used twice"),
        (graph(actors=(Actor("", (1,)),)), "an actor has an empty name"),
        (
            graph(actors=(Actor("A", ()),)),
            "actor 'A': has no phase; one execution time per phase is needed",
        ),
        (
            graph(actors=(Actor("A", (1, -4, 2)),)),
            "actor 'A': execution time -4 in phase 2 of 3 is negative",
        ),
        (graph(AB, AB), "channel 'ab': its name is used twice"),
        (graph(replace(AB, name="")), "the channel from 'A' to 'B' has an empty name"),
        (
            graph(replace(AB, target="C")),
            "channel 'ab': its target 'C' is not an actor of the graph",
        ),
        (
            graph(replace(AB, production=(1,))),
            "channel 'ab': has 1 source rates, but actor 'A' has 2 phases",
        ),
        (
            graph(replace(AB, consumption=(1, 1))),
            "channel 'ab': has 2 target rates, but actor 'B' has 1 phases",
        ),
        (
            graph(replace(AB, production=(1, -1))),
            "channel 'ab': source rate -1 in phase 2 of 2 is negative",
        ),
        (
            graph(replace(AB, initial_tokens=-1)),
            "channel 'ab': number of initial tokens -1 is negative",
        ),
        (
            graph(replace(AB, token_bytes=-8)),
            "channel 'ab': number of bytes per token -8 is negative",
        ),
        (
            graph(replace(AB, kind="fifo")),
            "channel 'ab': kind 'fifo' is not one of data, overlap, serial, space",
        ),  # type: ignore[arg-type]
    ],
)
def test_a_malformed_graph_is_refused_with_both_numbers(wrong: CsdfGraph, message: str) -> None:
    with pytest.raises(GraphError) as caught:
        validate(wrong)
    assert str(caught.value) == message


def test_repetition_vector_counts_firings_of_a_minimal_iteration() -> None:
    assert repetition_vector(convolution(8)) == {"src": 8, "conv": 8, "snk": 8}
    assert repetition_vector(graph(replace(AB, consumption=(3,)))) == {"A": 6, "B": 2}


def test_of_parts_that_nothing_connects_the_first_actors_make_equally_many_rounds() -> None:
    pair = graph(replace(AB, consumption=(6,)), actors=(A, B, Actor("C", (1, 1, 1))))
    assert repetition_vector(pair) == {"A": 6, "B": 1, "C": 9}


def test_a_channel_without_any_token_connects_nothing() -> None:
    assert repetition_vector(graph(replace(AB, production=(0, 0), consumption=(0,)))) == {
        "A": 2,
        "B": 1,
    }


def test_an_unbalanced_cycle_is_named_with_both_products() -> None:
    actors = (Actor("A", (1,)), Actor("B", (1,)), Actor("C", (1,)))
    channels = (
        Channel("ab", "A", "B", (1,), (2,)),
        Channel("bc", "B", "C", (1,), (1,)),
        Channel("ca", "C", "A", (3,), (1,)),
    )
    with pytest.raises(InconsistentError) as caught:
        repetition_vector(CsdfGraph("g", actors, channels))
    assert str(caught.value) == (
        "channel 'bc': out of balance on the cycle B - A - C - B: 'B' produces 1 * 3 = 3 tokens, 'C' consumes 1 * 2 = 2"
    )
    assert repetition_vector(CsdfGraph("g", actors, channels[:2]))


def test_a_channel_that_only_fills_is_inconsistent() -> None:
    with pytest.raises(
        InconsistentError, match=r"'A' produces 2 \* 1 = 2 tokens, 'B' consumes 0 \* 1 = 0$"
    ):
        repetition_vector(graph(replace(AB, consumption=(0,))))


def test_a_self_loop_must_give_back_what_it_takes() -> None:
    with pytest.raises(
        InconsistentError,
        match=r"on the cycle A - A: 'A' produces 3 \* 1 = 3 tokens, 'A' consumes 2",
    ):
        repetition_vector(graph(Channel("aa", "A", "A", (3, 0), (1, 1)), actors=(A,)))


def test_numbers_too_long_to_print_are_shortened_in_the_error() -> None:
    actors = tuple(Actor(f"a{i}", (1,)) for i in range(400))
    channels = [Channel(f"c{i}", f"a{i}", f"a{i + 1}", (2**61,), (2**61 - 1,)) for i in range(399)]
    with pytest.raises(
        GraphError, match=r"repetition vector with numbers of \d+ bits; at most 16384 are computed"
    ):
        repetition_vector(CsdfGraph("g", actors, tuple(channels)))
    channels[99:] = [Channel("back", "a99", "a0", (1,), (1,))]
    with pytest.raises(InconsistentError) as caught:
        repetition_vector(CsdfGraph("g", actors, tuple(channels)))
    assert len(str(caught.value)) < 500


@given(consistent_graphs())
@SEEDED
def test_the_repetition_vector_balances_every_channel(g: CsdfGraph) -> None:
    validate(g)
    firings = repetition_vector(g)
    phases = g.phases
    for c in g.channels:
        produced = sum(c.production) * firings[c.source] // phases[c.source]
        assert produced == sum(c.consumption) * firings[c.target] // phases[c.target]
    assert all(count > 0 and count % phases[name] == 0 for name, count in firings.items())


def test_serial_loops_are_added_where_none_is() -> None:
    once = add_serial_loops(convolution(4))
    assert [c.name for c in once.channels[3:]] == ["serial_src", "serial_conv", "serial_snk"]
    assert all(c.is_serial and c.kind == "serial" for c in once.channels[3:])
    assert add_serial_loops(once) == once
    clash = graph(replace(AB, name="serial_A"))
    assert [c.name for c in add_serial_loops(clash).channels] == [
        "serial_A",
        "serial_A_",
        "serial_B",
    ]


def test_short_form_of_rate_lists() -> None:
    assert format_runs([384, 192, 192, 256]) == "1*384,2*192,1*256"
    assert format_runs([384, 192, 192, 256], ones=False) == "384,2*192,256"
    assert parse_short_form("384, 2*192 ,256") == (384, 192, 192, 256)


@given(st.lists(st.integers(0, 3) | st.integers(0, 2**63 - 1), min_size=1), st.booleans())
@SEEDED
def test_short_form_is_lossless(values: list[int], ones: bool) -> None:
    assert list(parse_short_form(format_runs(values, ones=ones))) == values


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "rate is empty, or has an empty item"),
        ("1,,2", "rate is empty, or has an empty item"),
        ("2*", "rate is empty, or has an empty item"),
        ("*3", "the repeat of rate is empty, or has an empty item"),
        ("1,-2", "rate '-2' is negative"),
        ("1.5", "rate '1.5' is not a whole decimal number"),
        ("0x10", "rate '0x10' is not a whole decimal number"),
        ("१", "rate '१' is not a whole decimal number"),
        ("010", "rate '010' has a leading zero, which SDF3 reads as octal; write it without"),
        ("9223372036854775808", "rate '9223372036854775808' is larger than 9223372036854775807"),
        ("9" * 5000, f"rate '{'9' * 40}...' is larger than 9223372036854775807"),
        ("0*7", "rate list repeats an entry 0 times"),
        ("1," * 10_000_000, "rate list of 10000001 entries or more; at most 10000000 are read"),
        (
            "999999999999*1,1",
            "rate list of 999999999999 entries or more; at most 10000000 are read",
        ),
    ],
)
def test_a_wrong_rate_list_is_refused(text: str, message: str) -> None:
    with pytest.raises(GraphError) as caught:
        parse_short_form(text)
    assert str(caught.value) == message


@given(consistent_graphs())
@SEEDED
def test_json_gives_the_graph_back(g: CsdfGraph) -> None:
    assert graph_json.from_json(json.loads(json.dumps(graph_json.to_json(g)))) == g


def test_a_graph_file_keeps_everything(tmp_path: Path) -> None:
    weird = replace(convolution(), name='ünïcode \udcff "x"\n')
    weird = replace(weird, actors=(replace(weird.actors[0], function="a/b:c"), *weird.actors[1:]))
    path = tmp_path / "g.json"
    graph_json.write_graph(path, weird)
    first = path.read_bytes()
    assert graph_json.read_graph(path) == weird
    graph_json.write_graph(path, weird)
    assert path.read_bytes() == first
    assert b'"consumption": "1*2,6*1,1*0"' in first
    assert [p.name for p in tmp_path.iterdir()] == ["g.json"]


def _change(path: tuple[object, ...], value: object) -> object:
    """The JSON of a ring with one value changed; `...` removes the key."""
    data = graph_json.to_json(ring())
    inner: object = data
    for key in path[:-1]:
        inner = inner[key]  # type: ignore[index]
    if value is ...:
        del inner[path[-1]]  # type: ignore[attr-defined]
    else:
        inner[path[-1]] = value  # type: ignore[index]
    return data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "g.json: is []; an object is needed"),
        (_change(("format",), ...), "g.json: has no 'format'; a string is needed"),
        (_change(("format",), "plan"), "g.json: 'format' is 'plan'; 'csdfgen-graph' is needed"),
        (
            _change(("version",), 2),
            "g.json: 'version' is 2; this program reads up to 1, a newer one wrote the file",
        ),
        (
            _change(("version",), "1"),
            "g.json: 'version' is '1'; a whole number from 1 to 9223372036854775807 is needed",
        ),
        (_change(("actors",), {}), "g.json: 'actors' is {}; a list is needed"),
        (_change(("actors", 0), 7), "g.json: actors[0]: is 7; an object is needed"),
        (
            _change(("actors", 1, "name"), None),
            "g.json: actors[1]: 'name' is None; a string is needed",
        ),
        (_change(("actors", 1, "name"), "A"), "g.json: actor 'A': its name is used twice"),
        (
            _change(("actors", 0, "execution_times"), "1*x"),
            "g.json: actors[0]: execution_times: execution times 'x' is not a whole decimal number",
        ),
        (
            _change(("channels", 0, "production"), "10000001*1"),
            f"g.json: channels[0]: production: production list of 10000001 entries or more; at most {MAX_RATES - 2} are read",
        ),
        (
            _change(("channels", 0, "initial_tokens"), -1),
            "g.json: channels[0]: 'initial_tokens' is -1; a whole number from 0 to 9223372036854775807 is needed",
        ),
        (
            _change(("channels", 0, "initial_tokens"), True),
            "g.json: channels[0]: 'initial_tokens' is True; a whole number from 0 to 9223372036854775807 is needed",
        ),
        (
            _change(("channels", 1, "kind"), "fifo"),
            "g.json: channels[1]: 'kind' is 'fifo'; one of data, overlap, serial, space is needed",
        ),
        (
            _change(("channels", 1, "target"), "C"),
            "g.json: channel 'ba': its target 'C' is not an actor of the graph",
        ),
    ],
)
def test_a_wrong_graph_file_is_refused_with_its_place(data: object, message: str) -> None:
    with pytest.raises(GraphError) as caught:
        graph_json.from_json(data, "g.json")
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", ":1: is not JSON: Expecting value"),
        (b'{"a": 1,\n"b" 2}', ":2: is not JSON: Expecting ':' delimiter"),
        (b'{"a": 1, "a": 2}', ": is not JSON: key 'a' occurs twice in one object"),
        (b'{"a": NaN}', ": is not JSON: NaN is not a JSON number"),
        (b"[" * 100_000, ": is nested too deeply"),
        (b"\xff\xfe", ": is not JSON: 'utf-8' codec can't decode"),
        (b"9" * 10_000, ": is not JSON: Exceeds the limit"),
    ],
)
def test_a_file_that_is_not_json_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "g.json"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        graph_json.read_graph(path)
    assert str(caught.value).startswith(f"{path}{message}")
    assert "\n" not in str(caught.value)


def test_missing_large_and_unwritable_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        files.read_bytes(tmp_path / "none")
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        files.read_bytes(tmp_path)
    large = tmp_path / "large"
    large.write_bytes(b"x" * 11)
    with pytest.raises(InputError, match="holds 11 bytes; at most 10 are read"):
        files.read_bytes(large, limit=10)
    assert files.read_bytes(large, limit=11) == b"x" * 11
    with pytest.raises(InputError, match="cannot be written: No such file or directory"):
        files.write_bytes(tmp_path / "none" / "x", b"")


def test_an_interrupt_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x"
    files.write_bytes(path, b"old")

    def interrupted(self: Path, target: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        files.write_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["x"]
