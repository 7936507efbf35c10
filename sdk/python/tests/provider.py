"""A model provider of our own on the loopback: it speaks OpenAI's chat completions from a script, so that the frameworks
use their real clients, with their real exceptions, and nothing leaves the machine."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from live import PATIENCE_S

OVERFLOW = {
    "error": {
        "message": "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens. "
        "Please reduce the length of the messages.",
        "type": "invalid_request_error",
        "param": "messages",
        "code": "context_length_exceeded",
    }
}
RATE_LIMITED = {
    "error": {
        "message": "Rate limit reached for gpt-4o-mini on requests per min (RPM): Limit 3, Used 3, Requested 1. Please try "
        "again in 20s.",
        "type": "requests",
        "code": "rate_limit_exceeded",
    }
}
UNAUTHORIZED = {
    "error": {
        "message": "Incorrect API key provided: sk-nobody. You can find your API key at https://platform.openai.com/account/api-keys.",
        "type": "invalid_request_error",
        "code": "invalid_api_key",
    }
}


def text(words: str, finish_reason: str = "stop") -> dict[str, Any]:
    return {"message": {"role": "assistant", "content": words}, "finish_reason": finish_reason}


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    asked = {"id": f"call_{tool}", "type": "function", "function": {"name": tool, "arguments": json.dumps(arguments)}}
    message = {"role": "assistant", "content": None, "tool_calls": [asked]}
    return {"message": message, "finish_reason": "tool_calls"}


def both(*asked: dict[str, Any]) -> dict[str, Any]:
    """Calls of several tools in one generation."""
    calls = [{**each["message"]["tool_calls"][0], "id": f"call_{n}"} for n, each in enumerate(asked)]
    return {"message": {"role": "assistant", "content": None, "tool_calls": calls}, "finish_reason": "tool_calls"}


def events(body: dict[str, Any]) -> bytes:
    """The same answer as a stream: all of it, its end, its usage."""
    choice = body["choices"][0]
    message = dict(choice["message"])
    if message.get("tool_calls"):
        message["tool_calls"] = [{**asked, "index": n} for n, asked in enumerate(message["tool_calls"])]
    head = {"id": body["id"], "object": "chat.completion.chunk", "created": 1, "model": body["model"]}
    chunks = [
        {**head, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
        {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]},
        {**head, "choices": [], "usage": body["usage"]},
    ]
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks).encode() + b"data: [DONE]\n\n"


class Refused:
    def __init__(self, status: int, body: dict[str, Any]) -> None:
        self.status, self.body = status, body


class Hangs:
    pass


class Insists:
    """Calls the tool as long as there is one to call."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self.asked = asked


class Provider:
    """Answers in the order of its script; the last answer is given again and again."""

    def __init__(self) -> None:
        self._script: list[Any] = []
        self._count = 0
        self.over = threading.Event()
        #: Somebody waits for an answer that does not come.
        self.hanging = threading.Event()
        provider = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status, body = provider._answer(request)
                streams = status == 200 and request.get("stream")
                raw = events(body) if streams else json.dumps(body).encode()
                try:
                    self.send_response(status)
                    self.send_header("Content-Type", "text/event-stream" if streams else "application/json")
                    self.send_header("Content-Length", str(len(raw)))
                    self.end_headers()
                    self.wfile.write(raw)
                except OSError:
                    pass

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def says(self, *script: Any) -> None:
        self._script, self._count = list(script), 0
        self.hanging.clear()

    def _answer(self, request: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        said = self._script[min(self._count, len(self._script) - 1)]
        self._count += 1
        if isinstance(said, Hangs):
            self.hanging.set()
            self.over.wait(PATIENCE_S)
            said = text("too late")
        if isinstance(said, Insists):
            said = said.asked if request.get("tools") else text("My best guess is 700 EUR.")
        if isinstance(said, Refused):
            return said.status, said.body
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        message = dict(said["message"])
        if message.get("tool_calls"):
            # No two calls have the same id, also those of one script line that is said again.
            message["tool_calls"] = [{**asked, "id": f"{asked['id']}_{self._count}"} for asked in message["tool_calls"]]
        choice = {"index": 0, "logprobs": None, **said, "message": message}
        return 200, {
            "id": f"chatcmpl-{self._count}",
            "object": "chat.completion",
            "created": 1,
            "model": request.get("model", "gpt-4o-mini"),
            "choices": [choice],
            "usage": usage,
        }

    def close(self) -> None:
        self.over.set()
        self._server.shutdown()
        self._server.server_close()
