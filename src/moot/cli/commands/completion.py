"""`moot completion`: prints the script that lets a shell complete commands, options and names."""

import os

import click
from click.shell_completion import ShellComplete, get_completion_class

from moot.cli import output
from moot.domain.errors import BadRequest

SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_MOOT_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(SHELLS), required=False)
@output.json_option
@click.pass_context
def completion(context: click.Context, shell: str | None) -> None:
    """Print the completion script for SHELL; without SHELL, for the one you use.

    \b
    bash: add to ~/.bashrc            eval "$(moot completion bash)"
    zsh:  add to ~/.zshrc             eval "$(moot completion zsh)"
    fish: moot completion fish > ~/.config/fish/completions/moot.fish

    Names of agents, runs, models, tokens and open questions, and numbers of rules and archives, come from the daemon,
    if it runs.
    """
    name = shell or os.path.basename(os.environ.get("SHELL", ""))
    found = get_completion_class(name) if name in SHELLS else None
    if found is None:
        raise BadRequest(f"there is no completion for the shell {name!r}", fix=f"Name one: {', '.join(SHELLS)}.")
    # Without the check of the shell's version, which would run the shell.
    script = ShellComplete.source(found(context.find_root().command, {}, "moot", _VARIABLE))
    output.emit({"shell": name, "script": script}, render=lambda _: script)
