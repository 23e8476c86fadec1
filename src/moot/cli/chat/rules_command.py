"""`/rules` of a chat: shows the rules that allow calls of its agent, and removes them. Used by `slash`."""

from moot.cli.chat import lines
from moot.cli.chat.chat_context import ChatContext
from moot.cli.markdown.styles import HANG, Line
from moot.cli.program import hint
from moot.cli.render import numbers, sanitize
from moot.domain.approval import describe_holder
from moot.domain.errors import BadRequest
from moot.wire import moot_pb2 as pb

_SCOPES = {"run": "in one run", "conversation": "in this conversation, not in background runs", "always": "permanently"}


class RulesCommand:
    def __init__(self, chat: ChatContext) -> None:
        self._chat = chat

    async def run(self, words: str) -> list[Line]:
        command, _, number = words.partition(" ")
        if not command:
            return await self._list()
        wanted = numbers.read_number(number.strip())
        if command != "rm" or wanted is None:
            raise BadRequest(f"unknown: /rules {sanitize.line(words)}", fix="Use /rules or /rules rm NUMBER.")
        return await self._remove(wanted)

    async def _fetch(self) -> tuple[list[pb.RuleInfo], int]:
        """Return the rules of this conversation's agent and its teammates, and how many others there are."""
        found = (await self._chat.request(pb.ClientMessage(list_rules=pb.ListRulesMsg()))).rule_list.rules
        here = [info for info in found if (info.agent, info.sender) == (self._chat.agent, self._chat.sender)]
        return here, len(found) - len(here)

    async def _list(self) -> list[Line]:
        here, others = await self._fetch()
        rows: list[Line] = [_render_rule(info) for info in here] or [
            lines.render_notice("no rules; an approval can write one: r, c, a or p")
        ]
        if here:
            rows.append(lines.dim("/rules rm NUMBER removes one; such a call then needs your approval again"))
        if others:
            rows.append(lines.dim(hint(f"{numbers.format_plural(others, 'rule')} of other conversations: moot rules")))
        return rows

    async def _remove(self, number: int) -> list[Line]:
        here, _ = await self._fetch()
        if all(info.number != number for info in here):
            raise BadRequest(f"there is no rule {number} of this conversation", fix="/rules lists them.")
        await self._chat.request(pb.ClientMessage(delete_rule=pb.DeleteRuleMsg(number=number)))
        return [lines.render_notice(f"removed rule {number}")]


def _render_rule(info: pb.RuleInfo) -> Line:
    """What a rule covers, how long it applies, and for which teammate, if it is for one."""
    holder = sanitize.line(describe_holder(info.agent, info.teammates, info.sender))
    whose = f" · for {holder}" if info.teammates else ""
    scope = _SCOPES.get(info.scope, sanitize.line(info.scope))
    text = f"allow {sanitize.exact_line(info.pattern)}"
    return [(f"{HANG} bold", f"{info.number:>3} "), ("", text), ("class:dim", f"  {scope}{whose}")]
