"""Every page of the website, and the pages that csdfgen writes, in a real browser: `python -m tests.site_check`, after
`make site`. Screenshots at the widths of a telephone and of a desk, light and dark, go into .site-check/.

A page fails where it is wider than a telephone, lacks a picture, logs an error, fetches from elsewhere, or breaks a name of
code in a table of a wide screen in its middle.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from csdfgen.cli import main as csdfgen
from tests.documents import ROOT

SITE, SHOTS = ROOT / "out" / "site", ROOT / ".site-check"
OURS = "own"
"""The folder of pages that csdfgen writes, within the site while it is looked at."""

WIDTHS, SCHEMES = (390, 1280), ("light", "dark")
TALLEST = 9000
BROWSERS = ("chromium", "chromium-browser", "google-chrome")

PROBE = """(async () => {
  await document.fonts.ready;
  const images = [...document.images];
  for (const one of images) { one.loading = "eager"; }
  await Promise.allSettled(images.map((one) => one.decode()));
  return {
    missing: images.filter((one) => !one.naturalWidth).map((one) => one.src),
    wide: Math.max(document.documentElement.scrollWidth, document.body.scrollWidth),
    tall: document.documentElement.scrollHeight,
    broken: [...document.querySelectorAll("td > code, th > code")]
      .filter((one) => /^[\\w.=]+$/.test(one.textContent) && one.getClientRects().length > 1)
      .map((one) => one.textContent),
  };
})()"""


class Browser:
    """Chromium without a window, which is spoken to through two pipes (--remote-debugging-pipe)."""

    def __init__(self, program: str, profile: str) -> None:
        (theirs_in, self.out), (self.back, theirs_out) = os.pipe(), os.pipe()

        def connect() -> None:
            # above all numbers that are in use, so that none is closed too early
            high = [os.dup2(fd, 60 + k) for k, fd in enumerate((theirs_in, theirs_out))]
            for place, fd in enumerate(high, 3):
                os.dup2(fd, place)

        options = ("--headless=new", "--no-sandbox", "--hide-scrollbars", "--disable-gpu")
        self.process = subprocess.Popen(
            [program, *options, "--remote-debugging-pipe", f"--user-data-dir={profile}"],
            preexec_fn=connect, close_fds=False, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        self.rest, self.number, self.session = b"", 0, ""
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The answer; what happens meanwhile is kept in `events`. Raises RuntimeError."""
        self.number += 1
        sent = {"id": self.number, "method": method, "params": parameters}
        sent |= {"sessionId": self.session} if self.session else {}
        os.write(self.out, json.dumps(sent).encode() + b"\0")
        while (found := self._message()).get("id") != self.number:
            self.events.append(found)
        if "error" in found:
            raise RuntimeError(f"{method}: {found['error']}")
        return found["result"]

    def await_event(self, method: str) -> None:
        while all(one.get("method") != method for one in self.events):
            self.events.append(self._message())

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self.rest:
            got = os.read(self.back, 1 << 20)
            if not got:
                raise RuntimeError("the browser has ended")
            self.rest += got
        text, _, self.rest = self.rest.partition(b"\0")
        return json.loads(text)


def look(browser: Browser, base: str, page: str) -> list[str]:
    """What is wrong with a page; writes its screenshots."""
    found: list[str] = []
    for width in WIDTHS:
        for scheme in SCHEMES:
            browser.events.clear()
            narrow = width == WIDTHS[0]
            browser.call(
                "Emulation.setDeviceMetricsOverride", width=width, height=844, deviceScaleFactor=1, mobile=narrow
            )  # fmt: skip
            media = [{"name": "prefers-color-scheme", "value": scheme}]
            browser.call("Emulation.setEmulatedMedia", features=media)
            browser.call("Page.navigate", url=f"{base}/{page}")
            browser.await_event("Page.loadEventFired")
            asked = {"expression": PROBE, "awaitPromise": True, "returnByValue": True}
            seen = browser.call("Runtime.evaluate", **asked)["result"]["value"]
            found += [f"picture {one} is missing" for one in seen["missing"]]
            if narrow and seen["wide"] > width:
                found.append(f"is {seen['wide']} pixels wide on a screen of {width}")
            if not narrow:
                found += [f"breaks {one} in the middle" for one in seen["broken"]]
            found += errors_of(browser.events, base)
            name = page.strip("/").replace("/", "-").removesuffix(".html") or "index"
            shoot(browser, SHOTS / f"{name}-{width}-{scheme}.png", width, seen["tall"])
    return list(dict.fromkeys(found))


def errors_of(events: list[dict[str, Any]], base: str) -> Iterator[str]:
    """Errors that were logged, and what was fetched from elsewhere."""
    for one in events:
        method, facts = one.get("method"), one.get("params", {})
        if method == "Runtime.exceptionThrown":
            yield f"exception {facts['exceptionDetails']['text']}"
        if method == "Runtime.consoleAPICalled" and facts["type"] == "error":
            yield f"error {facts['args']}"
        if method == "Log.entryAdded" and facts["entry"]["level"] == "error":
            yield f"error {facts['entry']['text']} {facts['entry'].get('url', '')}"
        if method == "Network.requestWillBeSent":
            url = facts["request"]["url"]
            if not url.startswith((base, "data:", "blob:")):
                yield f"fetches {url}"


def shoot(browser: Browser, path: Path, width: int, tall: int) -> None:
    clip = {"x": 0, "y": 0, "width": width, "height": min(tall, TALLEST), "scale": 1}
    shot = browser.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
    path.write_bytes(base64.b64decode(shot["data"]))


def write_ours(folder: Path) -> None:
    """The pages of `csdfgen report` and `compare`, and a plan as notebooks show it."""
    import csdfgen as package

    folder.mkdir(parents=True, exist_ok=True)
    csdfgen(["report", "zoo:squeezenet1_1", "--no-measure", "-o", str(folder / "report.html")])
    sides = ("zoo:squeezenet1_1", "zoo:squeezenet1_1+rows=1")
    csdfgen(["compare", *sides, "-o", str(folder / "compare.html")])
    network = package.load("zoo:squeezenet1_1")
    rows = ",".join(["4", *(f"{layer.name}=2" for layer in network.layers[1:12])])
    plan = package.plan(network, rows=rows, fuse="none")
    head = '<meta name="viewport" content="width=device-width"><meta charset="utf-8"><title>plan</title>'
    (folder / "notebook.html").write_text(f"<!DOCTYPE html>{head}{plan._repr_html_()}")


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Nothing."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a folder."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def main(arguments: list[str]) -> int:
    """1 where a page fails. arguments: parts of the addresses to look at; all without."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        print(f"skipped: none of {', '.join(BROWSERS)} is installed")
        return 0
    shutil.rmtree(SHOTS, ignore_errors=True)
    SHOTS.mkdir()
    write_ours(SITE / OURS)
    pages = sorted(
        str(one.relative_to(SITE)).removesuffix("index.html") for one in SITE.rglob("*.html")
    )
    pages = [one for one in pages if not arguments or any(part in one for part in arguments)]
    failed = 0
    with served(SITE) as base, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(program, profile)
        for page in pages:
            found = look(browser, base, page)
            failed += bool(found)
            for text in found:
                print(f"{page or 'index'}: {text}", file=sys.stderr)
        browser.call("Browser.close")
        browser.process.wait()
    shutil.rmtree(SITE / OURS)
    print(
        f"{len(pages)} pages at {WIDTHS} pixels, light and dark: {failed} fail; screenshots in {SHOTS.name}"
    )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
