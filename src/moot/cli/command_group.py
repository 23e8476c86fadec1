"""The group of subcommands behind commands such as `moot cron`: whole sentences in its help, and synonyms of names."""

import click

# Words that people use for the same thing; a group has at most one of each row.
_SYNONYMS = (("list", "ls"), ("rm", "remove", "delete", "forget", "revoke"), ("new", "create"), ("show", "get"))
# Longer than any first sentence.
_LONGEST_HELP = 1000


class CommandGroup(click.Group):
    """A click group whose help shows the first sentence of each subcommand, wrapped instead of cut."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, cmd_name) or super().get_command(ctx, self._find_synonym(cmd_name))

    def _find_synonym(self, name: str) -> str:
        words = next((row for row in _SYNONYMS if name in row), ())
        return next((word for word in words if word in self.commands), "")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, self.commands[name].get_short_help_str(_LONGEST_HELP)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
