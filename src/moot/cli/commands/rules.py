"""`moot rules`: lists and removes the rules written by "always" and "for this run"."""

import sys
from typing import Any

import click

from moot.cli import output
from moot.cli.command_group import CommandGroup
from moot.cli.connect import send_request
from moot.cli.name_completion import complete_rules
from moot.cli.render import flow, numbers, plain_data, sanitize, terminal
from moot.domain.approval import describe_holder
from moot.wire import moot_pb2 as pb


@click.group(cls=CommandGroup, invoke_without_command=True)
@output.json_option
@click.pass_context
def rules(context: click.Context) -> None:
    """List and remove the rules written by "always" or "for this run"."""
    if context.invoked_subcommand is None:
        _list()


@rules.command("list")
@output.json_option
def list_rules() -> None:
    """List the rules."""
    _list()


def _list() -> None:
    found = send_request(pb.ClientMessage(list_rules=pb.ListRulesMsg())).rule_list.rules

    def render(_: Any) -> str:
        if found and (width := terminal.row_width(sys.stdout)):
            return "\n".join(row for info in found for row in _render_rule(info, width))
        rows = [
            [str(info.number), numbers.format_time(info.created_at), info.created_by, sanitize.exact_line(info.text)]
            for info in found
        ]
        return terminal.render_table(["NUMBER", "CREATED", "BY", "RULE"], rows) or "No rules."

    output.emit([plain_data.dump_rule(info) for info in found], render=render)


def _render_rule(info: pb.RuleInfo, width: int) -> list[str]:
    """What a rule covers, for a terminal, with its owner, its scope and its creation time."""
    head = f"{info.number:>2}  "
    whose = sanitize.line(describe_holder(info.agent, info.teammates, info.sender))
    only = {"run": f" in run {info.run} alone", "conversation": " in that conversation, not in background runs"}
    scope = only.get(info.scope, "")
    made = f"for {whose}{scope} · made {numbers.format_time(info.created_at)} by {sanitize.name(info.created_by)}"
    under = " " * len(head)
    # Whom it is for and how long it applies is on the line below.
    text = flow.wrap_text(f"{head}allow {sanitize.exact_line(info.pattern)}", width, indent=under)
    return [text, terminal.paint(flow.wrap_text(under + made, width, indent=under), dim=True)]


@rules.command("rm")
@click.argument("number", type=click.IntRange(min=1), shell_complete=complete_rules)
@output.json_option
def remove(number: int) -> None:
    """Remove rule NUMBER. The next such call needs approval again."""
    send_request(pb.ClientMessage(delete_rule=pb.DeleteRuleMsg(number=number)))
    output.emit({"number": number, "removed": True}, render=lambda _: f"Removed rule {number}.")
