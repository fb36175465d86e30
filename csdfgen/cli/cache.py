"""`csdfgen cache`: which files are kept to be used again, how many bytes do they take, and away with them."""

from __future__ import annotations

from dataclasses import dataclass

from csdfgen.cli.command import Command
from csdfgen.cli.options import JSON
from csdfgen.cli.terminal import escape, format_bytes, say, say_json, table
from csdfgen.model.options import declare
from csdfgen.model.units import pluralize


@dataclass(frozen=True, kw_only=True)
class Cache(Command):
    """Show the cached files: compiled kernels, packed weights, and the programs of csdfgen run. The least recently used
    are removed once all take more than 2 GiB, or CSDFGEN_CACHE_LIMIT.
    """

    examples = ("csdfgen cache", "csdfgen cache --clear", "csdfgen cache --json")

    clear: bool = declare("Remove all files that no process uses.", False)
    as_json: bool = declare("Print one JSON object instead of text.", False, names=JSON)

    def run(self) -> None:
        """Show what is kept, or remove it. Raises InputError for a limit that is no size."""
        from csdfgen.cache import limit, list_entries, places, remove
        from csdfgen.files import cache_folder

        most, removed = limit(), [one for one in list_entries() if self.clear and remove(one)]
        left, path = list_entries(), next(iter(places()), cache_folder(""))
        kinds = {
            kind: [one.nbytes for one in left if one.kind == kind]
            for kind in sorted({one.kind for one in left})
        }
        total = sum(one.nbytes for one in left)
        if self.as_json:
            figures = {k: {"files": len(sizes), "bytes": sum(sizes)} for k, sizes in kinds.items()}
            freed = {"files": len(removed), "bytes": sum(one.nbytes for one in removed)}
            found = {"path": str(path), "files": len(left), "bytes": total, "limit": most}
            say_json({**found, "kinds": figures, "removed": freed})
            return
        if self.clear:
            say(
                f"removed {pluralize(len(removed), 'file')}, {format_bytes(sum(one.nbytes for one in removed))}"
            )
        rows = ((kind, len(sizes), format_bytes(sum(sizes))) for kind, sizes in kinds.items())
        if kinds:
            say(table("kind", "files", "bytes", rows=rows))
        say(
            f"{escape(path)}: {pluralize(len(left), 'file')}, {format_bytes(total)}; the limit is {format_bytes(most)}"
        )
