"""A strict fake of a model provider: speaks both wires on loopback and refuses any invalid request.

Run it with `python -m tests.fake_provider --port 0` (it prints its address), or use the `provider` fixture.
Each request is answered by, in this order: a directive in its last user message, `[[fake {…}]]`; the next
programmed answer (POST /program) whose `match` regex is found in that message; or an echo of that message.

An answer is a JSON object. What it says: `text` or `tokens` (a list), `thinking`, `calls` (a list of
{name, arguments, id}; arguments an object or any text, in which {agent_id} is the teammate spawned last),
`progress` (pairs of processed and all tokens of the prompt), `finish`, `usage` ({prompt, completion, cached,
reasoning}, or null for none), `then` (the answer once tool results came back). How it is said: `delay` (seconds
before the first byte), `token_delay`, `batch` (events per write), `hold` (waits for POST /release), `stall_after`
(after so many events, silence), `cut_at` (close after so many bytes of the body), `reset_at` (the same with a RST),
`plain_end` (the end of the body is the end of the connection), `drops` (the next request on the same connection is
not answered but closes it), `no_done`, `crlf`. What is said instead: `status`,
`headers`, `body`, `content_type`, `error` (an error object inside the stream, after the text). `repeat` serves an
answer so many times.

POST /v1/embeddings returns vectors of the words of each text; POST /vectors sets how long they are, and statuses.

GET /requests?at_least=N waits for N requests and lists them, POST /release lets held answers go, POST /reset forgets.
"""

from tests.fake_provider.client import Provider

__all__ = ["Provider"]
