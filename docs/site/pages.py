"""The pages of the website: README, CHANGELOG and docs/ as they are in the repository, whose links work in both places.

README is the first page, and docs/index.md the page "guide". Links to files that are no page become their names.
"""

from __future__ import annotations

import posixpath
import re
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
MOVED = {"README.md": "index.md", "CHANGELOG.md": "changes.md", "docs/index.md": "guide.md"}
"""Path in the repository -> page."""

SECTIONS = {
    "Start": ("index.md", "guide.md", "start.md"),
    "How to": (),
    "Reference": ("reference.md", "options.md", "operators.md", "zoo.md", "model.md"),
    "How it works": ("how-it-works.md", "papers.md", "paper*.md", "batches.md", "lbci.md", "sdf3.md"),
    "Measured": ("performance.md", "memory.md", "networks.md", "int8.md", "tradeoffs.md"),
    "Developers": ("contributing.md", "decisions/index.md", "decisions/*.md", "changes.md"),
}  # fmt: skip
"""Pages that no other section names are uses."""

LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s#]*)((?:#[^()\s]*)?)\)")
FENCE = re.compile(r"^(```.*?^```$)", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are outside of docs/, and move the guide's first page."""
    files.remove(files.src_uris["index.md"])
    for source, page in MOVED.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    config.nav = _nav([file.src_uri for file in files.documentation_pages()])
    return files


def _nav(pages: list[str]) -> list[dict[str, list[str]]]:
    """Each section with its pages, in the order of the section, then of the guide."""
    guide = (ROOT / "docs" / "index.md").read_text()
    ordered = sorted(pages, key=lambda page: (guide.find(f"({page})") % (len(guide) + 1), page))
    named = {
        title: [page for one in patterns for page in ordered if fnmatch(page, one)]
        for title, patterns in SECTIONS.items()
    }
    taken = {page for found in named.values() for page in found}
    named["How to"] = [page for page in ordered if page not in taken]
    return [{title: list(dict.fromkeys(found))} for title, found in named.items()]


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The text with the site's links, and lists indented as Python's Markdown reads them."""
    source = {moved: one for one, moved in MOVED.items()}.get(
        page.file.src_uri, f"docs/{page.file.src_uri}"
    )
    parts = FENCE.split(markdown)
    parts[::2] = [
        re.sub(r"^((?: {2})+)", r"\1\1", LINK.sub(lambda link: _link(source, page, link), text), flags=re.MULTILINE)
        for text in parts[::2]
    ]  # fmt: skip
    return "".join(parts)


def _link(source: str, page: Any, link: re.Match[str]) -> str:
    """A link of a file of the repository, as the page has it."""
    image, text, target, anchor = link.groups()
    if not target or ":" in target:
        return link[0]
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    moved = MOVED.get(path, path.removeprefix("docs/"))
    if path not in MOVED and (moved == path or (ROOT / path).is_dir()):
        return text
    relative = posixpath.relpath(moved, posixpath.dirname(page.file.src_uri) or ".")
    return f"{image}[{text}]({relative}{anchor})"
