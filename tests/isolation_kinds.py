"""The kinds of stored data: how an agent stores some, how one finds it, and what would spoil it.

A new kind gets a row in docs/isolation.md and an entry here; isolating.py tries it with every reader.
"""

import re
from dataclasses import dataclass
from typing import Any

# What all the texts are about, and all queries ask for.
TOPIC = "harbour"
FLOW = "name: NAME\nsteps:\n  - id: one\n    agent: ada\n    prompt: go to the TOPIC WORD\n"

Call = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Kind:
    """A kind of data: how an agent stores some, and how one finds it. WORD is what nobody else may find."""

    name: str
    stores: tuple[Call, ...] = ()
    finds: tuple[Call, ...] = ()
    # What would delete or overwrite it.
    spoils: tuple[Call, ...] = ()
    # Whether a request lists it to the owner.
    is_listed: bool = True

    @property
    def word(self) -> str:
        return f"zq{re.sub('[^a-z]', '', self.name)}zq"


MESSAGES, ARCHIVES, MAIL, QUESTIONS, RUNS = (
    Kind("messages"),
    Kind("archives", finds=(("recall", {"query": f"{TOPIC} archived"}),)),
    Kind("mail"),
    Kind("questions and approvals"),
    Kind(
        "runs and traces",
        stores=(("agent_spawn", {"agent": "mate", "instruction": f"row to the {TOPIC}", "spawn_reason": "WORD"}),),
    ),
)
BACKGROUND = Kind(
    "background tasks",
    stores=(("bg_submit", {"prompt": f"work for the {TOPIC} WORD"}),),
    finds=(("bg_list", {}), ("bg_status", {"task_id": "TASK"}), ("bg_result", {"task_id": "TASK"})),
    spoils=(("bg_cancel", {"task_id": "TASK"}),),
)
WORKFLOWS = Kind(
    "workflow runs",
    stores=(("workflow_run", {"yaml_content": FLOW.replace("NAME", "harbour-run")}),),
    finds=(("workflow_list", {}), ("workflow_status", {"run_id": "FLOW"})),
    spoils=(("workflow_cancel", {"run_id": "FLOW"}),),
)
KINDS = (
    MESSAGES,
    ARCHIVES,
    MAIL,
    QUESTIONS,
    RUNS,
    BACKGROUND,
    WORKFLOWS,
    Kind(
        "memories",
        stores=(("memory_agent_save", {"key": TOPIC, "content": f"the {TOPIC} WORD"}),),
        finds=(("memory_agent_recall", {"query": TOPIC}),),
        spoils=(
            ("memory_agent_save", {"key": TOPIC, "content": "spoilt"}),
            ("memory_agent_forget", {"key": TOPIC}),
        ),
    ),
    Kind(
        "notes",
        stores=(("observe_add", {"content": f"about the {TOPIC} WORD"}), ("reflect_now", {"content": "so WORD"})),
        finds=(("observe_list", {}), ("reflect_list", {})),
    ),
    Kind(
        "tasks",
        stores=(("task_create", {"title": f"see the {TOPIC} WORD"}),),
        finds=(("task_list", {}), ("task_get", {"task_id": "TODO"})),
        spoils=(("task_update", {"task_id": "TODO", "status": "done", "description": "spoilt"}),),
    ),
    Kind(
        "files of the working directory",
        stores=(("fs_write", {"path": "short.txt", "content": f"the {TOPIC} WORD"}),),
        finds=(
            ("fs_read", {"path": "FOLDER/short.txt"}),
            ("fs_search", {"path": "FOLDER", "pattern": TOPIC, "glob": "short.txt"}),
        ),
    ),
    Kind(
        "long results",
        stores=(
            ("fs_write", {"path": "long.txt", "content": f"the {TOPIC} WORD\n" + "line\n" * 20_000}),
            ("fs_read", {"path": "long.txt"}),
        ),
        finds=(("tool_output_get", {"ref": "REF", "mode": "grep", "pattern": TOPIC}),),
    ),
    Kind(
        "knowledge graph",
        stores=(("ontology_assert_fact", {"subject": TOPIC, "predicate": "knows", "object": "WORD"}),),
        finds=(("graph_query", {"subject": TOPIC}), ("graph_traverse", {"start_node": TOPIC})),
        spoils=(
            (
                "ontology_retract_fact",
                {"subject": TOPIC, "predicate": "knows", "object": "WORD", "reason": "spoilt", "was_wrong": True},
            ),
            ("ontology_promote_predicate", {"predicate_name": "knows", "target_status": "quarantined", "reason": "x"}),
        ),
    ),
    Kind(
        "knowledge",
        stores=(("save_knowledge", {"key": TOPIC, "category": "fact", "content": f"the {TOPIC} WORD"}),),
        finds=(("search_knowledge", {"query": TOPIC}), ("get_knowledge_history", {"key": TOPIC})),
        spoils=(("save_knowledge", {"key": TOPIC, "category": "rule", "content": "spoilt"}),),
    ),
    Kind(
        "learnings",
        stores=(("save_learning", {"trigger": TOPIC, "error_pattern": f"the {TOPIC}", "fix": "use WORD"}),),
        finds=(("search_learnings", {"query": TOPIC}),),
        spoils=(("learning_cleanup", {"max_confidence": 1, "dry_run": False}),),
    ),
    Kind(
        "documents",
        stores=(
            ("fs_write", {"path": "document.txt", "content": f"The {TOPIC} is WORD.\n"}),
            ("rag_index", {"source": "document.txt"}),
        ),
        finds=(("rag_search", {"query": TOPIC}),),
        spoils=(("rag_forget", {"source": "document.txt"}),),
        is_listed=False,
    ),
    Kind(
        "inquiries",
        finds=(("librarian_pending_inquiries", {}), ("librarian_pending_inquiries", {"session_key": "ada:sue"})),
        spoils=(("librarian_dismiss_inquiry", {"inquiry_id": "inquiry-harbour"}),),
    ),
    Kind(
        "schedules",
        stores=(
            (
                "cron_add",
                {"name": "WORD", "schedule_type": "cron", "schedule": "0 0 1 1 *", "prompt": f"see the {TOPIC}"},
            ),
        ),
        finds=(("cron_list", {}), ("cron_history", {})),
        spoils=(("cron_remove", {"id": "JOB"}), ("cron_remove", {"id": "WORD"})),
    ),
    Kind(
        "saved workflows",
        stores=(("workflow_save", {"name": "harbour-flow", "yaml_content": FLOW.replace("NAME", "harbour-flow")}),),
        spoils=(
            ("workflow_run", {"file_path": "SAVED"}),
            (
                "workflow_save",
                {"name": "harbour-flow", "yaml_content": "name: harbour-flow\nsteps: [{id: a, prompt: b}]"},
            ),
        ),
    ),
    Kind(
        "secrets",
        stores=(("secrets_store", {"name": "WORD", "value": "open sesame"}),),
        finds=(("secrets_list", {}),),
        spoils=(("secrets_delete", {"name": "WORD"}), ("secrets_store", {"name": "WORD", "value": "spoilt"})),
    ),
)
