"""`moot rules`: lists and removes the rules written by "always" and "for this run"."""

import sys
from typing import Any

import click

from moot.cli import output
from moot.cli.command_group import CommandGroup
from moot.cli.connect import send_request
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
    """A rule in full for a terminal, with its owner and creation time."""
    head = f"{info.number:>2}  "
    whose = sanitize.line(describe_holder(info.agent, info.teammates, info.sender))
    alone = " in this run alone" if info.run else ""
    made = f"for {whose}{alone} · made {numbers.format_time(info.created_at)} by {sanitize.name(info.created_by)}"
    under = " " * len(head)
    # The owner is on the line below, also for rules of a single run.
    text = sanitize.exact_line(info.text).removesuffix(f" for {whose}")
    text = flow.wrap_text(head + text, width, indent=under)
    return [text, terminal.paint(flow.wrap_text(under + made, width, indent=under), dim=True)]


@rules.command("rm")
@click.argument("number", type=click.IntRange(min=1))
@output.json_option
def remove(number: int) -> None:
    """Remove rule NUMBER. The next such call needs approval again."""
    send_request(pb.ClientMessage(delete_rule=pb.DeleteRuleMsg(number=number)))
    output.emit({"number": number, "removed": True}, render=lambda _: f"Removed rule {number}.")
