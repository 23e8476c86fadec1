"""An OpenTelemetry collector on loopback: keeps the spans it is sent, or accepts connections and never answers."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector:
    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.authorizations: list[str] = []
        self.resources: list[dict[str, str]] = []
        # Set when a request has arrived.
        self.reached = threading.Event()
        self.may_answer = threading.Event()
        self.url = ""

    def named(self, start: str) -> list[Span]:
        return [span for span in self.spans if span.name.startswith(start)]

    def receive(self, body: bytes, authorization: str) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        self.authorizations.append(authorization)
        for group in request.resource_spans:
            self.resources.append({each.key: each.value.string_value for each in group.resource.attributes})
            for scope in group.scope_spans:
                self.spans.extend(scope.spans)


def attributes(span: Span | Span.Event) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in span.attributes:
        kind = each.value.WhichOneof("value")
        value = getattr(each.value, str(kind))
        found[each.key] = [item.string_value for item in value.values] if kind == "array_value" else value
    return found


@contextmanager
def collector(*, answers: bool = True) -> Iterator[Collector]:
    kept = Collector()
    if answers:
        kept.may_answer.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            kept.reached.set()
            kept.may_answer.wait()
            kept.receive(body, self.headers.get("Authorization", ""))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    kept.url = f"http://127.0.0.1:{server.server_address[1]}/v1/traces"
    try:
        yield kept
    finally:
        kept.may_answer.set()
        server.shutdown()
        server.server_close()
