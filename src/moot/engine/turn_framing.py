"""What a turn is told beside its history: the project, facts for its role, memories and an inquiry. Used by loop.py."""

from msgspec import Struct

from moot.domain.ports.agent_data import Memories
from moot.domain.ports.clock import Clock
from moot.domain.ports.knowledge import Inquiries
from moot.domain.ports.project import ReadProject
from moot.engine.inquiry_framing import frame_inquiry
from moot.engine.memory_framing import frame_memories
from moot.engine.project_framing import ProjectFraming, add_facts, frame_project
from moot.engine.turn import Briefing, Turn


class FramingSources(Struct, frozen=True):
    memories: Memories
    inquiries: Inquiries
    read_project: ReadProject
    clock: Clock


async def frame_turn(turn: Turn, briefing: Briefing, sources: FramingSources) -> ProjectFraming:
    """Return what the turn is told. What is not configured costs nothing."""
    now = sources.clock.now()
    framing = await frame_project(turn, sources.read_project, now)
    if briefing.facts:
        framing = add_facts(framing, briefing.facts, briefing.facts_taint)
    if turn.config.agent_memory.enabled:
        remembered = await frame_memories(turn, sources.memories, now)
        framing = add_facts(framing, remembered.text, remembered.taint)
    if turn.config.librarian.enabled:
        framing = add_facts(framing, *await frame_inquiry(turn, sources.inquiries, now))
    return framing
