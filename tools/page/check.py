"""The page in a browser: what docs/page.md says of it.

check.py BLOCKMILL AXE OUT: the command, the file axe.min.js, and the folder for screenshots.
"""

import json
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

from driver import Browser

TAB, SPACE = "\ue004", " "

# Elements with texts of their own that lie over one another.
OVERLAPS = """
const own = [...document.body.querySelectorAll("*")].filter((element) =>
  [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim()));
const seen = own.filter((element) => element.checkVisibility())
  .map((element) => [element, element.getBoundingClientRect()]).filter(([, at]) => at.width > 0 && at.height > 0);
const found = [];
for (const [first, one] of seen) {
  for (const [second, other] of seen) {
    if (first === second || first.contains(second) || second.contains(first)) continue;
    const wide = Math.min(one.right, other.right) - Math.max(one.left, other.left);
    const high = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
    if (wide > 1 && high > 3) found.push(first.textContent + " | " + second.textContent);
  }
}
return found;
"""

# What reaches beyond the right edge.
WIDE = """
const width = document.documentElement.clientWidth;
const out = [...document.body.querySelectorAll("*")].filter((element) => element.getBoundingClientRect().right > width + 1);
return [document.documentElement.scrollWidth > width ? ["the page scrolls"] : [], out.map((element) => element.outerHTML.slice(0, 100))].flat();
"""


def check(is_right, what):
    if not is_right:
        raise SystemExit(f"wrong: {what}")


class Command:
    """The command with its page."""

    started = []

    def __init__(self, program, port, name, blocks, data, *more):
        # Pictures have names that are the same everywhere.
        words = [name, "--blocks", blocks.name, "--data", data, "--network", "regtest", "--http", str(port), *more]
        self.process = subprocess.Popen(
            [program, *words], cwd=blocks.parent, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        self.started.append(self.process)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.end()

    def end(self):
        _, errors = self.process.communicate(timeout=60)
        check(self.process.returncode == 0, errors)


def generate(program, out, blocks, inputs, empty=0):
    words = ["generate", "--out", out, "--blocks", blocks, "--inputs", inputs, "--empty-blocks", empty, "--profile", "mixed"]
    subprocess.run([program, *map(str, words)], check=True, capture_output=True)


def records(folder):
    """The records of a block file: eight bytes, of which four are the length, and a block."""
    content, at = (folder / "blk00000.dat").read_bytes(), 0
    while at + 8 <= len(content):
        (length,) = struct.unpack_from("<I", content, at + 4)
        if length == 0:
            return
        yield content[at : at + 8 + length]
        at += 8 + length


def look(browser, axe, out, name):
    """One state of the page, at two widths, light and dark."""
    for scheme in ["light", "dark"]:
        browser.scheme(scheme)
        for width, height in [(400, 860), (1600, 1000)]:
            browser.width(width, height)
            time.sleep(0.1)
            browser.picture(out / f"{name}-{scheme}-{width}.png", is_whole=True)
            for what, script in [("too wide", WIDE), ("overlaps", OVERLAPS)]:
                found = browser.run(script)
                check(not found, f"{name} at {width} pixels, {what}: {found[:5]}")
        found = judged(browser, axe)
        check(not grave(found), f"{name}, {scheme}: {grave(found)}")
        print(f"{name}, {scheme}: axe finds {len(found)} things, none of them serious")


def judged(browser, axe):
    """What axe finds: how grave it is, which rule, and where."""
    return browser.run_later(
        axe + ";const done = arguments[arguments.length - 1];"
        "axe.run({resultTypes: ['violations']}).then((all) => done(all.violations.map((one) =>"
        " [one.impact, one.id, one.nodes.map((node) => node.html + ' ' + node.failureSummary).slice(0, 3)])))"
    )


def grave(found):
    return [one for one in found if one[0] in ("serious", "critical")]


def planted(browser, axe):
    """What is planted is found, so the checks above say something."""
    browser.run(
        "const wide = document.createElement('p'); wide.textContent = 'wide'; wide.style.width = '3000px';"
        "const over = document.createElement('p'); over.textContent = 'over'; over.style.marginTop = '-1.2rem';"
        "document.body.append(wide, over, document.createElement('img'))"
    )
    for script in (WIDE, OVERLAPS):
        check(browser.run(script), f"a planted fault is not found by {script}")
    check([one for one in grave(judged(browser, axe)) if one[1] == "image-alt"], "axe does not find a planted fault")


def keyboard(browser):
    """The keyboard reaches all that can be operated, and shows where it is."""
    browser.run("document.activeElement.blur()")
    wanted = browser.run("return [...document.querySelectorAll('summary, a, button, input')].map((all) => all.textContent)")
    reached = []
    for _ in wanted:
        browser.press(TAB)
        reached.append(browser.run(
            "const on = document.activeElement, style = getComputedStyle(on);"
            "return [on.textContent, style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2]"
        ))
    visible = browser.run("return [...document.querySelectorAll('summary, a')].filter((all) => all.checkVisibility()).length")
    check(len({text for text, _ in reached if text in wanted}) >= visible, f"{reached} of {wanted}")
    check(all(is_seen for text, is_seen in reached if text in wanted), f"focus is not seen: {reached}")
    browser.run("document.querySelector('summary').focus()")
    browser.press(SPACE)
    browser.wait("the table of rates", "return document.querySelectorAll('#rates_rows tr').length > 0")


def quiet(browser, origin):
    """Nothing is in the console but lost connections, and nothing was asked elsewhere."""
    console = [line for line in browser.log("browser") if line["level"] in ("SEVERE", "WARNING")]
    # A browser reports each attempt itself while the command is away.
    console = [line for line in console if "/status.json" not in line["message"] or "net::ERR_" not in line["message"]]
    check(not console, console)
    events = [json.loads(line["message"])["message"] for line in browser.log("performance")]
    urls = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    elsewhere = [url for url in urls if not url.startswith((origin, "data:"))]
    check(urls and not elsewhere, elsewhere)
    paths = {url.removeprefix(origin).split("?")[0] for url in urls if url.startswith(origin)}
    check(paths == {"/", "/status.json"}, paths)


def main():
    program, axe, out = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).read_text(), pathlib.Path(sys.argv[3])
    out.mkdir(parents=True, exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    origin = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory(prefix="blockmill-page-") as scratch, Browser() as browser:
        scratch = pathlib.Path(scratch)
        # What the browser does when it begins is its own.
        browser.open("about:blank")
        browser.log("performance")
        connecting(browser, program, axe, out, scratch, port)
        following(browser, program, axe, out, scratch, port)
        quiet(browser, origin)
    print(f"screenshots are in {out}")


GONE = "return document.getElementById('state').textContent.startsWith('No answer: the command has ended')"


def connecting(browser, program, axe, out, scratch, port):
    """Figures move, and go on after a restart."""
    blocks, data = scratch / "blocks", "data"
    generate(program, blocks, 900, 200000)
    # Seven seconds, on a fast machine too. What takes longer looks at the page once it is over.
    slowly = ["--par", "1", "--signatures", "one-by-one"]
    first = Command(program, port, "connect", blocks, data, *slowly)
    time.sleep(0.3)
    browser.open(f"http://127.0.0.1:{port}/")
    browser.wait("blocks that are connected", "return document.getElementById('state').textContent === 'Connecting blocks'")
    seen = set()
    end = time.monotonic() + 60
    while len(seen) < 4 and time.monotonic() < end:
        seen.add((browser.text("height"), browser.text("inputs")))
    check(len(seen) >= 4, f"figures do not move: {seen}")
    browser.wait("a curve", "return document.querySelectorAll('#inputs_chart .line').length > 0")
    started = browser.text("started")
    first.stop()
    browser.wait("that the command is gone", GONE)
    before = int(browser.text("height").replace(",", ""))
    look(browser, axe, out, "connect")
    keyboard(browser)
    second = Command(program, port, "connect", blocks, data, *slowly)
    browser.wait("the next run", "return document.getElementById('started').textContent !== arguments[0]", started)
    second.end()
    browser.wait("that it is gone", GONE)
    check(before < int(browser.text("height").replace(",", "")), "figures do not go on after a restart")


def following(browser, program, axe, out, scratch, port):
    """Blocks and a reorganisation of a node."""
    # The same up to block 100.
    for empty in (0, 4):
        generate(program, scratch / f"chain{empty}", 130 + empty // 2, 3000, empty)
    node = scratch / "node"
    node.mkdir()
    file = node / "blk00000.dat"
    file.write_bytes(b"")
    left, taken = [list(records(scratch / f"chain{empty}")) for empty in (0, 4)]
    fork = next(at for at, (one, other) in enumerate(zip(left, taken)) if one != other)

    def write(blocks):
        with file.open("ab") as end:
            end.write(b"".join(blocks))

    write(left[:110])
    command = Command(program, port, "follow", node, "followed")
    browser.wait("the tip", "return document.getElementById('state').dataset.kind === 'good'")
    for block in left[110:]:
        write([block])
        time.sleep(0.1)
    height = f"return document.getElementById('height').textContent === '{len(left) - 1}'"
    browser.wait("blocks of the node", height)
    write(taken[fork:])
    browser.wait("the reorganisation", "return document.getElementById('reorganisations_total').textContent === '1'")
    browser.wait("the tip of the other branch", f"return document.getElementById('height').textContent === '{len(taken) - 1}'")
    (node / "blk00001.dat").mkdir()
    write([taken[-1]])
    look(browser, axe, out, "follow")
    planted(browser, axe)
    command.stop()


if __name__ == "__main__":
    try:
        main()
    finally:
        # None is left when a check fails.
        for process in Command.started:
            process.kill()
