"""The home folder of the demo: its agents and its model."""

import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from moot.agents.registry import DEMO
from moot.cli.setup.config_edit import write_config
from moot.cli.setup.pull import pull_model
from moot.daemon.paths import Paths, make_folder
from moot.domain.config import ModelConfig
from moot.domain.errors import Conflict, MootError, Unavailable
from moot.models.local import find_problem
from moot.models.pull import is_pulled

EMBEDDED, SCRIPTED = "smollm2", "scripted"
KEEPER = "keeper"
_MARK = f"made_by: {DEMO}"

_AGENTS = {
    "writer": (
        "Writes a sentence or two about anything.",
        "You are a writer. Answer in one or two short, plain sentences.",
    ),
    "critic": (
        "Says what is good about a text and what could be better.",
        "You are a friendly critic. Say in one short sentence what is good about the last text,"
        " and in another what could be better.",
    ),
}

# The steps with tools and a teammate are scripted: the embedded model of the demo is too small for tools.
_CONFIG = f"""# {_MARK}
default_model = "{SCRIPTED}"
[models.{SCRIPTED}]
provider = "scripted"
script = "demo.toml"
[agent]
multiAgent = true
[security.interceptor]
sensitive_tools = ["fs_write"]
"""

_SCRIPT = """# What the scripted model says in the demo. None of it is thought up.
[[rule]]
system = "moot:compaction"
reply = "A sentence about the sea. The critic liked that it is short and wanted one more detail."

[[rule]]
system = "You lead a team"
match = "(?i)logbook"
steps = [
  { calls = [{ name = "agent_spawn", arguments = { agent = "operator", instruction = "Read logbook.txt." } }] },
  { calls = [{ name = "agent_wait", arguments = { agent_id = "{agent_id}" } }] },
  { reply = "operator has read the logbook: the sea was calm today." },
]

[[rule]]
system = "You work as a teammate"
match = "(?i)logbook"
steps = [
  { calls = [{ name = "fs_read", arguments = { path = "logbook.txt" } }] },
  { reply = "The logbook says: Today the sea was calm." },
]

[[rule]]
match = "(?i)logbook"
steps = [
  { calls = [{ name = "fs_list", arguments = { path = "." } }] },
  { calls = [{ name = "fs_write", arguments = { path = "logbook.txt", content = "Today the sea was calm.\\n" } }] },
  { reply = "The logbook is written." },
]

[[rule]]
match = "(?i)lighthouse"
reply = "Once there was a lighthouse, and in it a keeper, and every night the keeper lit the lamp and waited \
and the sea went on and on and the story went on with it, as long stories do, with no end in sight at all."
token_seconds = 0.15

[[rule]]
match = "(?i)what do you think"
reply = "Short and clear, which is good. It could name one thing that only this sea has."
token_seconds = 0.02

[[rule]]
match = "(?i)about the sea"
reply = "The sea keeps coming back to the shore, as if it had forgotten something there."
token_seconds = 0.02
"""


def find_demo_home(environ: Mapping[str, str]) -> Paths:
    """A demo folder beside the real data: the user's own configuration and agents are not touched."""
    return Paths.under(Paths.find(environ).data / "demo")


@contextmanager
def hold_demo_home(home: Paths) -> Iterator[None]:
    """Make the folder, and ensure that no other demo writes its agents and uses its conversations meanwhile."""
    folder = home.config.parent
    make_folder(folder)
    with (folder / ".demo.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Conflict(
                f"another demo is running in {folder}", fix="Wait until it ends, or set MOOT_HOME to another folder."
            ) from error
        yield


def share_models(home: Paths, environ: Mapping[str, str]) -> None:
    """Link the folder of pulled models from the real home, so that nothing is pulled twice."""
    models = Paths.find(environ).models
    if models != home.models and not os.path.lexists(home.models):
        make_folder(models)
        make_folder(home.data)
        home.models.symlink_to(models)


def ensure_model(home: Paths) -> None:
    """Make the embedded model available, pulling it if necessary. Raises MootError."""
    config = ModelConfig(name=EMBEDDED, provider="local", model=EMBEDDED)
    if not is_pulled(EMBEDDED, home.models):
        pull_model(EMBEDDED, home.models)
    if reason := find_problem(config, home.data):
        raise Unavailable(reason)


def write_agents(home: Paths, model: str) -> None:
    """Write the demo's agents, the talking ones with `model`, and the scripted model's answers."""
    for name, (description, instruction) in _AGENTS.items():
        front = f"name: {name}\ndescription: {description}\nmodel: {model}\n{_MARK}"
        write_config(home.agents / name / "AGENT.md", f"---\n{front}\n---\n{instruction}\n")
    front = f"name: {KEEPER}\ndescription: Keeps a logbook.\nprefixes: [fs_*]\n{_MARK}"
    write_config(home.agents / KEEPER / "AGENT.md", f"---\n{front}\n---\nYou keep the logbook.\n")
    write_config(_script(home), _SCRIPT)
    write_config(home.config, _CONFIG)
    shutil.rmtree(work_folder(home), ignore_errors=True)
    make_folder(work_folder(home))


def work_folder(home: Paths) -> Path:
    """Return the folder in which the demo's agents work; it is emptied at each start."""
    return home.config.parent / "work"


def _script(home: Paths) -> Path:
    return home.config.parent / "demo.toml"


def first_line(error: MootError) -> str:
    return f"{error.message} {error.fix}".strip()
