"""Answers about the daemon itself: a name on disk that is no text can still be told."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from moot.agents.registry import Registry
from moot.daemon.clock import SystemClock
from moot.daemon.config.config_file import ConfigFile
from moot.daemon.principal import OWNER
from moot.daemon.requests.admission import Admission
from moot.daemon.requests.daemon_info import DaemonFacts, DaemonInfoDependencies, DaemonRequests
from moot.domain.agent import ROLES
from moot.domain.errors import NotFound
from moot.domain.sandbox import SandboxReport
from moot.multiagent.partition import Partition
from moot.wire import moot_pb2 as pb


class Whole:
    async def check(self) -> list[str]:
        return []


class Sent:
    def __init__(self) -> None:
        self.messages: list[pb.ServerMessage] = []

    def send(self, message: pb.ServerMessage) -> None:
        self.messages.append(message)


def odd_home(tmp_path: Path) -> Path:
    """A home whose own name is no text, with a good agent, one in a folder that is no text, and a bad setting."""
    home = tmp_path / os.fsdecode(b"h\xff")
    for name in (b"ada", b"caf\xe9"):
        folder = home / "agents" / os.fsdecode(name)
        folder.mkdir(parents=True)
        (folder / "AGENT.md").write_text("---\nname: ada\ndescription: d\n---\nDo.\n")
    (home / "config.toml").write_text("unknown_key = 1\n")
    return home


class Nothing:
    """A catalog without a model."""

    def get(self, name: str) -> Any:
        raise NotFound(f"there is no model {name!r}")


def house(home: Path) -> Any:
    config, registry = ConfigFile(home / "config.toml"), Registry(home / "agents")
    unused = cast(Any, None)

    class Reloads:
        async def reload(self) -> list[str]:
            return [str(flaw) for flaw in (*config.flaws, *registry.flaws)]

    return DaemonRequests(
        DaemonInfoDependencies(
            store=cast(Any, Whole()),
            registry=registry,
            config=config,
            models=cast(Any, SimpleNamespace(catalog=Nothing(), find_window=lambda _name: 0)),
            reloader=cast(Any, Reloads()),
            principals=unused,
            lookup=unused,
            asks=unused,
            modes=unused,
            clock=unused,
            facts=DaemonFacts(started=0.0),
            admission=Admission(SystemClock()),
            toolset=cast(
                Any,
                SimpleNamespace(
                    describe_sandbox=lambda: SandboxReport(mechanism="none"), plugins=SimpleNamespace(flaws=())
                ),
            ),
            gate=unused,
            team=cast(Any, SimpleNamespace(partition=lambda: Partition(registry.active(), ()))),
            broker=cast(Any, SimpleNamespace(is_shared=False)),
            others=unused,
        )
    )


async def test_agents_and_flaws_are_told_where_names_are_no_text(tmp_path: Path) -> None:
    sent, subject = Sent(), house(odd_home(tmp_path))

    for answer in (subject.list_agents, subject.check, subject.reload):
        await answer(pb.ClientMessage(), OWNER, sent)

    listed, checked, reloaded = sent.messages
    assert [each.name for each in listed.agent_list.agents] == ["moot", *ROLES, "ada", "caf\\xe9"]
    assert listed.agent_list.agents[-1].flaw
    assert len(checked.checked.findings) == 4
    assert len(reloaded.reloaded.flaws) == 2
