"""What `moot knowledge` and `moot learning` have in common: the option --category, list, search, and pages."""

from collections.abc import Callable
from enum import StrEnum

import click

from moot.cli import output
from moot.cli.command_group import CommandGroup
from moot.cli.connect import require_utf8, run_connected
from moot.cli.options import sender_option
from moot.client.connection import Connection
from moot.wire import moot_pb2 as pb


def make_category_option(categories: type[StrEnum]) -> Callable[[click.decorators.FC], click.decorators.FC]:
    names = [category.value for category in categories]
    return click.option(
        "--category", type=click.Choice(names), metavar="CATEGORY", help=f"Only this category: {', '.join(names)}."
    )


def make_group(
    name: str,
    *,
    view: str,
    categories: type[StrEnum],
    texts: tuple[str, str, str],
    show: Callable[[pb.KnowledgePage, bool], None],
) -> click.Group:
    """Return a group that lists a view, also by itself, and searches in it.

    `texts` are the help of the group, of `list` and of `search`; `show` prints a page, and whether it was searched for.
    """
    category_option = make_category_option(categories)

    def print_page(category: str | None, sender: str, query: str = "") -> None:
        request = pb.ReadKnowledgeMsg(view=view, category=category, query=query, sender=sender)
        show(fetch(request), bool(query))

    @click.group(name, cls=CommandGroup, invoke_without_command=True, help=texts[0])
    @category_option
    @sender_option
    @output.json_option
    @click.pass_context
    def group(context: click.Context, category: str | None, sender: str) -> None:
        if context.invoked_subcommand is None:
            print_page(category, sender)

    @group.command("list", help=texts[1])
    @category_option
    @sender_option
    @output.json_option
    def list_all(category: str | None, sender: str) -> None:
        print_page(category, sender)

    @group.command("search", help=texts[2])
    @click.argument("words")
    @category_option
    @sender_option
    @output.json_option
    def search(words: str, category: str | None, sender: str) -> None:
        print_page(category, sender, require_utf8(words))

    return group


def fetch(request: pb.ReadKnowledgeMsg) -> pb.KnowledgePage:
    """Return all pages of an answer as one."""

    async def fetch_pages(connection: Connection) -> pb.KnowledgePage:
        whole = pb.KnowledgePage()
        while True:
            page = (await connection.request(pb.ClientMessage(read_knowledge=request))).knowledge_page
            whole.MergeFrom(page)
            if not page.next_after:
                whole.next_after = ""
                return whole
            request.after = page.next_after

    return run_connected(fetch_pages)
