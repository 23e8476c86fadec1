"""Names for the completion of the shell: agents, runs, models and others, from the daemon if it runs. Never fails."""

import asyncio
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

from moot.domain.ids import shorten_ask_id
from moot.wire import moot_pb2 as pb
from moot.wire.codec import PROTOCOL_VERSION

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# A shell waits for this, so a slow daemon is no reason to wait longer.
_SECONDS = 2.0

Completer = Callable[[click.Context, click.Parameter, str], list[str]]


def _complete_with(
    request: Callable[[click.Context], pb.ClientMessage], read: Callable[[pb.ServerMessage], Iterable[str]]
) -> Completer:
    def complete(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
        answer = _ask_daemon(context, request(context))
        names = dict.fromkeys(read(answer)) if answer is not None else {}
        return [name for name in names if name.startswith(incomplete) and name.isprintable()]

    return complete


def _ask_daemon(context: click.Context, message: pb.ClientMessage) -> pb.ServerMessage | None:
    """Return the answer of a daemon that runs already; None if there is none, or it does not answer in time."""
    from moot.cli.connect import find_paths  # noqa: PLC0415 - only to complete a name
    from moot.client.connection import connect  # noqa: PLC0415

    address = context.find_root().params.get("address") or os.environ.get("MOOT_ADDRESS", "")

    async def ask() -> pb.ServerMessage:
        opening = connect(address, token=os.environ.get("MOOT_TOKEN", "")) if address else connect(find_paths().socket)
        async with asyncio.timeout(_SECONDS), opening as connection:
            return await connection.request(message)

    try:
        return asyncio.run(ask())
    except Exception:  # noqa: BLE001 - the line that is being typed must stay as it is
        return None


def _find_sender(context: click.Context) -> str:
    """The sender that is typed with --as and --here; empty for the default."""
    sender: str = context.params.get("sender") or ""
    if not context.params.get("here"):
        return sender
    from moot.cli.project_sender import derive_sender  # noqa: PLC0415 - it imports hashlib

    hello = pb.ClientMessage(hello=pb.Hello(version=PROTOCOL_VERSION, client="moot"))
    answer = None if sender else _ask_daemon(context, hello)
    return derive_sender(answer.welcome.default_sender if answer is not None else sender, os.getcwd())


def _make_item(incomplete: str, kind: str) -> "CompletionItem":
    from click.shell_completion import CompletionItem  # noqa: PLC0415 - only a shell needs it

    return CompletionItem(incomplete, type=kind)


def complete_folders(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Let the shell itself complete the name of a folder."""
    return [_make_item(incomplete, "dir")]


def complete_files(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Let the shell itself complete the name of a file or folder."""
    return [_make_item(incomplete, "file")]


complete_agents = _complete_with(
    lambda _: pb.ClientMessage(list_agents=pb.ListAgentsMsg()),
    lambda answer: (info.name for info in answer.agent_list.agents if info.status == "active"),
)
complete_vocabularies = _complete_with(
    lambda _: pb.ClientMessage(list_vocabularies=pb.ListVocabulariesMsg()),
    lambda answer: (info.agent for info in answer.vocabularies.vocabularies),
)
complete_runs = _complete_with(
    lambda _: pb.ClientMessage(list_runs=pb.ListRunsMsg(all=True, limit=20)),
    lambda answer: (info.run_id for info in answer.run_list.runs),
)
complete_active_runs = _complete_with(
    lambda _: pb.ClientMessage(list_runs=pb.ListRunsMsg()),
    lambda answer: (info.run_id for info in answer.run_list.runs if not info.outcome),
)
complete_cron_jobs = _complete_with(
    lambda _: pb.ClientMessage(list_cron_jobs=pb.ListCronJobsMsg()),
    lambda answer: (info.name for info in answer.cron_jobs.jobs),
)
complete_workflows = _complete_with(
    lambda _: pb.ClientMessage(list_workflows=pb.ListWorkflowsMsg()),
    lambda answer: (info.name for info in answer.workflows.workflows),
)
complete_workflow_runs = _complete_with(
    lambda _: pb.ClientMessage(list_workflow_runs=pb.ListWorkflowRunsMsg()),
    lambda answer: (name for info in answer.workflow_runs.runs for name in (info.run_id, info.name)),
)
complete_models = _complete_with(
    lambda _: pb.ClientMessage(list_models=pb.ListModelsMsg()),
    lambda answer: (info.name for info in answer.model_list.models),
)
complete_tokens = _complete_with(
    lambda _: pb.ClientMessage(list_tokens=pb.ListTokensMsg()),
    lambda answer: (info.name for info in answer.token_list.tokens if not info.revoked_at),
)
complete_asks = _complete_with(
    lambda _: pb.ClientMessage(list_asks=pb.ListAsksMsg()),
    lambda answer: (shorten_ask_id(info.ask_id) for info in answer.ask_list.asks),
)
complete_senders = _complete_with(
    lambda _: pb.ClientMessage(list_conversations=pb.ListConversationsMsg(limit=200)),
    lambda answer: (info.sender for info in answer.conversation_list.conversations),
)
complete_secrets = _complete_with(
    lambda _: pb.ClientMessage(list_secrets=pb.ListSecretsMsg()),
    lambda answer: (info.name for info in answer.secret_list.secrets),
)
complete_tasks = _complete_with(
    lambda _: pb.ClientMessage(list_tasks=pb.ListTasksMsg(all=True)),
    lambda answer: (info.task_id for info in answer.task_list.tasks),
)
complete_memories = _complete_with(
    lambda _: pb.ClientMessage(list_memories=pb.ListMemoriesMsg()),
    lambda answer: (info.key for info in answer.memory_list.memories),
)
complete_rules = _complete_with(
    lambda _: pb.ClientMessage(list_rules=pb.ListRulesMsg()),
    lambda answer: (str(info.number) for info in answer.rule_list.rules),
)
# Those of the conversation that is named before them.
complete_archives = _complete_with(
    lambda context: pb.ClientMessage(
        list_archives=pb.ListArchivesMsg(agent=context.params.get("agent") or "", sender=_find_sender(context))
    ),
    lambda answer: (str(info.number) for info in answer.archive_list.archives),
)
