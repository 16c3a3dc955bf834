"""A local server that speaks the chat-completions protocol and serves a script.

The turn is chosen by what the request holds (how many assistant messages, which task is named in a user
message), so a server needs no memory of conversations and survives resumed ones. Only faults are counted.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pass_agent.model.script import Fault, Script, Turn
from pass_agent.model.scripted import usage_of

TASK_LINE = "Task: "  # the problem statement's line that names the task


class ScriptServer(ThreadingHTTPServer):
    """Serves one script on 127.0.0.1; `requests` counts the answered turns by (conversation, turn)."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, script: Script, port: int = 0):
        super().__init__(("127.0.0.1", port), _Handler)
        self.script = script
        self.lock = threading.Lock()
        self.tries: Counter[tuple[str, int]] = Counter()
        self.bodies: list[dict[str, Any]] = []
        self.keep_bodies = False
        self.keys: set[str] = set()  # the Authorization headers of all requests
        self.closing = threading.Event()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no event; anything else is shown."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def next_turn(self, body: dict[str, Any]) -> tuple[Turn | None, Fault | None, int]:
        """The turn that this request is at, and the fault that comes first, if one is left."""
        messages = [message for message in body.get("messages") or [] if isinstance(message, dict)]
        at = sum(message.get("role") == "assistant" for message in messages)
        task = task_of(messages)
        turns = self.script.turns(task)
        with self.lock:
            if self.keep_bodies:
                self.bodies.append(body)
            if at >= len(turns):
                return None, None, at
            used = self.tries[task, at]
            self.tries[task, at] += 1
        faults = turns[at].faults
        return turns[at], (faults[used] if used < len(faults) else None), at


def task_of(messages: list[dict[str, Any]]) -> str:
    """The task that a conversation is about: the first line `Task: NAME` of a user message."""
    for message in messages:
        content = message.get("content")
        if isinstance(content, list):
            content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
        for line in str(content or "").splitlines() if message.get("role") == "user" else ():
            if line.startswith(TASK_LINE):
                return line.removeprefix(TASK_LINE).strip()
    return ""


class _Handler(BaseHTTPRequestHandler):
    server: ScriptServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet: the runner reports what matters."""

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        try:
            body = json.loads(self.rfile.read(length))
        except ValueError:
            return self._send(400, {"error": {"message": "the request is not JSON"}})
        if not self.path.endswith("/chat/completions"):
            return self._send(404, {"error": {"message": f"no {self.path} here"}})
        self.server.keys.add(self.headers.get("Authorization") or "")
        turn, fault, at = self.server.next_turn(body)
        if turn is None:
            return self._send(400, {"error": {"message": f"the script ends before turn {at}"}})
        if fault is not None:
            return self._misbehave(fault)
        if turn.delay:
            self.server.closing.wait(turn.delay)
        answer = {
            "id": f"chatcmpl-{at}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": body.get("model", ""),
            "choices": [turn.choice(at)],
            "usage": usage_of(turn.usage),
        }
        return self._send(200, answer)

    def _send(self, status: int, answer: Any, headers: dict[str, str] | None = None) -> None:
        # ASCII escapes keep lone surrogates as they are: real endpoints send such.
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _misbehave(self, fault: Fault) -> None:
        if fault.disconnect:
            self.close_connection = True
            return None
        if fault.hang or fault.drip:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", "100000")
            self.end_headers()
            self.close_connection = True
            return self._trickle(fault)
        headers = {} if fault.retry_after is None else {"Retry-After": f"{fault.retry_after:g}"}
        if fault.body or fault.status == 200:
            return self._send(fault.status, fault.body.encode("utf-8", "surrogatepass"), headers)
        return self._send(fault.status, {"error": {"message": f"scripted status {fault.status}"}}, headers)

    def _trickle(self, fault: Fault) -> None:
        try:
            self.wfile.write(b'{"id": "half')
            end = time.monotonic() + (fault.hang or fault.drip)
            while time.monotonic() < end and not self.server.closing.wait(0.05):
                if fault.drip:
                    self.wfile.write(b" ")
                    self.wfile.flush()
        except OSError:
            pass  # the client gave up, as it should


@contextmanager
def serving(script: Script, port: int = 0) -> Iterator[ScriptServer]:
    """Serve a script in a thread for as long as the block lasts."""
    server = ScriptServer(script, port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()
