"""The OpenAI-compatible endpoint: `model` is the agent, `user` the sender."""

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any

import msgspec
from aiohttp import web

from moot.daemon.listen.guard import openai_error, read_body, require_principal
from moot.daemon.listen.openai_form import (
    HISTORY_HEADER,
    HISTORY_NOTE,
    ChatRequest,
    Completion,
    DescribeReading,
    describe_completion,
    finish_reason,
    last_user_content,
    model_form,
    parse_request,
)
from moot.daemon.listen.openai_pieces import (
    AnswerEnd,
    KeepAlive,
    Piece,
    PieceDiscarded,
    SegmentStart,
    TextPiece,
    read_pieces,
)
from moot.daemon.listen.openai_retry import make_message_id, make_reply_id, may_be_retry, reply_prefix
from moot.daemon.listen.queued_reply import QueuedReply, not_retryable, to_error
from moot.daemon.principal import Principal
from moot.daemon.requests.exchange import REVOKED_GRACE_SECONDS, Serving, answer_request, revoked_error
from moot.domain.agent import AgentStatus
from moot.domain.errors import BadRequest, MootError, NotFound
from moot.domain.events import (
    AskClosed,
    RunEnded,
)
from moot.domain.ports.clock import Clock, Timer
from moot.domain.usage import Usage
from moot.wire import moot_pb2 as pb
from moot.wire.bounds import SMALL
from moot.wire.codec import check_client


class ChatCompletions:
    def __init__(self, serving: Serving) -> None:
        self._serving = serving

    async def models(self, request: web.Request) -> web.Response:
        answered = await ask_once(
            self._serving, pb.ClientMessage(list_agents=pb.ListAgentsMsg()), require_principal(request)
        )
        agents = answered.agent_list.agents
        names = [agent.name for agent in agents if agent.status == AgentStatus.ACTIVE and not agent.missing]
        return json_response({"object": "list", "data": [model_form(name) for name in names]})

    async def model(self, request: web.Request) -> web.Response:
        message = pb.ClientMessage(get_agent=pb.GetAgentMsg(name=request.match_info["name"]))
        info = (await ask_once(self._serving, message, require_principal(request))).agent_info
        if info.status != AgentStatus.ACTIVE:
            raise NotFound(f"the agent {info.name!r} is not active", fix="Set its status to active in its file.")
        return json_response(model_form(info.name))

    async def complete(self, request: web.Request) -> web.StreamResponse:
        body = await read_body(request, self._serving.admission.clock)
        # A large body is parsed in a thread; most of its time is a resent history, of which only one message is used.
        chat, content = await asyncio.to_thread(_parse, body) if len(body) > SMALL else _parse(body)
        turn = await self._turn(request, chat, content, body)
        completion = Completion(
            id=f"chatcmpl-{secrets.token_hex(12)}", created=int(self._serving.admission.clock.now()), model=chat.model
        )
        # Check the token again; from here on the turn watches for its revocation.
        require_principal(request)
        async with aclosing(turn.pieces(request.transport)) as pieces:
            if chat.stream:
                wants_usage = bool(chat.stream_options and chat.stream_options.include_usage)
                return await _stream_response(request, pieces, completion, wants_usage=wants_usage)
            return await _complete_response(pieces, completion)

    async def _turn(self, request: web.Request, chat: ChatRequest, content: str, body: bytes) -> "CompletionTurn":
        principal = require_principal(request)
        if chat.moot is not None and chat.moot.run_id:
            attach_run = pb.ClientMessage(attach_run=pb.AttachRunMsg(run_id=chat.moot.run_id))
            return CompletionTurn(self._serving, attach_run, principal)
        sender = principal.sender(chat.user or "")
        return await self.start_turn(request, chat.model, sender, content, body)

    async def start_turn(
        self, request: web.Request, model: str, sender: str, content: str, body: bytes
    ) -> "CompletionTurn":
        """The turn of a message: a new one, the one that the request repeats, or the answer to an open question."""
        principal = require_principal(request)
        agent, _, guest = model.partition("@")
        if "\0" in content:
            raise BadRequest("the last user message holds a NUL character", fix="Remove it.")
        message = pb.StreamMsg(
            agent=agent, content=content, sender=sender, client_message_id=make_message_id(request, body)
        )
        if guest:
            message.guest = guest
        reply_id = make_reply_id(request, message.client_message_id)
        if may_be_retry(request):
            retried = await self._find_retried(message, reply_id, principal)
            if retried.run_id:
                attach_run = pb.ClientMessage(attach_run=pb.AttachRunMsg(run_id=retried.run_id))
                return CompletionTurn(self._serving, attach_run, principal)
            if retried.client_message_id:
                message.client_message_id = retried.client_message_id
                return CompletionTurn(self._serving, pb.ClientMessage(stream=message), principal)
        # A message to a guest does not answer a question of the primary.
        ask_id = "" if guest else await self._open_ask(agent, sender, principal)
        if ask_id:
            attach = pb.ClientMessage(attach=pb.AttachMsg(agent=agent, sender=sender))
            answer = pb.ReplyToAsk(agent=agent, sender=sender, content=content)
            answer.client_message_id = reply_id
            reply = pb.ClientMessage(reply_to_ask=answer)
            return CompletionTurn(self._serving, attach, principal, answers=ask_id, reply=reply)
        return CompletionTurn(self._serving, pb.ClientMessage(stream=message), principal)

    async def _find_retried(self, message: pb.StreamMsg, reply_id: str, principal: Principal) -> pb.Retried:
        """Return the turn of a request that the client repeats after a timeout."""
        find = pb.FindRetriedMsg(agent=message.agent, sender=message.sender, prefix=reply_prefix(reply_id))
        if reply_id != message.client_message_id:
            find.client_message_id = message.client_message_id
        try:
            return (await ask_once(self._serving, pb.ClientMessage(find_retried=find), principal)).retried
        except MootError:
            # Any error, such as an unknown agent, is reported by the request itself.
            return pb.Retried()

    async def _open_ask(self, agent: str, sender: str, principal: Principal) -> str:
        """Return the id of the oldest open question of the conversation; the next user message answers it."""
        answered = await ask_once(self._serving, pb.ClientMessage(list_asks=pb.ListAsksMsg()), principal)
        for ask in answered.ask_list.asks:
            # Text never approves a call: a message during an approval is queued.
            if ask.kind == "question" and (ask.agent, ask.sender) == (agent, sender):
                return str(ask.ask_id)
        return ""


def _parse(body: bytes) -> tuple[ChatRequest, str]:
    chat = parse_request(body)
    return chat, last_user_content(chat.messages)


class CompletionTurn:
    """One turn as pieces of its answer. Closing it early does not stop the run."""

    def __init__(
        self,
        serving: Serving,
        message: pb.ClientMessage,
        principal: Principal,
        *,
        answers: str = "",
        reply: pb.ClientMessage | None = None,
    ) -> None:
        # The texts come from a document of OpenAI's form, so they are checked as those of a frame are.
        check_client(message)
        self._serving = serving
        self._message = message
        self._principal = principal
        self._answers = answers
        self._answer = reply

    async def pieces(
        self, transport: asyncio.Transport | None, describe: DescribeReading = describe_completion
    ) -> AsyncGenerator[Piece, None]:
        """Yield the answer; `describe` says how the client reads it later, if the run waits for a person."""
        gathered, clock = QueuedReply(self._serving.max_unsent), self._serving.admission.clock
        connection = CompletionStop(gathered, transport, clock)
        unwatch = self._serving.principals.watch(self._principal, connection.on_revoked)
        self._serving.connections.add(connection)
        self._serving.tasks.start(
            "http completion", answer_request(self._serving, self._message, self._principal, gathered)
        )
        try:
            if self._answer is not None:
                yield KeepAlive(await self._reply_to_ask(gathered))
            async with aclosing(read_pieces(gathered, self._is_open, clock, describe)) as pieces:
                async for piece in pieces:
                    yield piece
        except MootError as error:
            raise not_retryable(error) if gathered.begun else error from None
        finally:
            unwatch()
            connection.cancel_timer()
            self._serving.connections.discard(connection)
            gathered.close()

    async def _is_open(self, ask_id: str) -> bool:
        """Whether an ask still waits for a person. Its run is woken after the decision, so events may be behind."""
        message = pb.ClientMessage(list_asks=pb.ListAsksMsg(ask_id=ask_id))
        return bool((await ask_once(self._serving, message, self._principal)).ask_list.asks)

    async def _reply_to_ask(self, gathered: QueuedReply) -> str:
        """Answer the question, skip the text of the run before the answer, and return the run."""
        assert self._answer is not None
        await ask_once(self._serving, self._answer, self._principal)
        while True:
            item = await gathered.take()
            if isinstance(item, pb.ServerMessage):
                raise to_error(item.error)
            if isinstance(item.body, AskClosed) and item.body.ask.id == self._answers:
                return item.source.root_id
            if isinstance(item.body, RunEnded):
                finish_reason(item.body.end)
                return item.source.root_id


class CompletionStop:
    """Ends a waiting completion when the daemon stops or the token is revoked."""

    def __init__(self, gathered: QueuedReply, transport: asyncio.Transport | None, clock: Clock) -> None:
        self._gathered = gathered
        self._transport = transport
        self._clock = clock
        self._timer: Timer | None = None

    def stop(self) -> None:
        self._gathered.send(
            pb.ServerMessage(error=pb.ErrorMsg(code=503, type="unavailable", message="the daemon is stopping"))
        )

    abort = stop

    def on_revoked(self) -> None:
        self._gathered.fail(revoked_error())
        if self._transport is not None:
            # A client that does not read would never see the error.
            self._timer = self._clock.call_later(REVOKED_GRACE_SECONDS, self._transport.abort)

    def cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


async def ask_once(serving: Serving, message: pb.ClientMessage, principal: Principal) -> pb.ServerMessage:
    """Send a request and return its one answer. Raise if a field is too large, or the answer is an error."""
    check_client(message)
    gathered = QueuedReply(serving.max_unsent)
    await answer_request(serving, message, principal, gathered)
    item = await gathered.take()
    while not isinstance(item, pb.ServerMessage):
        # Earlier messages, such as queue positions, are skipped.
        item = await gathered.take()
    if item.HasField("error"):
        raise to_error(item.error)
    return item


async def _complete_response(pieces: AsyncGenerator[Piece, None], completion: Completion) -> web.Response:
    segments: list[list[str]] = [[]]
    reasoning: list[str] = []
    over = AnswerEnd("stop", Usage())
    async for piece in pieces:
        match piece:
            case TextPiece(text, thought):
                segments[-1].append(text)
                reasoning.append(thought)
            case SegmentStart():
                segments.append([])
            case PieceDiscarded():
                segments[-1].clear()
            case AnswerEnd():
                over = piece
            case KeepAlive():
                pass
    text = "\n\n".join(filter(None, ("".join(segment) for segment in segments)))
    return json_response(
        completion.whole(text, reasoning="".join(reasoning), finish=over.finish, usage=over.usage, state=over.state)
    )


async def _stream_response(
    request: web.Request, pieces: AsyncGenerator[Piece, None], completion: Completion, *, wants_usage: bool
) -> web.StreamResponse:
    # The HTTP status depends on the first piece: an answer or an error.
    first = await anext(pieces)
    response = web.StreamResponse(
        headers={"Content-Type": "text/event-stream; charset=utf-8", HISTORY_HEADER: HISTORY_NOTE}
    )
    await response.prepare(request)
    with suppress(ConnectionError):
        await _write(response, completion.chunk({"role": "assistant", "content": ""}))
        try:
            await _write_piece(response, completion, first, wants_usage=wants_usage)
            async for piece in pieces:
                await _write_piece(response, completion, piece, wants_usage=wants_usage)
        except MootError as error:
            await _write(response, openai_error(error))
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
    return response


async def _write_piece(
    response: web.StreamResponse, completion: Completion, piece: Piece, *, wants_usage: bool
) -> None:
    match piece:
        case TextPiece(text, reasoning):
            await _write(response, completion.chunk({"content": text} if text else {"reasoning_content": reasoning}))
        case SegmentStart():
            await _write(response, completion.chunk({"content": "\n\n"}))
        case AnswerEnd(finish, usage, state):
            await _write(response, completion.chunk({}, finish=finish, state=state))
            if wants_usage:
                await _write(response, completion.usage_chunk(usage))
        case PieceDiscarded():
            await response.write(b": what was said since the last step is not kept\n\n")
        case KeepAlive():
            await response.write(b": waiting\n\n")


async def _write(response: web.StreamResponse, document: dict[str, Any]) -> None:
    await response.write(b"data: " + msgspec.json.encode(document) + b"\n\n")


def json_response(document: dict[str, Any]) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(document),
        content_type="application/json",
        headers={HISTORY_HEADER: HISTORY_NOTE} if "choices" in document else None,
    )
