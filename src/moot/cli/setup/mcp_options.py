"""Reads the options of `moot mcp add`, which stand before the command of a server with options of its own."""

import click

from moot.cli.program import hint

# Where an option of the server's command can be at the earliest: behind NAME and the command.
_FIRST_OF_SERVER = 2


class AddCommand(click.Command):
    """Says what to do about an option of the server's command that was taken for one of its own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            place = next((at for at, each in enumerate(given) if each.startswith(error.option_name)), 0)
            if place < _FIRST_OF_SERVER:
                raise
            raise click.UsageError(
                f"No such option '{error.option_name}'. If it belongs to the server's command, put -- before that "
                f"command: {hint('moot mcp add')} NAME -- COMMAND {error.option_name}",
                ctx,
            ) from error
