"""A browser, by WebDriver over plain HTTP. Chromium's own calls are for what the standard has not."""

import base64
import json
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

OPTIONS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--hide-scrollbars",
]

# No proxy stands between this and the driver.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


# The names that it has.
BROWSERS = ["chromium", "chromium-browser", "google-chrome"]


class Browser:
    """One window. It ends with the `with` block."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="blockmill-page-")
        self.driver = subprocess.Popen(
            ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.address = f"http://127.0.0.1:{self._port()}"
        options = {"args": [*OPTIONS, f"--user-data-dir={self.folder}"], "binary": next(filter(None, map(shutil.which, BROWSERS)))}
        wanted = {
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        made = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self.session = "/session/" + made["sessionId"]

    def _port(self):
        for line in self.driver.stdout:
            if "started successfully on port" in line:
                return int(line.rstrip().rstrip(".").rsplit(" ", 1)[1])
        raise SystemExit("chromedriver does not start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self._call("DELETE", self.session)
        finally:
            self.driver.terminate()
            self.driver.wait()
            shutil.rmtree(self.folder, ignore_errors=True)

    def _call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with OPENER.open(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise SystemExit(f"{path}: {error.read().decode()[:2000]}") from error

    def post(self, path, body):
        return self._call("POST", self.session + path, body)

    def open(self, url):
        self.post("/url", {"url": url})

    def run(self, script, *arguments):
        """What a script returns."""
        return self.post("/execute/sync", {"script": script, "args": list(arguments)})

    def run_later(self, script, *arguments):
        """What a script gives to its last argument, a function."""
        return self.post("/execute/async", {"script": script, "args": list(arguments)})

    def devtools(self, command, **parameters):
        return self.post("/goog/cdp/execute", {"cmd": command, "params": parameters})

    def log(self, kind):
        return self.post("/se/log", {"type": kind})

    def press(self, key):
        down_and_up = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self.post("/actions", {"actions": [{"type": "key", "id": "keys", "actions": down_and_up}]})

    def width(self, pixels, height):
        self.devtools(
            "Emulation.setDeviceMetricsOverride", width=pixels, height=height, deviceScaleFactor=1, mobile=False
        )

    def scheme(self, name):
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.devtools("Emulation.setEmulatedMedia", features=features)

    def picture(self, path, is_whole=False):
        image = self.devtools("Page.captureScreenshot", format="png", captureBeyondViewport=is_whole)
        path.write_bytes(base64.b64decode(image["data"]))

    def text(self, name):
        return self.run("return document.getElementById(arguments[0]).textContent", name)

    def wait(self, why, script, *arguments, seconds=60):
        """Waits until a script returns something."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = self.run(script, *arguments)
            if found:
                return found
            time.sleep(0.05)
        raise SystemExit(f"not seen within {seconds} seconds: {why}; the state is {self.text('state')!r}")
