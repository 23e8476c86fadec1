"""Every port has an implementation for production, one without I/O, and a suite of tests that both are held to."""

import importlib
import inspect
import pkgutil
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

import pytest

from moot.domain import ports
from moot.domain.ports.storage import Storage

TESTS = Path(__file__).resolve().parents[1]
# What no class is needed for: a function, or a part of another port.
PARTS = {
    "Timer": "Clock",
    "Timeout": "Clock",
    "UnmaskedText": "Masks",
    "TraceNoteStore": "TraceStore",
    "AskHuman": "Tool",
    "RunScript": "Tool",
    "Reveal": "Tool",
    # What a tool may offer besides.
    **dict.fromkeys(
        (
            "Previews",
            "Checks",
            "Binds",
            "KnowsSinks",
            "Reaches",
            "Renders",
            "ExplainsRefusals",
            "Scripted",
            "Shapes",
            "Recovers",
        ),
        "Tool",
    ),
}


class Port(NamedTuple):
    production: str
    # The same class where that does no I/O.
    in_memory: str
    suite: str


def stored(sqlite: str, memory: str, suite: str) -> Port:
    return Port(f"moot.store.{sqlite}", f"moot.store.memory.{memory}", f"contracts/test_store{suite}.py")


def in_process(implementation: str, suite: str) -> Port:
    return Port(f"moot.{implementation}", f"moot.{implementation}", f"unit/{suite}.py")


PORTS = {
    "Store": stored("sqlite.SqliteStore", "store.MemoryStore", ""),
    "AskStore": stored("asks.SqliteAsks", "asks.MemoryAsks", "_asks"),
    "MailStore": stored("mail.SqliteMail", "mail.MemoryMail", "_mail"),
    "Outbox": stored("outbox.SqliteOutbox", "outbox.MemoryOutbox", "_outbox"),
    "KnownDaemons": stored("known_daemons.SqliteKnownDaemons", "outbox.MemoryKnownDaemons", "_outbox"),
    "RuleStore": stored("rules.SqliteRules", "asks.MemoryRules", "_asks"),
    "StepStore": stored("steps.SqliteSteps", "traces.MemorySteps", "_records"),
    "TraceStore": stored("traces.SqliteTraces", "traces.MemoryTraces", "_traces"),
    "Retention": stored("retention.SqliteRetention", "retention.MemoryRetention", "_retention"),
    "Memories": stored("memories.SqliteMemories", "agent_data.MemoryMemories", "_memories"),
    "Tasks": stored("tasks.SqliteTasks", "agent_data.MemoryTasks", "_shelves"),
    "Graph": stored("graph.SqliteGraph", "graph.MemoryGraph", "_graph"),
    "DocumentIndex": stored("documents.SqliteDocuments", "documents.MemoryDocuments", "_documents"),
    "CronStore": stored("cron_jobs.SqliteCron", "cron_jobs.MemoryCron", "_cron"),
    "Notes": stored("notes.SqliteNotes", "agent_data.MemoryNotes", "_shelves"),
    "Outputs": stored("outputs.SqliteOutputs", "agent_data.MemoryOutputs", "_shelves"),
    "KnowledgeStore": stored("knowledge.SqliteKnowledge", "knowledge.MemoryKnowledge", "_knowledge"),
    "Inquiries": stored("inquiries.SqliteInquiries", "inquiries.MemoryInquiries", "_inquiries"),
    "Learnings": stored("learnings.SqliteLearnings", "knowledge.MemoryLearnings", "_knowledge"),
    "McpDecisions": stored("mcp_decisions.SqliteMcpDecisions", "agent_data.MemoryMcpDecisions", "_shelves"),
    "Workflows": stored("workflows.SqliteWorkflows", "workflows.MemoryWorkflows", "_workflows"),
    "VocabularyStore": stored("vocabularies.SqliteVocabularies", "vocabularies.MemoryVocabularies", "_vocabularies"),
    "SecretStore": stored("secrets.SqliteSecrets", "secrets.MemorySecrets", "_shelves"),
    "KeyStore": stored("keys.SqliteKeys", "secrets.MemoryKeys", "_shelves"),
    "Clock": Port("moot.daemon.clock.SystemClock", "tests.simulation.clock.VirtualClock", "contracts/test_clock.py"),
    "Model": Port(
        "moot.models.openai.OpenAIModel", "moot.models.scripted.ScriptedModel", "contracts/test_model_answers.py"
    ),
    "EmbeddingModel": in_process("models.embeddings.OpenAIEmbeddings", "models/test_embeddings"),
    "Broker": Port("moot.broker.nats.NatsBroker", "moot.broker.memory.MemoryConnection", "contracts/test_broker.py"),
    "Masks": in_process("redaction.masks.ModelMasks", "redaction/test_placeholders"),
    "ReadProject": Port(
        "moot.tools.files.project_files.ProjectReader",
        "moot.domain.ports.project.read_nothing",
        "journeys/test_project_files.py",
    ),
    "Hook": in_process("hooks.security.SecurityFilter", "engine/test_hook_chain"),
    "Tool": in_process("tools.tasks.TaskCreate", "tools/test_memory_tools"),
    "FindsMode": in_process("engine.modes.Modes", "engine/test_conversation_modes"),
    "TraceNotes": in_process("multiagent.traces.recorder.Traces", "multiagent/test_timeline"),
    "SpawnedRuns": in_process("multiagent.teammates.live_runs.LiveRuns", "multiagent/test_waits"),
    # They work on SecretStore and KeyStore, and have nothing else to do with a disk.
    "Secrets": in_process("daemon.vault.vault.Vault", "daemon/vault/test_vault"),
    "SecretConsent": in_process("daemon.vault.vault.Vault", "daemon/vault/test_vault"),
    "SealerSource": in_process("daemon.vault.vault.Vault", "daemon/vault/test_vault"),
    "Sealer": in_process("daemon.vault.seal.Seal", "daemon/vault/test_vault"),
    "Keys": in_process("daemon.vault.keychain.Keychain", "daemon/vault/test_vault"),
    "SecretRegistry": in_process("redaction.redactor.Redactor", "redaction/test_redaction"),
}


def protocols() -> dict[str, Any]:
    """The ports as domain/ports defines them, by name."""
    modules = [
        importlib.import_module(each.name) for each in pkgutil.iter_modules(ports.__path__, f"{ports.__name__}.")
    ]
    return {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == module.__name__ and getattr(value, "_is_protocol", False)
    }


def load(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def methods(port: Any) -> set[str]:
    """What can be called; a property may be a plain attribute of an implementation."""
    return {name for name in dir(port) if not name.startswith("_") and callable(getattr(port, name))}


def test_every_port_is_known_here() -> None:
    assert set(protocols()) == {*PORTS, *PARTS}
    assert set(PARTS.values()) <= set(PORTS)


@pytest.mark.parametrize("name", PORTS)
def test_a_port_has_an_implementation_for_production_and_one_in_memory_and_a_suite(name: str) -> None:
    port = PORTS[name]
    for implementation in (load(port.production), load(port.in_memory)):
        assert methods(protocols()[name]) <= {*dir(implementation)}
    assert (TESTS / port.suite).is_file()


def test_all_storage_of_a_daemon_can_be_in_memory() -> None:
    in_memory = {name for name, port in PORTS.items() if port.in_memory.startswith("moot.store.memory.")}
    bundle = {port for port in get_type_hints(Storage).values() if inspect.isclass(port)}
    assert {protocols()[name] for name in in_memory} == bundle
