"""OpenAI's Responses API over the turns of `openai_api`: a response is a run, its id names it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any

import msgspec
from aiohttp import web

from moot.daemon.listen.guard import openai_error, read_body, require_principal
from moot.daemon.listen.openai_api import ChatCompletions, CompletionTurn, ask_once, json_response
from moot.daemon.listen.openai_pieces import (
    AnswerEnd,
    KeepAlive,
    Piece,
    PieceDiscarded,
    SegmentStart,
    TextPiece,
)
from moot.daemon.listen.responses_form import (
    ResponseForm,
    ResponseRequest,
    describe_response,
    input_text,
    parse_request,
    run_of,
)
from moot.daemon.principal import Principal
from moot.daemon.requests.exchange import Serving
from moot.domain.errors import BadRequest, MootError
from moot.domain.ports.clock import Clock
from moot.domain.usage import Usage
from moot.wire import moot_pb2 as pb
from moot.wire.bounds import SMALL


class Responses:
    def __init__(self, serving: Serving, chat: ChatCompletions) -> None:
        self._serving = serving
        self._chat = chat

    async def create(self, request: web.Request) -> web.StreamResponse:
        clock = self._serving.admission.clock
        body = await read_body(request, clock)
        # As with completions: a large body is mostly a resent history, and is parsed in a thread.
        body_request = await asyncio.to_thread(parse_request, body) if len(body) > SMALL else parse_request(body)
        principal = require_principal(request)
        sender = await self._find_sender(body_request, principal)
        text = input_text(body_request.input)
        turn = await self._chat.start_turn(request, body_request.model, sender, text, body)
        # Check the token again; from here on the turn watches for its revocation.
        require_principal(request)
        async with aclosing(turn.pieces(request.transport, describe_response)) as pieces:
            answer = Answer(pieces, body_request.model, body_request.previous_response_id, clock)
            return await (answer.send_events(request) if body_request.stream else answer.send_whole())

    async def retrieve(self, request: web.Request) -> web.StreamResponse:
        """Answer with a response once its run has ended or waits for a person."""
        principal = require_principal(request)
        info = await self._find_run(request.match_info["id"], principal)
        attach_run = pb.ClientMessage(attach_run=pb.AttachRunMsg(run_id=info.run_id))
        turn = CompletionTurn(self._serving, attach_run, principal)
        async with aclosing(turn.pieces(request.transport, describe_response)) as pieces:
            return await Answer(pieces, info.root_agent, None, self._serving.admission.clock).send_whole()

    async def _find_run(self, id_: str, principal: Principal) -> pb.RunInfo:
        message = pb.ClientMessage(get_run=pb.GetRunMsg(run_id=run_of(id_)))
        return (await ask_once(self._serving, message, principal)).run

    async def _find_sender(self, request: ResponseRequest, principal: Principal) -> str:
        """Return the sender: of the conversation of the previous response, or the one that the request names."""
        if not request.previous_response_id:
            return principal.sender(request.user or "")
        info = await self._find_run(request.previous_response_id, principal)
        if info.root_agent != request.model.partition("@")[0] or request.user not in (None, info.root_sender):
            raise BadRequest(
                "the previous response belongs to another conversation",
                fix=f"Use the model {info.root_agent} and leave `user` out.",
            )
        return principal.sender(info.root_sender)


class Answer:
    """Reads the pieces of one answer and writes them as one document, or as events."""

    def __init__(self, pieces: AsyncGenerator[Piece, None], model: str, previous: str | None, clock: Clock) -> None:
        self._clock = clock
        self._pieces = pieces
        self._model = model
        self._previous = previous
        self._segments: list[list[str]] = [[]]
        self._events = 0

    async def send_whole(self) -> web.Response:
        form, over = None, AnswerEnd("stop", Usage())
        async for piece in self._pieces:
            form = form or self._form(piece)
            self._take(piece)
            if isinstance(piece, AnswerEnd):
                over = piece
        assert form is not None
        return json_response(form.whole(self._text, finish=over.finish, usage=over.usage, state=over.state))

    async def send_events(self, request: web.Request) -> web.StreamResponse:
        # The HTTP status depends on the first piece: an answer or an error. It names the run.
        first = await anext(self._pieces)
        form = self._form(first) or ResponseForm(run_id="", created=0, model=self._model, previous=None)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        with suppress(ConnectionError):
            await self._write(response, "response.created", response=form.render_start())
            item = form.item(None, status="in_progress")
            await self._write(response, "response.output_item.added", output_index=0, item=item)
            await self._write(response, "response.content_part.added", **form.place(), part=form.part(""))
            try:
                await self._write_piece(response, form, first)
                async for piece in self._pieces:
                    await self._write_piece(response, form, piece)
            except MootError as error:
                failure: Any = openai_error(error)["error"]
                await self._write(response, "response.failed", response=form.render_failure(failure))
            await response.write_eof()
        return response

    def _form(self, piece: Piece) -> ResponseForm | None:
        """The form, once a piece has named the run."""
        state = piece.state if isinstance(piece, AnswerEnd) else None
        run_id = piece.run_id if isinstance(piece, KeepAlive) else state.run_id if state else ""
        if not run_id:
            return None
        return ResponseForm(run_id=run_id, created=int(self._clock.now()), model=self._model, previous=self._previous)

    @property
    def _text(self) -> str:
        return "\n\n".join(filter(None, ("".join(segment) for segment in self._segments)))

    def _take(self, piece: Piece) -> None:
        match piece:
            case TextPiece(text):
                self._segments[-1].append(text)
            case SegmentStart():
                self._segments.append([])
            case PieceDiscarded():
                self._segments[-1].clear()
            case _:
                pass

    async def _write_piece(self, response: web.StreamResponse, form: ResponseForm, piece: Piece) -> None:
        self._take(piece)
        match piece:
            case TextPiece(text) if text:
                await self._write_delta(response, form, text)
            case SegmentStart():
                await self._write_delta(response, form, "\n\n")
            case AnswerEnd():
                await self._write_end(response, form, piece)
            case KeepAlive() | PieceDiscarded():
                await response.write(b": waiting\n\n")
            case _:
                pass

    async def _write_delta(self, response: web.StreamResponse, form: ResponseForm, text: str) -> None:
        await self._write(response, "response.output_text.delta", **form.place(), delta=text, logprobs=[])

    async def _write_end(self, response: web.StreamResponse, form: ResponseForm, over: AnswerEnd) -> None:
        text = self._text
        await self._write(response, "response.output_text.done", **form.place(), text=text, logprobs=[])
        await self._write(response, "response.content_part.done", **form.place(), part=form.part(text))
        item = form.item(text, status="completed")
        await self._write(response, "response.output_item.done", output_index=0, item=item)
        document = form.end_stream(form.whole(text, finish=over.finish, usage=over.usage, state=over.state))
        await self._write(response, f"response.{document['status']}", response=document)

    async def _write(self, out: web.StreamResponse, kind: str, /, **fields: Any) -> None:
        document = {"type": kind, "sequence_number": self._events, **fields}
        self._events += 1
        await out.write(f"event: {kind}\ndata: ".encode() + msgspec.json.encode(document) + b"\n\n")
