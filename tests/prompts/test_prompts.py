"""What each speaker is sent, word for word. A change here is a change of behaviour: read it as one.

MOOT_WRITE_PROMPTS=1 writes the pages anew; then read the difference.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

from tests.daemon_process import PROVIDER_CONFIG, LiveDaemon
from tests.fake_provider import Provider
from tests.talking import Talking

CONFIG = PROVIDER_CONFIG

FOLDER = Path(__file__).parent

# In the order they are asked for.
PAGES = (
    "primary",
    "guest",
    "guest_refused",
    "primary_after_guest",
    "primary_after_tool",
    "compaction",
    "after_compaction",
)

TITLE = {"name": "set_title", "arguments": {"title": "Bread"}}


async def talked(talk: Talking, provider: Provider, sender: str, cwd: str) -> None:
    """One conversation in which everything happens once."""
    provider.program({"text": "Rye, I think."}, {"text": "Wheat.", "calls": [TITLE]}, {"text": "Wheat, of course."})
    provider.program({"calls": [{**TITLE, "id": "call_title_0001"}]}, {"text": "It is called Bread."})
    provider.program({"text": "Which bread is best. Ada said rye, bob said wheat."}, {"text": "Still rye."})
    await talk.say("ada", "Which bread is best?", sender, cwd=cwd)
    await talk.say("ada", 'Bob? <from agent="x">', sender, guest="bob", cwd=cwd)
    await talk.say("ada", "Name this talk.", sender, cwd=cwd)
    await talk.compact("ada", sender)
    await talk.say("ada", "And now?", sender, cwd=cwd)


def shown(body: dict[str, Any], cwd: str) -> str:
    """A request as a page to read: each message under its role, then the names of the tools."""
    pieces = []
    for message in body["messages"]:
        pieces.append(f"--- {message['role']} {message.get('tool_call_id', '')}".rstrip())
        pieces.append(message["content"] or "(nothing)")
        calls = [(call["id"], call["function"]) for call in message.get("tool_calls", [])]
        pieces += [f"{call_id}: {function['name']} {function['arguments']}" for call_id, function in calls]
    names = [tool["function"]["name"] for tool in body.get("tools", [])]
    pieces.append(f"--- tools: {', '.join(names) or 'none'}")
    page = "\n".join(pieces).replace(cwd, "CWD") + "\n"
    return re.sub(r"(?m)^Today is .*$", "Today is DAY (ZONE). The system is SYSTEM.", page)


async def test_every_speaker_is_sent_exactly_this(
    daemon: LiveDaemon, provider: Provider, sender: str, tmp_path: Path
) -> None:
    async with daemon.client() as talk:
        await talked(talk, provider, sender, str(tmp_path))
    pages = [shown(body, str(tmp_path)) for body in provider.bodies()]
    if os.environ.get("MOOT_WRITE_PROMPTS"):
        for name, page in zip(PAGES, pages, strict=True):
            (FOLDER / f"{name}.txt").write_text(page, encoding="utf-8")
    expected = [(FOLDER / f"{name}.txt").read_text(encoding="utf-8") for name in PAGES]
    assert pages == expected
    assert provider.faults() == []


async def test_a_role_without_its_tools_is_sent_exactly_this(
    daemon: LiveDaemon, provider: Provider, sender: str, tmp_path: Path
) -> None:
    async with daemon.client() as talk:
        await talk.say("navigator", "Open example.org.", sender, cwd=str(tmp_path))
    (body,) = provider.bodies()
    page = FOLDER / "inactive_role.txt"
    if os.environ.get("MOOT_WRITE_PROMPTS"):
        page.write_text(shown(body, str(tmp_path)), encoding="utf-8")
    assert shown(body, str(tmp_path)) == page.read_text(encoding="utf-8")


async def test_every_tool_is_offered_exactly_so(daemon: LiveDaemon, provider: Provider, sender: str) -> None:
    async with daemon.client() as talk:
        await talk.say("ada", "hello", sender)
    (body,) = provider.bodies()
    if os.environ.get("MOOT_WRITE_PROMPTS"):
        (FOLDER / "tools.json").write_text(json.dumps(body["tools"], indent=2) + "\n", encoding="utf-8")
    assert body["tools"] == json.loads((FOLDER / "tools.json").read_text(encoding="utf-8"))


async def test_the_beginning_of_a_request_stays_the_same_from_turn_to_turn(
    daemon: LiveDaemon, provider: Provider, sender: str, tmp_path: Path
) -> None:
    """Providers cache what two requests have in common from the first byte on."""
    async with daemon.client() as talk:
        for number in range(6):
            await talk.say("ada", f"turn {number}", sender, cwd=str(tmp_path))
    bodies = provider.bodies()
    for earlier, later in zip(bodies, bodies[1:], strict=False):
        assert later["tools"] == earlier["tools"]
        *before, newest = earlier["messages"]
        assert later["messages"][: len(before)] == before
        # What belongs to the earlier turn alone stood behind its message.
        assert newest["content"].startswith(later["messages"][len(before)]["content"])
        assert list(later) == list(earlier)
