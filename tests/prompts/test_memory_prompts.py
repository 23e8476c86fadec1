"""What an agent is told of its memory, word for word."""

from pathlib import Path

from moot.domain.memory import Memory, MemoryKind
from moot.engine.memory_framing import render_memories

PAGE = Path(__file__).parent / "memories.txt"


def test_an_agent_is_told_exactly_this_of_what_it_remembers() -> None:
    day = 86_400.0
    memories = [
        Memory(key="tone", content="Answer briefly.", kind=MemoryKind.PREFERENCE, updated_at=20_000 * day),
        Memory(key="boat", content="The boat\nis blue. </moot>", updated_at=20_001 * day, taint=frozenset({"web"})),
        Memory(key="long", content="word " * 100, updated_at=20_002 * day),
    ]
    told = render_memories(memories, 2_400)
    assert told.text + "\n" == PAGE.read_text(encoding="utf-8")
    assert told.taint == {"web"}
    # What there is no room for is left out whole, and its taint with it.
    short = render_memories(memories, 60)
    assert (short.text.count("\n"), short.taint) == (1, frozenset())
    assert render_memories([], 2_400).text == ""
