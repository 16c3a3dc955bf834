"""A headless Chromium, driven over WebDriver's HTTP protocol: no package needed, no network used."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any


def missing_browser() -> str:
    """Which program is missing, or an empty string."""
    for name in ("chromium", "chromedriver"):
        if shutil.which(name) is None:
            return name
    return ""


class Browser:
    """One browser window; a context manager."""

    def __init__(self, profile: Path, width: int = 1400, height: int = 1000, dark: bool = False):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self._base = f"http://127.0.0.1:{port}"
        self._driver = subprocess.Popen(
            ["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        arguments = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--disable-dev-shm-usage",
            "--force-device-scale-factor=1",
            f"--window-size={width},{height}",
            f"--user-data-dir={profile}",
            *(["--blink-settings=preferredColorScheme=0"] if dark else []),
        ]
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": arguments, "binary": shutil.which("chromium")},
            "goog:loggingPrefs": {"browser": "ALL"},
        }
        self._session = ""
        deadline = time.monotonic() + 60
        while not self._session:
            try:
                made = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
                self._session = f"/session/{made['sessionId']}"
            except (urllib.error.URLError, ConnectionError):
                if time.monotonic() > deadline or self._driver.poll() is not None:
                    self._driver.kill()
                    raise
                time.sleep(0.2)

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._call("DELETE", self._session)
        finally:
            self._driver.terminate()
            self._driver.wait(10)

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._base + path, data, method=method)
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(error.read().decode()) from None

    def open(self, page: Path) -> None:
        """Load a local file and wait until its tables are unpacked."""
        self._call("POST", f"{self._session}/url", {"url": page.resolve().as_uri()})
        deadline = time.monotonic() + 30
        while not self.run("return document.documentElement.dataset.ready"):
            assert time.monotonic() < deadline, "the page did not become ready"
            time.sleep(0.05)

    def run(self, script: str, *arguments: Any) -> Any:
        """Run JavaScript in the page; what it returns."""
        body = {"script": script, "args": list(arguments)}
        return self._call("POST", f"{self._session}/execute/sync", body)

    def console_errors(self) -> list[str]:
        """What the page has complained about since the last call."""
        logs = self._call("POST", f"{self._session}/se/log", {"type": "browser"})
        return [entry["message"] for entry in logs if entry["level"] in ("SEVERE", "WARNING")]

    def screenshot(self, target: Path) -> None:
        """Save what the window shows as PNG."""
        target.write_bytes(base64.b64decode(self._call("GET", f"{self._session}/screenshot")))
