"""The tasks of `./dev test-model --score`, at least ten of each kind, and the checks of what must be true. Pure."""

import re
from dataclasses import dataclass, field
from pathlib import Path

READ, EDIT, OPERATOR, TEAMMATES, GUEST = "read", "edit", "operator", "teammates", "guest"
# Questions about documents, in documents.py: those with an answer, and those without.
DOCUMENTS, ABSENT = "documents", "absent"

TITLES = {
    READ: "reads a file and answers from it",
    EDIT: "edits a file after approval",
    OPERATOR: "an operator writes a file",
    TEAMMATES: "two teammates write a file each",
    GUEST: "a guest stays in character",
    DOCUMENTS: "answers from the passage it cites",
    ABSENT: "says that the documents have no answer",
}
TARGETS = {READ: 10, EDIT: 7, OPERATOR: 12, TEAMMATES: 5, GUEST: 8, DOCUMENTS: 8, ABSENT: 4}
# How many tasks there are of each kind.
COUNTS = dict.fromkeys(TARGETS, 10) | {OPERATOR: 15, ABSENT: 5}


@dataclass(frozen=True)
class Task:
    """One message to an agent: the files before it, and what makes it done."""

    kind: str
    message: str
    files: dict[str, str] = field(default_factory=dict)
    # What the reply must contain, one of these.
    says: tuple[str, ...] = ()
    # The files afterwards, and the agent whose call wrote each of them.
    result: dict[str, str] = field(default_factory=dict)
    writers: dict[str, str] = field(default_factory=dict)
    guest: str = ""


@dataclass
class Done:
    """What happened: the reply, who made which call, and who spoke."""

    reply: str = ""
    outcome: str = ""
    speaker: str = ""
    # (agent, tool, path) of the calls that were allowed.
    allowed: list[tuple[str, str, str]] = field(default_factory=list)
    # The tools whose calls succeeded, of the whole tree.
    tools: list[str] = field(default_factory=list)


def find_fault(task: Task, done: Done, folder: Path) -> str:
    """Return why the task is not done; "" if it is."""
    if done.outcome != "completed":
        return f"the run ended {done.outcome}"
    if task.kind == READ and "fs_read" not in done.tools:
        return "no file was read"
    if task.says and not any(_contains(done.reply, each) for each in task.says):
        return f"the reply has none of {task.says}"
    for name, content in task.result.items():
        path = folder / name
        if not path.is_file():
            return f"{name} does not exist"
        if path.read_text().strip() != content.strip():
            return f"{name} contains {path.read_text()!r}"
    for name, agent in task.writers.items():
        if not any(who == agent and name in path for who, _, path in done.allowed):
            return f"{name} was not written by {agent}"
    return _find_fault_of_guest(task, done) if task.guest else ""


def _find_fault_of_guest(task: Task, done: Done) -> str:
    if done.speaker != task.guest:
        return f"it was said by {done.speaker or 'the primary agent'}"
    if re.search(
        r"\bI('m| am) (moot|an? (AI|language model|assistant))|as an AI|Qwen|<from", done.reply, re.IGNORECASE
    ):
        return "it left its character"
    return ""


def _contains(text: str, wanted: str) -> bool:
    return wanted.lower() in text.lower()


_FACTS = (
    ("ferry.txt", "The ferry Tern leaves at 7:40 from pier 3.", "When does the ferry leave?", ("7:40",)),
    ("menu.txt", "Monday: lentil soup\nTuesday: fish pie\n", "What is there to eat on Tuesday?", ("fish pie",)),
    ("order.txt", "order = 4471\nitems = 12\n", "How many items are in the order?", ("12", "twelve")),
    ("team.txt", "captain: Ines\ncook: Olaf\n", "Who is the cook?", ("Olaf",)),
    ("config.ini", "[server]\nport = 8123\nhost = example.org\n", "Which port is configured?", ("8123",)),
    ("todo.md", "- water the plants\n- call Mira\n", "Whom shall I call?", ("Mira",)),
    ("route.txt", "Start in Bergen, then Voss, then Flam.", "Where does the route start?", ("Bergen",)),
    ("price.txt", "A ticket costs 18 euros, children pay 9.", "What does a ticket cost for children?", ("9", "nine")),
    ("version.txt", "release 2.7.1 (stable)", "Which release is it?", ("2.7.1",)),
    ("key.txt", "The spare key is under the blue pot.", "Where is the spare key?", ("blue pot",)),
)
_EDITS = (
    ("ferry.txt", "The ferry leaves at 7:40.\n", "7:40", "8:15"),
    ("menu.txt", "Monday: lentil soup\nTuesday: fish pie\n", "fish pie", "pancakes"),
    ("config.ini", "[server]\nport = 8123\n", "8123", "9000"),
    ("team.txt", "captain: Ines\ncook: Olaf\n", "Olaf", "Petra"),
    ("version.txt", "release 2.7.1\n", "2.7.1", "2.8.0"),
    ("greeting.py", 'print("hello")\n', "hello", "good morning"),
    ("route.txt", "Start in Bergen.\n", "Bergen", "Oslo"),
    ("price.txt", "A ticket costs 18 euros.\n", "18", "21"),
    ("todo.md", "- water the plants\n- call Mira\n", "call Mira", "write to Mira"),
    ("colour.css", "body { color: red; }\n", "red", "green"),
)
_NOTES = (
    ("greeting.txt", "Hello from the moot"),
    ("list.txt", "bread, milk and eggs"),
    ("port.txt", "8123"),
    ("name.txt", "Ines"),
    ("date.txt", "2026-05-01"),
    ("title.md", "# Minutes"),
    ("colour.txt", "dark blue"),
    ("plan.txt", "Meet at noon."),
    ("word.txt", "harbour"),
    ("answer.txt", "forty-two"),
)
# Not used while the prompts were written.
_FRESH_NOTES = (
    ("harvest.txt", "Three crates of plums, two of pears"),
    ("motto.md", "Slow is smooth."),
    ("room.txt", "B 204"),
    ("reply.txt", "Yes, we will come on Friday."),
    ("speed.cfg", "limit = 80"),
)
_GUESTS = (
    ("captain", "Who are you?", ("captain", "ann")),
    ("captain", "What do you do all day?", ("ferry", "ship", "sea", "sail", "crew")),
    ("captain", "Are you the agent moot?", ("captain", "ann", "ferry")),
    ("captain", "What is your name?", ("ann",)),
    ("captain", "Where do you work?", ("ferry", "tern", "ship", "sea", "harbour", "harbor")),
    ("baker", "Who are you?", ("baker", "bruno")),
    ("baker", "What do you do all day?", ("bread", "bake", "bakery", "dough")),
    ("baker", "Are you the agent moot?", ("baker", "bruno", "bread", "bakery")),
    ("baker", "What is your name?", ("bruno",)),
    ("baker", "Where do you work?", ("bakery", "baker", "oven")),
)

AGENTS = {
    "captain": ("The captain of a ferry.", "You are Ann, the captain of the ferry Tern. You speak as Ann.", "[]"),
    "baker": ("The baker of the village.", "You are Bruno, the baker of a village bakery. You speak as Bruno.", "[]"),
    "scribe": ("Writes files.", "You are scribe. Write the file you are asked for, then say so.", "[fs_write]"),
    "clerk": ("Writes files.", "You are clerk. Write the file you are asked for, then say so.", "[fs_write]"),
}

TASKS = (
    *(Task(READ, f"Read {name}. {asked}", {name: text}, says) for name, text, asked, says in _FACTS),
    *(
        Task(EDIT, f"In {name}, replace '{old}' by '{new}'.", {name: text}, result={name: text.replace(old, new)})
        for name, text, old, new in _EDITS
    ),
    *(
        Task(
            OPERATOR,
            f"Write the text '{text}' into a new file called {name} and tell me when it is there.",
            result={name: text},
            writers={name: "operator"},
        )
        for name, text in (*_NOTES, *_FRESH_NOTES)
    ),
    *(
        Task(
            TEAMMATES,
            f"Have scribe write '{first[1]}' into {first[0]}, and have clerk write '{second[1]}' into {second[0]}.",
            result={first[0]: first[1], second[0]: second[1]},
            writers={first[0]: "scribe", second[0]: "clerk"},
        )
        for first, second in zip(_NOTES, (*_NOTES[1:], _NOTES[0]), strict=True)
    ),
    *(Task(GUEST, asked, says=says, guest=guest) for guest, asked, says in _GUESTS),
)
