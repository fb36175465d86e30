"""`python -m tests.planted record|run|table|dear`: notes which tests reach the faults, tries each, keeps what was found, and
writes which tests are dear, and which are cheap.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from zlib import crc32

from tests.planted import FOUND, ROOT, faults, found, summary
from tests.planted.run import cheap, dear, reached, record, try_faults


def keep_found(folder: Path) -> None:
    """Add the results of runs to those that are kept; the tier that finds a fault first counts."""
    tiers, kept = ("sample", "rest", "none"), found() if FOUND.exists() else {}
    for path in sorted(folder.glob("found-*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            one = json.loads(line)
            before, _ = kept.get(one["name"], ("none", ""))
            if tiers.index(one["tier"]) <= tiers.index(before):
                kept[one["name"]] = one["tier"], one["test"]
    rows = [
        "\t".join((kept[f.name][0], f.name, kept[f.name][1])) for f in faults() if f.name in kept
    ]
    FOUND.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.planted", description=__doc__)
    parser.add_argument(
        "what", choices=("record", "run", "dear", "table"), help="record comes first"
    )
    parser.add_argument(
        "--faults", default="", help="only those whose file or name has this regular expression"
    )
    parser.add_argument(
        "--part", default="1/1", help="K/N: the Kth of N parts, for several processes"
    )
    parser.add_argument("--tier", choices=("sample", "rest", "all"), default="all")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "planted")
    given, rest = parser.parse_known_args()
    given.out.mkdir(parents=True, exist_ok=True)
    everything, reach = faults(), given.out / "reach"
    if given.what == "record":
        for old in given.out.glob("reach.*"):
            old.unlink()
        return record(everything, reach, rest)
    if given.what == "table":
        keep_found(given.out)
        print(summary())
        return 0
    if given.what == "dear":
        for name, chosen in (("dear", dear), ("cheap", cheap)):
            lines = "".join(f"{one}\n" for one in chosen(reached(reach)))
            (ROOT / "tests" / f"{name}.txt").write_text(lines)
        return 0
    part, parts = map(int, given.part.split("/"))
    tests = reached(reach)
    results = given.out.absolute() / f"found-{part}.jsonl"
    done = (
        {json.loads(line)["name"] for line in results.read_text().splitlines()}
        if results.exists()
        else set()
    )
    mine = [one for one in everything[part - 1 :: parts] if one.name not in done]
    mine.sort(key=lambda one: crc32(one.name.encode()))  # of all rooms, wherever it ends
    tiers = ("sample", "rest") if given.tier == "all" else (given.tier,)

    def keep(result: dict[str, object]) -> None:
        with results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(result) + "\n")

    try_faults(
        [one for one in mine if re.search(given.faults, one.name)],
        tests,
        keep,
        tiers,
        rest or ["tests"],
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
