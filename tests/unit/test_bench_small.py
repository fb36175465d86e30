"""Small networks: what the table compares with what."""

from __future__ import annotations

from benchmarks.bench_small import FASTEST, Small, draw, table


def test_a_call_is_compared_with_a_call_and_the_fastest_with_the_fastest() -> None:
    both = Small("a", {"call": 8e-5, "run_into": 5e-5, "run": 1e-4, "bound": 4e-5}, 0.1)
    call = Small("b", {"call": 2e-5, "run": 1e-5, "bound": 2e-5, "openvino": 4e-5}, 0.1)
    assert [round(one.ratio(), 3) for one in (both, call)] == [0.8, 2.0]
    assert [round(one.ratio(*FASTEST), 3) for one in (both, call)] == [1.25, 2.0]
    text = "\n".join(table([both, call]))
    assert "to onnxruntime's 1.26, worst 2.00" in text
    assert "to its fastest 1.58, worst 2.00; to openvino 0.50" in text
    assert b"csdfgen, run_into" in draw([both, call])
