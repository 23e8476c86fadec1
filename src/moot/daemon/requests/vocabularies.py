"""Handlers for the vocabularies of agents: which there are, what is in one, and writing one now."""

from collections.abc import Callable

from moot.agents.registry import Registry
from moot.daemon.principal import Principal
from moot.daemon.requests.missing_agent import make_no_agent_error
from moot.daemon.requests.reply import Reply
from moot.daemon.requests.team_info import explain_missing_runtime
from moot.domain.agent import Agent, AgentSource, AgentStatus
from moot.domain.config import Config
from moot.domain.errors import BadRequest
from moot.multiagent.routing.vocabulary_writer import VocabularyWriter, needs_vocabulary
from moot.multiagent.team import Team
from moot.wire import moot_pb2 as pb

_NO_TEAMMATE = "it is no teammate: give it tools with `prefixes` in its AGENT.md, or set `always_include`"


class VocabularyRequests:
    def __init__(
        self, *, registry: Registry, config: Callable[[], Config], team: Team, vocabularies: VocabularyWriter
    ) -> None:
        self._registry = registry
        self._config = config
        self._team = team
        self._vocabularies = vocabularies

    async def list_vocabularies(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        principal.require_owner("see the vocabularies of agents")
        self._registry.refresh_if_changed()
        if name := message.list_vocabularies.agent:
            listed = [self._describe(self._find(name, principal), is_whole=True)]
        else:
            listed = [self._describe(agent) for agent in self._registry.active() if needs_vocabulary(agent)]
        answer = pb.VocabularyList(vocabularies=listed, off_reason=self._find_off_reason())
        reply.send(pb.ServerMessage(vocabularies=answer))

    async def write_vocabulary(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        principal.require_owner("have a vocabulary written")
        self._registry.refresh_if_changed()
        request = message.write_vocabulary
        agent = self._find(request.agent, principal)
        if reason := _explain_inactive(agent):
            raise BadRequest(
                f"{agent.name} has no use of a vocabulary: {reason}", fix="Make it active in its AGENT.md."
            )
        await self._vocabularies.write(agent, only_if_missing=request.only_if_missing)
        answer = pb.VocabularyList(
            vocabularies=[self._describe(agent, is_whole=True)], off_reason=self._find_off_reason()
        )
        reply.send(pb.ServerMessage(vocabularies=answer))

    def _find(self, name: str, principal: Principal) -> Agent:
        agent = self._registry.find(name)
        if agent is None:
            raise make_no_agent_error(self._registry, name, principal)
        if not needs_vocabulary(agent):
            what = "a built-in agent" if agent.source is AgentSource.BUILT_IN else "an agent of another machine"
            raise BadRequest(
                f"{agent.name} has no vocabulary: it is {what}",
                fix="Name one of your own agents; `moot agents vocabulary` lists them.",
            )
        return agent

    def _find_off_reason(self) -> str:
        """Return why vocabularies are not used at all; empty if they are."""
        config = self._config()
        return explain_missing_runtime(config) or ("" if config.agent.vocabulary else "vocabulary is false in [agent]")

    def _describe(self, agent: Agent, *, is_whole: bool = False) -> pb.VocabularyInfo:
        view = self._vocabularies.describe(agent)
        is_teammate = agent.name in {each.name for each in self._team.partition().teammates()}
        info = pb.VocabularyInfo(agent=agent.name, being_written=view.is_being_written, is_teammate=is_teammate)
        found = view.vocabulary
        if found is None:
            reason = _explain_inactive(agent) or self._find_off_reason()
            info.obstacle = reason or (view.obstacle if is_teammate else _NO_TEAMMATE)
            return info
        info.obstacle = view.obstacle
        info.words, info.requests = found.word_count, found.request_count
        info.model, info.written_at = found.model, found.written_at
        if is_whole:
            info.phrases.extend(
                pb.PhrasesInfo(language=each.language, words=each.words, requests=each.requests)
                for each in found.phrases
            )
        return info


def _explain_inactive(agent: Agent) -> str:
    return "" if agent.status is AgentStatus.ACTIVE else f"its status is {agent.status}, not active"
