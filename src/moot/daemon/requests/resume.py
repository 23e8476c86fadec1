"""Handlers that archive a conversation to start a new one, resume an archive, or change the model of a conversation."""

from msgspec import Struct

from moot.daemon.config.config_file import ConfigFile
from moot.daemon.live_models import LiveModels
from moot.daemon.principal import Principal
from moot.daemon.requests.reply import Reply
from moot.domain.conversation import ConversationKey
from moot.domain.errors import NotFound, Unavailable
from moot.domain.events import Event, EventSource, RunQueued
from moot.domain.near_names import suggest_name
from moot.domain.ports.clock import Clock
from moot.domain.ports.store import Store
from moot.engine.request_factory import RequestFactory
from moot.engine.runs import Runs, Waiter
from moot.wire import moot_pb2 as pb


class ResumeDependencies(Struct, frozen=True, kw_only=True):
    store: Store
    runs: Runs
    requests: RequestFactory
    config: ConfigFile
    models: LiveModels
    clock: Clock


class ResumeRequests:
    def __init__(self, dependencies: ResumeDependencies) -> None:
        self._d = dependencies

    async def open_stretch(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request = message.open_stretch
        key = self._key(request, principal)

        def send_place(place: RunQueued) -> None:
            if request.tell_queued:
                reply.event(Event(0, 0.0, EventSource(key=key, root=key), place))

        waiter = Waiter(queued=send_place, on_gone=reply.on_close)
        newest = await self._d.runs.open_stretch(key, request.resume, waiter)
        answer = pb.StretchOpened(number=newest.number, title=newest.title, resumed=request.resume)
        if request.resume:
            archives = await self._d.store.list_archives(key)
            answer.resumed_title = next((each.title for each in archives if each.number == request.resume), "")
        reply.send(pb.ServerMessage(stretch_opened=answer))

    async def conversation_model(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request = message.conversation_model
        key = self._key(request, principal)
        agent = self._d.requests.resolve_agent(key.agent)
        found = await self._d.store.list_conversations(agent=key.agent, sender=key.sender)
        previous = chosen = found[0].model if found else ""
        if request.HasField("model"):
            principal.require_owner("choose the model of a conversation")
            chosen = request.model
            await self._check_model(chosen)
            await self._d.store.set_model(key, chosen, now=self._d.clock.now())
            # An active turn keeps its model.
            self._d.runs.histories.set_model(key, chosen)
        own = agent.model or self._d.config.current.default_model
        answer = pb.ConversationModel(model=chosen or own, chosen=chosen, previous=previous, own=own)
        answer.context_window = self._d.models.find_window(answer.model)
        configured = self._d.config.current.models.get(answer.model)
        # That of an embedded model may be the path of its file.
        if configured is not None and configured.provider != "local":
            answer.provider_model = configured.model
        reply.send(pb.ServerMessage(conversation_model=answer))

    async def _check_model(self, name: str) -> None:
        if not name:
            return
        known = self._d.config.current.models
        if name not in known:
            raise NotFound(f"there is no model {name!r}", fix=f"{suggest_name(name, known)}`moot models` lists them.")
        problem = await self._d.models.catalog.find_problem(name)
        if problem:
            raise Unavailable(f"the model {name} cannot be used: {problem}", fix="`moot doctor` prints fixes.")

    def _key(self, request: pb.OpenStretchMsg | pb.ConversationModelMsg, principal: Principal) -> ConversationKey:
        return ConversationKey(request.agent, principal.sender(request.sender))
