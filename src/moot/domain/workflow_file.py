"""Reads and checks workflow files: YAML as untrusted input, all mistakes at once with line and column. Pure.

The result is a Workflow (workflow.py). Used by automation/ and `moot workflow check`.
"""

import re
from collections.abc import Collection, Iterable, Sequence

import yaml

from moot.domain.errors import BadRequest
from moot.domain.near_names import suggest_name
from moot.domain.schedule import ScheduleKind, find_zone, parse_schedule
from moot.domain.text import clean
from moot.domain.workflow import (
    DEFAULT_PARALLEL,
    DEFAULT_SECONDS,
    REFERENCE,
    Retry,
    Workflow,
    WorkflowStep,
)
from moot.domain.workflow_condition import BadCondition, Condition, parse_condition
from moot.domain.workflow_graph import Ancestors, find_cycle
from moot.domain.workflow_yaml import Unreadable, WorkflowProblem, compose

SUFFIX = ".flow.yaml"
# The first line of a file that was written from untrusted text. Its runs are tainted until a person removes the line.
_MARK = "# Written from untrusted text: "
MAX_STEPS = 2_000
MAX_PROBLEMS = 50
_MAX_PROMPT = 100_000
_MAX_TEXT = 2_000
_MAX_LIST = 500
_MAX_PARALLEL = 64
_MAX_ATTEMPTS = 10
_MAX_COMPARISONS = 4_000
_MAX_SECONDS = 86_400.0
_SHOWN_IN_CIRCLE = 10

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_DURATION = re.compile(r"(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6}(?:\.\d{1,3})?)s)?")
_WORKFLOW_KEYS = ("name", "description", "schedule", "timezone", "deliver_to", "max_parallel", "steps")
_STEP_KEYS = ("id", "agent", "prompt", "depends_on", "deliver_to", "timeout", "when", "retry")
_RETRY_KEYS = ("attempts", "delay")
_BRACES = re.compile(r"\{\{([^{}\n]{1,200})\}\}")
# What is meant as a reference if a step has this name: `id`, `id.field`, or `id.result` with more around.
_MEANT = re.compile(
    r"[ \t]*([A-Za-z0-9][A-Za-z0-9_-]{0,63})(?:[ \t]*\.[ \t]*[A-Za-z_]{1,64})?[ \t]*"
    r"|.*?(?<![A-Za-z0-9_-])([A-Za-z0-9][A-Za-z0-9_-]{0,63})[ \t]*\.[ \t]*result\b.*"
)


class BadWorkflow(BadRequest):
    """A workflow file with mistakes; the message has one line for each."""

    def __init__(self, problems: Sequence[WorkflowProblem], file: str = "") -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(problem.render(file) for problem in self.problems))


def parse_workflow(text: str, *, file: str = "", agents: Collection[str] | None = None) -> Workflow:
    """Return the workflow of a file. Raise BadWorkflow with all its mistakes. `agents` are the ones that exist."""
    reader = _Reader(agents)
    try:
        workflow = reader.read(text)
    except Unreadable as error:
        raise BadWorkflow([error.problem], file) from None
    if reader.problems:
        raise BadWorkflow(sorted(reader.problems)[:MAX_PROBLEMS], file)
    return workflow


def check_name(name: str) -> str:
    """Return the name of a saved workflow, without the ending of its file. Raise BadRequest if it is not allowed."""
    name = name.removesuffix(SUFFIX)
    if not NAME.fullmatch(name):
        raise BadRequest(
            f"{name[:80]!r} cannot be the name of a workflow", fix="Use at most 64 letters a-z, digits, - and _."
        )
    return name


def mark_taint(source: str, taint: frozenset[str]) -> str:
    """Return the text of a workflow with a first line that names the sources of untrusted text in it, if any."""
    return f"{_MARK}{', '.join(sorted(taint))}\n{source}" if taint else source


def read_taint(source: str) -> frozenset[str]:
    """Return the sources of untrusted text that the first line of a workflow names."""
    first, _, _ = source.partition("\n")
    if not first.startswith(_MARK):
        return frozenset()
    return frozenset(name.strip() for name in first.removeprefix(_MARK).split(",") if name.strip())


def parse_duration(text: str) -> float | None:
    """Return the seconds of a duration such as `90s`, `1h30m` or `45`; None if it is none."""
    if re.fullmatch(r"\d{1,6}(?:\.\d{1,3})?", text):
        return float(text)
    match = _DURATION.fullmatch(text)
    if match is None or not text:
        return None
    hours, minutes, seconds = match.groups()
    return int(hours or 0) * 3600 + int(minutes or 0) * 60 + float(seconds or 0)


class _Table:
    """The keys of one mapping of the file, with their nodes. What is wrong with them is reported, not raised."""

    def __init__(self, reader: "_Reader", node: yaml.Node, known: Sequence[str], what: str) -> None:
        self.node = node
        self._reader = reader
        self._found: dict[str, yaml.Node] = {}
        self._keys: dict[str, yaml.Node] = {}
        if not isinstance(node, yaml.MappingNode):
            reader.report(node, f"{what} must consist of `key: value` lines")
            return
        for key, value in node.value:
            name = str(key.value) if isinstance(key, yaml.ScalarNode) else ""
            if name in self._found:
                reader.report(key, f"`{name}` is given twice")
            elif name not in known:
                near = reader.suggest(name, known)
                reader.report(key, f"{what} has no key `{name[:80]}`. {near or 'Keys: ' + ', '.join(known) + '.'}")
            else:
                self._found[name], self._keys[name] = value, key

    def get(self, name: str) -> yaml.Node | None:
        return self._found.get(name)

    def find_node(self, name: str) -> yaml.Node:
        """Return the node to report a mistake about the key at."""
        return self._found.get(name, self.node)

    def read_text(self, name: str, *, most: int = _MAX_TEXT) -> str:
        node = self._found.get(name)
        if node is None:
            return ""
        if not isinstance(node, yaml.ScalarNode):
            self._reader.report(node, f"`{name}` must be text")
            return ""
        text = "" if node.tag.endswith(":null") else str(node.value)
        if len(text) > most:
            self._reader.report(node, f"`{name}` has {len(text)} characters; at most {most} are allowed")
            return ""
        if clean(text) != text:
            self._reader.report(node, f"`{name}` contains NUL or half of a surrogate pair")
            return ""
        return text

    def read_names(self, name: str) -> list[tuple[str, yaml.Node]]:
        """Return a list of names; a single name is a list of one."""
        node = self._found.get(name)
        if node is None or node.tag.endswith(":null"):
            return []
        nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
        if len(nodes) > _MAX_LIST:
            self._reader.report(node, f"`{name}` has more than {_MAX_LIST} entries")
            return []
        found: list[tuple[str, yaml.Node]] = []
        for each in nodes:
            if not isinstance(each, yaml.ScalarNode) or not str(each.value).strip() or len(each.value) > _MAX_TEXT:
                what = "the name of an agent" if name == "agent" else "a list of names"
                self._reader.report(each, f"`{name}` must be {what}")
            else:
                found.append((clean(str(each.value).strip()), each))
        return found

    def read_number(self, name: str, default: int, most: int) -> int:
        text = self.read_text(name)
        if not text:
            return default
        if not re.fullmatch(r"\d{1,6}", text) or not 1 <= int(text) <= most:
            self._reader.report(self.find_node(name), f"`{name}` must be a whole number from 1 to {most}")
            return default
        return int(text)

    def read_duration(self, name: str, default: float) -> float:
        text = self.read_text(name).strip()
        if not text:
            return default
        seconds = parse_duration(text)
        if seconds is None or not 0 < seconds <= _MAX_SECONDS:
            self._reader.report(
                self.find_node(name), f"`{name}` must be a duration such as 90s, 10m or 1h30m, up to 24h"
            )
            return default
        return seconds


class _Reader:
    def __init__(self, agents: Collection[str] | None) -> None:
        self.problems: list[WorkflowProblem] = []
        self._agents = agents
        self._places: dict[str, yaml.Node] = {}
        # Where each dependency, condition and prompt of a step is written, to report what is wrong with it.
        self._uses: list[tuple[str, str, yaml.Node, str]] = []
        self._wrong: list[tuple[str, str, yaml.Node]] = []
        self._comparisons = 0

    def suggest(self, name: str, known: Iterable[str]) -> str:
        """Return a suggestion for a wrong name. There is none for mistakes that are not shown: comparing takes long."""
        return suggest_name(name, known) if len(self.problems) < MAX_PROBLEMS else ""

    def report(self, node: yaml.Node, reason: str, *, shift: int = 0) -> None:
        if len(self.problems) < MAX_PROBLEMS * 4:
            mark = node.start_mark
            self.problems.append(WorkflowProblem(mark.line + 1, mark.column + 1 + shift, clean(reason).strip()))

    def read(self, text: str) -> Workflow:
        root = compose(text)
        top = _Table(self, root, _WORKFLOW_KEYS, "a workflow")
        name = top.read_text("name").strip()
        if isinstance(root, yaml.MappingNode) and not name:
            self.report(top.find_node("name"), "the workflow has no name: add `name: …`")
        elif name and not NAME.fullmatch(name):
            self.report(
                top.find_node("name"), f"the name {name[:80]!r} must have at most 64 letters a-z, digits, - and _"
            )
        steps = self._read_steps(top)
        self._check_uses(steps)
        return Workflow(
            name=name,
            description=top.read_text("description").strip(),
            schedule=self._read_schedule(top),
            zone=top.read_text("timezone").strip(),
            deliver_to=self._read_agents(top, "deliver_to"),
            max_parallel=top.read_number("max_parallel", DEFAULT_PARALLEL, _MAX_PARALLEL),
            steps=tuple(self._sort(steps)) if not self.problems else (),
        )

    def _read_schedule(self, top: _Table) -> tuple[ScheduleKind, str] | None:
        """Return kind and text of the schedule, which is checked: `0 8 * * *`, `every 6h` or `at 2027-01-31T08:00`."""
        zone, text = top.read_text("timezone").strip(), top.read_text("schedule").strip()
        if zone and not text:
            self.report(top.find_node("timezone"), "`timezone` is that of `schedule`, which is missing")
        if not text:
            return None
        first, _, rest = text.partition(" ")
        kind, when = (ScheduleKind(first), rest.strip()) if first in ("every", "at") else (ScheduleKind.CRON, text)
        try:
            find_zone(zone or "UTC")
        except BadRequest as error:
            self.report(top.find_node("timezone"), error.sentence)
            return None
        try:
            # Whether a single time is in the past depends on when the workflow is scheduled.
            parse_schedule(kind, when, zone or "UTC", now=0.0)
        except BadRequest as error:
            self.report(top.find_node("schedule"), error.sentence)
        return kind, when

    def _read_steps(self, top: _Table) -> list[WorkflowStep]:
        node = top.get("steps")
        nodes: list[yaml.Node] = node.value if isinstance(node, yaml.SequenceNode) else []
        if not nodes:
            if isinstance(top.node, yaml.MappingNode):
                self.report(top.find_node("steps"), "the workflow has no steps: `steps` must be a list of at least one")
            return []
        if len(nodes) > MAX_STEPS:
            self.report(top.find_node("steps"), f"the workflow has {len(nodes)} steps; at most {MAX_STEPS} are allowed")
            return []
        return [self._read_step(each) for each in nodes]

    def _read_step(self, node: yaml.Node) -> WorkflowStep:
        table = _Table(self, node, _STEP_KEYS, "a step")
        name = table.read_text("id").strip()
        if isinstance(node, yaml.MappingNode):
            self._check_id(table, name)
        prompt = table.read_text("prompt", most=_MAX_PROMPT)
        if isinstance(node, yaml.MappingNode) and not prompt.strip():
            self.report(table.find_node("prompt"), f"step {name!r} has no prompt")
        for match in REFERENCE.finditer(prompt):
            self._uses.append((name, match[1], table.find_node("prompt"), "{{" + match[1] + ".result}}"))
        self._wrong += [(*each, table.find_node("prompt")) for each in _find_wrong_references(prompt)]
        depends_on: dict[str, None] = {}
        for other, place in table.read_names("depends_on"):
            depends_on[other] = None
            self._uses.append((name, other, place, ""))
        agents = self._read_agents(table, "agent")
        return WorkflowStep(
            id=name,
            prompt=prompt,
            agent=agents[0] if agents else "",
            depends_on=tuple(depends_on),
            deliver_to=self._read_agents(table, "deliver_to"),
            timeout=table.read_duration("timeout", DEFAULT_SECONDS),
            when=self._read_condition(table, name),
            retry=self._read_retry(table),
            line=node.start_mark.line + 1,
        )

    def _check_id(self, table: _Table, name: str) -> None:
        place = table.find_node("id")
        if not name:
            self.report(place, "a step has no id: add `id: …`")
        elif not NAME.fullmatch(name):
            self.report(place, f"the id {name[:80]!r} must have at most 64 letters a-z, digits, - and _")
        elif name in self._places:
            first = self._places[name].start_mark.line + 1
            self.report(place, f"the step id {name!r} is used twice; the first is in line {first}")
        else:
            self._places[name] = place

    def _read_agents(self, table: _Table, name: str) -> tuple[str, ...]:
        found = table.read_names(name)
        if name == "agent" and len(found) > 1:
            self.report(table.find_node(name), "a step has one agent")
        for agent, place in found:
            if self._agents is not None and agent not in self._agents:
                near = self.suggest(agent, self._agents)
                self.report(place, f"there is no agent {agent[:80]!r}. {near or '`moot agents` lists them.'}")
        return tuple(dict.fromkeys(agent for agent, _ in found))

    def _read_condition(self, table: _Table, name: str) -> Condition | None:
        text = table.read_text("when")
        if not text.strip():
            return None
        place = table.find_node("when")
        try:
            condition = parse_condition(text)
        except BadCondition as error:
            is_quoted = isinstance(place, yaml.ScalarNode) and place.style in ("'", '"')
            self.report(place, f"`when`: {error.reason}", shift=error.at + is_quoted)
            return None
        self._comparisons += len(condition.comparisons)
        if self._comparisons > _MAX_COMPARISONS:
            self.report(place, f"the conditions have more than {_MAX_COMPARISONS} comparisons")
            return None
        for other in sorted(condition.steps):
            self._uses.append((name, other, place, "`when`"))
        return condition

    def _read_retry(self, table: _Table) -> Retry:
        node = table.get("retry")
        if node is None:
            return Retry()
        if isinstance(node, yaml.ScalarNode):
            return Retry(attempts=table.read_number("retry", 1, _MAX_ATTEMPTS))
        inner = _Table(self, node, _RETRY_KEYS, "`retry`")
        return Retry(attempts=inner.read_number("attempts", 1, _MAX_ATTEMPTS), delay=inner.read_duration("delay", 0.0))

    # ---- what the steps say of each other -----------------------------------------------------

    def _check_uses(self, steps: Sequence[WorkflowStep]) -> None:
        known = self._places
        by_id = {step.id: step for step in reversed(steps)}
        ancestors = Ancestors(by_id)
        cycle = find_cycle(by_id)
        if cycle:
            # A circle may have all steps of a file.
            shown = cycle if len(cycle) <= _SHOWN_IN_CIRCLE else (*cycle[: _SHOWN_IN_CIRCLE - 2], "…", cycle[-1])
            path = " → ".join((*shown, cycle[0]))
            self.report(self._find_dependency(cycle), f"the steps depend on each other in a circle: {path}")
        for name, other, place, what in self._uses:
            if other not in known:
                near = self.suggest(other, known)
                verb = f"{what} of step {name!r} refers to" if what else f"step {name!r} depends on"
                self.report(place, f"{verb} a step {other[:80]!r} that does not exist. {near}")
            elif what and not cycle and not ancestors.includes(name, other):
                if name == other:
                    self.report(place, f"{what} refers to the result of {other!r} itself, which is not there yet")
                    continue
                fix = f"Add it to `depends_on` of {name!r}."
                self.report(place, f"{what} needs the result of {other!r}, which may not be there yet. {fix}")

        for other, written, place in self._wrong:
            # Anything else in double braces is ordinary text.
            if other in known:
                self.report(place, f"a prompt can refer to `{other}.result`, not to `{written}`")

    def _find_dependency(self, cycle: Sequence[str]) -> yaml.Node:
        """Return where the first step of a circle names the next one."""
        following = cycle[1] if len(cycle) > 1 else cycle[0]
        return next(
            place for name, other, place, what in self._uses if (name, other, what) == (cycle[0], following, "")
        )

    def _sort(self, steps: Sequence[WorkflowStep]) -> list[WorkflowStep]:
        """Return the steps with each behind those it depends on, otherwise in the order of the file."""
        by_id = {step.id: step for step in steps}
        placed: dict[str, WorkflowStep] = {}
        for step in steps:
            stack = [(step, iter(step.depends_on))]
            while stack:
                current, rest = stack[-1]
                following = next((name for name in rest if name not in placed), None)
                if following is not None:
                    stack.append((by_id[following], iter(by_id[following].depends_on)))
                else:
                    placed[current.id] = current
                    stack.pop()
        return list(placed.values())


def _find_wrong_references(prompt: str) -> list[tuple[str, str]]:
    """Return what stands in double braces and may be meant as the result of a step: its name, and what is written."""
    braces = [match[1] for match in _BRACES.finditer(prompt) if not REFERENCE.fullmatch(match[0])]
    return [(match[1] or match[2], text.strip()) for text in braces if (match := _MEANT.fullmatch(text))]
