"""Renders a run with a real model as a page of the documentation."""

import json
import os
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from moot.models.pullable import MODELS

WIDTH = 118
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.+]+")
HEAD = """# A recorded run with a real model

Written by `MOOT_WRITE_RUN=1 ./dev test-model`, which fails unless all of this happens: an orchestrator spawns an
operator, a person allows the call that writes the file and nothing else, the file is there as it should be, and the
orchestrator reports it. [Teammates](teammates.md) describes how that works.

| | |
|---|---|
| model | {title}, embedded, with tools chosen by JSON schema |
| machine | {cores} cores, no GPU |
| took | {seconds:.0f} s, {steps} model calls, {tokens} tokens |
| the file afterwards | `greeting.txt`: {text} |

Each line begins with the seconds since the message; `/project` is the working directory. Texts and calls of agents are
as the model wrote them.

```
"""


def render_page(traces: list[dict[str, Any]], *, seconds: float, work: Path, text: str) -> str:
    """The page of a run, from the traces of its turns, the oldest first."""
    runs = list(_walk_runs(traces))
    head = HEAD.format(
        title=MODELS["qwen"].title,
        cores=os.cpu_count(),
        seconds=seconds,
        steps=sum(run["steps"] for run in runs),
        tokens=sum(run["tokens"] for run in runs),
        text=text,
    )
    began = traces[0]["started_at"]
    entries = [(trace["started_at"], "you", trace["request"]) for trace in traces[:1]]
    entries += [(event["at"], event["agent"], _describe_event(event)) for run in runs for event in run["events"]]
    entries.sort(key=lambda each: float(each[0]))
    entries = [(at - began, who, _TIME.sub("…", text.replace(str(work), "/project"))) for at, who, text in entries]
    return head + "\n".join(line for each in entries for line in _wrap_entry(*each)) + "\n```\n"


def _walk_runs(traces: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for trace in traces:
        yield trace
        yield from _walk_runs(trace.get("children", []))


def _wrap_entry(at: float, who: str, text: str) -> list[str]:
    start = f"{at:7.1f}  {who:<9} "
    wrap = textwrap.TextWrapper(
        WIDTH,
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_on_hyphens=False,
        break_long_words=False,
    )
    return wrap.wrap(text) if text else []


def _describe_event(event: dict[str, Any]) -> str:
    payload = event["payload"]
    match event["kind"]:
        case "text":
            return f"says: {payload['text']}"
        case "tool_call":
            return f"calls {payload['tool']} {payload['arguments']}"
        case "tool_result":
            return f"gets from {payload['tool']}: {payload['response']}"
        case "routing":
            return f"routing: {payload['summary']}"
        case "policy_decision":
            return f"{payload['state']}: {payload['call']}"
        case "delegation" | "delegation_return":
            return ""
        case kind:
            return f"{kind}: {json.dumps(payload, ensure_ascii=False)}"
