"""`moot replay`: sends the recorded model requests of a run again and shows where the answers differ."""

import click

from moot.cli import output
from moot.cli.connect import require_utf8, send_request
from moot.cli.name_completion import complete_runs
from moot.cli.render import numbers, sanitize
from moot.wire import moot_pb2 as pb

_VERDICTS = {
    "same": "same answer",
    "text": "other words",
    "calls": "other tool calls",
    "unknown": "no recorded answer to compare with",
}
_DIVERGED = 1


@click.command()
@click.argument("run", shell_complete=complete_runs)
@click.option("--model", default="", metavar="MODEL", help="Ask this model. Default: the one that was asked.")
@output.json_option
def replay(run: str, model: str) -> None:
    """Replay the recorded model requests of RUN and report where the answers differ.

    Recorded tool results are used: no tool runs, and the conversation stays as it is. The model is called again,
    which costs tokens. Exits with 1 where an answer differs.
    """
    message = pb.ReplayRunMsg(run_id=require_utf8(run), model=require_utf8(model))
    answer = send_request(pb.ClientMessage(replay_run=message)).replayed
    output.emit(_as_data(answer), render=lambda _: "\n".join(_render(answer)))
    if any(step.verdict in ("text", "calls") for step in answer.steps):
        raise SystemExit(_DIVERGED)


def _as_data(answer: pb.Replayed) -> dict[str, object]:
    return {
        "run_id": answer.run_id,
        "model": answer.model,
        "recorded": answer.recorded,
        "steps": [
            {
                "step": step.step,
                "verdict": step.verdict,
                "expected": step.expected,
                "got": step.got,
                "prompt_tokens": step.prompt_tokens,
                "completion_tokens": step.completion_tokens,
                "cost": step.cost,
            }
            for step in answer.steps
        ],
    }


def _render(answer: pb.Replayed) -> list[str]:
    shown = [f"{sanitize.name(answer.run_id)} with {sanitize.name(answer.model)}"]
    for step in answer.steps:
        used = f"{numbers.format_count(step.prompt_tokens)} in, {numbers.format_count(step.completion_tokens)} out"
        shown.append(f"step {step.step}: {_VERDICTS[step.verdict]}  ({used})")
        if step.verdict != "same":
            shown += [f"  recorded: {sanitize.line(step.expected)}"] if step.expected else []
            shown.append(f"  now:      {sanitize.line(step.got)}")
    left = answer.recorded - len(answer.steps)
    if left:
        shown.append(f"{numbers.format_plural(left, 'step')} not replayed: no recorded result fits the other calls.")
    return shown
