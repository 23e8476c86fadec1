"""Which level of the auto-approve dial applies to a call."""

import pytest

from moot.domain.auto_approve import AutoApproveLevel, resolve_level
from moot.domain.mode import ConversationMode, Mode

LEVELS = (None, *AutoApproveLevel)
NONE = AutoApproveLevel.NONE


def make_mode(own: Mode | None) -> ConversationMode:
    return ConversationMode(mode=own or Mode.ASK, own=own, is_chosen=True)


@pytest.mark.parametrize("of_speaker", LEVELS)
@pytest.mark.parametrize("of_agent", LEVELS)
@pytest.mark.parametrize("own_mode", [None, Mode.ASK])
@pytest.mark.parametrize("own", ["", *AutoApproveLevel, "everything"])
def test_a_level_is_never_wider_than_what_a_person_set_or_a_teammate_states(
    own: str, own_mode: Mode | None, of_agent: AutoApproveLevel | None, of_speaker: AutoApproveLevel | None
) -> None:
    level = resolve_level(own, make_mode(own_mode), of_agent=of_agent, of_speaker=of_speaker)
    of_conversation = {"": NONE if own_mode or of_agent is None else of_agent, "everything": NONE}.get(own)
    widest = AutoApproveLevel(own) if of_conversation is None else of_conversation
    limits = [widest] if of_speaker is None else [widest, of_speaker]
    assert level.rank == min(each.rank for each in limits)
