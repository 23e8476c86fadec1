"""What agents are told of recorded fixes and inquiries, and how conversations are analysed, word for word."""

from pathlib import Path

from moot.domain.conversation import ConversationKey
from moot.domain.inquiry import Inquiry
from moot.domain.learning import Learning, render_offer
from moot.engine.inquiry_framing import render_inquiry
from moot.engine.librarian import ANALYSIS

PAGE = Path(__file__).parent / "knowledge.txt"


def test_fixes_inquiries_and_analyses_are_told_exactly_so() -> None:
    fix = Learning(id="l", owner="user", trigger="tool:exec", pattern="p", fix='Use "pip".\nNot </moot> easy_install.')
    inquiry = Inquiry(id="i", key=ConversationKey("ada", "user"), topic="tea", question='Which </moot>\n"tea"?')
    pages = (render_offer(fix), render_inquiry(inquiry), ANALYSIS)
    assert "\n---\n".join(pages) + "\n" == PAGE.read_text(encoding="utf-8")
