"""Parses a web page in a child process with limits on time and memory. Runs `readable` and `result_page`.

A small, deeply nested page can keep an HTML parser busy for an hour.
"""

import asyncio
import json
import os
import resource
import signal
import sys
from contextlib import suppress

from moot.domain.errors import MootError, Unavailable
from moot.domain.ports.clock import Clock
from moot.tools.web.readable import Readable, decode, extract_readable

SECONDS = 5
MEMORY = 2 * 1024**3
# The child needs nothing from the daemon's environment; the interpreter is started by its path.
_ENVIRONMENT = {"LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}


async def read_page(body: bytes, *, url: str, charset: str, mode: str, clock: Clock) -> Readable:
    """Return the title and content of a page; `mode` is text, markdown, html, or results (a search result page)."""
    task = json.dumps({"url": url, "charset": charset, "mode": mode}).encode() + b"\n"
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-m",
        "moot.tools.web.page_reader",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=_ENVIRONMENT,
        start_new_session=True,
    )
    try:
        async with clock.timeout(SECONDS * 3):
            output, _ = await child.communicate(task + body)
    except TimeoutError:
        output = b""
    finally:
        if child.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            await child.wait()
    return _parse_answer(output)


def _parse_answer(output: bytes) -> Readable:
    try:
        answer = json.loads(output)
    except ValueError as error:
        raise Unavailable(
            "the page could not be read: it is too large or too deeply nested", fix="Try another page."
        ) from error
    if "error" in answer:
        raise Unavailable(answer["error"], fix=answer["fix"])
    return Readable(title=answer["title"], content=answer["content"])


def main() -> None:
    """Entry point of the child: reads a line of options and the page from stdin, writes one JSON document."""
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    task = json.loads(sys.stdin.buffer.readline())
    html = decode(sys.stdin.buffer.read(), charset=task["charset"])
    try:
        page = extract_readable(html, url=task["url"], mode=task["mode"])
        data = {"title": page.title, "content": page.content}
    except MootError as error:
        data = {"error": error.message, "fix": error.fix}
    sys.stdout.write(json.dumps(data))


if __name__ == "__main__":
    main()
