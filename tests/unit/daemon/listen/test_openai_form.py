"""Questions as an assistant would put them to whoever speaks through the OpenAI API."""

from moot.daemon.listen.openai_form import question_text
from moot.domain.ask import Ask, Asker, AskKind, Option, Question
from moot.domain.conversation import ConversationKey

ASK = Ask(
    id="ask-1",
    kind=AskKind.QUESTION,
    key=ConversationKey("moot", "user"),
    run_id="arun-1",
    call_id="c1",
    speaker="operator",
    tool="ask_user",
    questions=(Question(question="Which boat?", options=(Option(label="red"), Option(label="blue"))),),
    opened_at=1.0,
    expires_at=2.0,
)


def test_a_question_names_the_teammate_that_asks_it() -> None:
    by = Asker(agent="operator", run_id="arun-1")

    assert question_text(ASK) == "Which boat?\n- red\n- blue"
    assert question_text(ASK, by) == "operator asks:\nWhich boat?\n- red\n- blue"
