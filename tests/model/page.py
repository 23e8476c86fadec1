"""What a run with a real model was like, as a page of the documentation."""

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
HEAD = """# A team led by a real model

Written by `MOOT_WRITE_RUN=1 ./dev test-model`, which fails unless all of this happens: an orchestrator spawns an
operator, a person allows the call that writes the file and nothing else, the file is there as it should be, and the
orchestrator tells of it. [Teammates](teammates.md) says how that works.

| | |
|---|---|
| model | {title}, embedded, with tools chosen by JSON schema |
| machine | {cores} cores, no GPU |
| took | {seconds:.0f} s, {steps} model calls, {tokens} tokens |
| the file afterwards | `greeting.txt`: {text} |

Before each line stand the seconds since the message; `/project` is the working directory. Whatever an agent says, and
calls, is as the model wrote it.

```
"""


def page(traces: list[dict[str, Any]], *, seconds: float, work: Path, text: str) -> str:
    """The page of a run, from the traces of its turns, the oldest first."""
    runs = list(_runs(traces))
    head = HEAD.format(
        title=MODELS["qwen"].title,
        cores=os.cpu_count(),
        seconds=seconds,
        steps=sum(run["steps"] for run in runs),
        tokens=sum(run["tokens"] for run in runs),
        text=text,
    )
    began = traces[0]["started_at"]
    told = [(trace["started_at"], "you", trace["request"]) for trace in traces[:1]]
    told += [(event["at"], event["agent"], _said(event)) for run in runs for event in run["events"]]
    told.sort(key=lambda each: float(each[0]))
    told = [(at - began, who, _TIME.sub("…", said.replace(str(work), "/project"))) for at, who, said in told]
    return head + "\n".join(line for each in told for line in _lines(*each)) + "\n```\n"


def _runs(traces: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for trace in traces:
        yield trace
        yield from _runs(trace.get("children", []))


def _lines(at: float, who: str, said: str) -> list[str]:
    start = f"{at:7.1f}  {who:<9} "
    wrap = textwrap.TextWrapper(
        WIDTH,
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_on_hyphens=False,
        break_long_words=False,
    )
    return wrap.wrap(said) if said else []


def _said(event: dict[str, Any]) -> str:
    told = event["payload"]
    match event["kind"]:
        case "text":
            return f"says: {told['text']}"
        case "tool_call":
            return f"calls {told['tool']} {told['arguments']}"
        case "tool_result":
            return f"is told by {told['tool']}: {told['response']}"
        case "routing":
            return f"is advised: {told['summary']}"
        case "policy_decision":
            return f"{told['state']}: {told['call']}"
        case "delegation" | "delegation_return":
            return ""
        case kind:
            return f"{kind}: {json.dumps(told, ensure_ascii=False)}"
