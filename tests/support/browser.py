"""Pages in a real browser without a screen: what tests/support/browser.js measures, and what it prints."""

import html
import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-extensions"),
    *("--host-resolver-rules=MAP * ~NOTFOUND", "--hide-scrollbars", "--allow-file-access-from-files"),
)
DARK = "--blink-settings=preferredColorScheme=0"
SCRIPT = Path(__file__).with_name("browser.js")


def find() -> str | None:
    """The browser's program, None where there is none."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


def measure(
    site: Path, pages: Sequence[str], sizes: Sequence[tuple[int, int]], scratch: Path, *, dark: bool = False
) -> dict[tuple[str, int], dict[str, Any]]:
    """(page, width) -> what was found, {name: [findings]}, and "first": where the first screen and its parts end.

    All pages are measured in one run of the browser, each in a frame of each size. Raises ValueError that holds what
    the browser said when it gave no result.
    """
    jobs = [[f"{(site / page).as_uri()}", page, width, height] for page in pages for width, height in sizes]
    runner = scratch / f"check-{'dark' if dark else 'light'}.html"
    runner.write_text(
        f"<!doctype html><meta charset='utf-8'><body><pre id='result'></pre><script>{SCRIPT.read_text()}\n"
        f"const jobs = {json.dumps(jobs)};\n{RUNNER}</script></body>"
    )
    command = ["--dump-dom", "--virtual-time-budget=600000", *([DARK] if dark else []), runner.as_uri()]
    text = run(command, scratch)
    found = re.search(r'<pre id="result">(.*?)</pre>', text, flags=re.DOTALL)
    if not found or not found[1].strip():
        raise ValueError(f"the browser measured nothing; it printed {text[-2000:]}")
    return {(one["page"], one["width"]): one["found"] for one in json.loads(html.unescape(found[1]))}


def evaluate(page: str, script: str, scratch: Path) -> str:
    """What `script`, an expression, gives as text after the page's own script, which is in `page`, has run."""
    runner = scratch / "evaluate.html"
    runner.write_text(f"{page}<pre id='result'></pre><script>result.textContent = {script}</script>")
    found = re.search(r'<pre id="result">(.*?)</pre>', run(["--dump-dom", runner.as_uri()], scratch), flags=re.DOTALL)
    if not found:
        raise ValueError("the browser evaluated nothing")
    return html.unescape(found[1])


def printed_pages(page: Path, scratch: Path) -> int:
    """On how many sheets a page is printed."""
    output = scratch / "printed.pdf"
    run(["--no-pdf-header-footer", f"--print-to-pdf={output}", page.as_uri()], scratch)
    return len(re.findall(rb"/Type\s*/Page\b", output.read_bytes()))


def run(arguments: Sequence[str], scratch: Path) -> str:
    """What the browser prints. Each run has a profile of its own."""
    program = find()
    if program is None:
        raise ValueError(f"browser: found none of {', '.join(NAMES)}; install chromium")
    profile = scratch / "profile"
    shutil.rmtree(profile, ignore_errors=True)
    command = [program, *FLAGS, f"--user-data-dir={profile}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


RUNNER = """
(async () => {
  const results = [];
  for (const [address, page, width, height] of jobs) {
    const frame = document.createElement("iframe");
    frame.style = `border:0;width:${width}px;height:${height}px`;
    frame.src = address;
    document.body.append(frame);
    await new Promise((ready) => frame.addEventListener("load", ready));
    const inside = frame.contentDocument;
    const edge = (part, side) => {
      const found = inside.querySelector(part);
      return found ? Math.round(found.getBoundingClientRect()[side]) : null;
    };
    const first = {
      end: edge(".first", "bottom"),
      sentence: edge(".first h1", "bottom"),
      bars: edge(".first figure", "top"),
      matrix: edge(".first .choose", "top"),
    };
    // the whole page in view: only the width decides on the layout
    frame.style.height = inside.documentElement.scrollHeight + "px";
    const found = measure(frame.contentWindow);
    results.push({ page, width, found: { ...found, first } });
    frame.remove();
  }
  document.getElementById("result").textContent = JSON.stringify(results);
})();
"""
