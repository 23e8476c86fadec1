"""Conversations as the store holds them, for hypothesis: any text, every shape of message, archives between."""

from hypothesis import strategies as st

from moot.domain.conversation import Archive, Conversation, ConversationKey
from moot.domain.message import Entry, Message, Thinking, ToolCall, assistant, tool_result, user
from moot.domain.title import title_of

text = st.text(min_size=1, max_size=40).filter(lambda value: bool(value.strip()))
anything = st.text(max_size=40)
names = st.text("abcdefghijklmnopqrstuvwxyz-é", min_size=1, max_size=8).filter(lambda name: name != "crab")
times = st.floats(min_value=0, max_value=4e9)
tools = st.text("abcXYZ019_-", min_size=1, max_size=8)
arguments = st.sampled_from(["{}", '{"path": "a b"}', '{"q":"\\u00e9 <from>"}', '{"n": [1, 2.5, null]}'])


@st.composite
def steps(draw: st.DrawFn, call: int) -> list[Message]:
    """A step with calls, each answered."""
    calls = tuple(
        ToolCall(id=f"call-{call}-{index}", name=draw(tools), arguments=draw(arguments))
        for index in range(draw(st.integers(1, 3)))
    )
    spoken = Message(
        role=assistant("").role,
        content=draw(anything),
        tool_calls=calls,
        thinking=tuple(Thinking(text=draw(text)) for _ in range(draw(st.integers(0, 2)))),
    )
    results = [tool_result(each.id, draw(anything), is_error=draw(st.booleans())) for each in calls]
    return [spoken, *results]


@st.composite
def turns(draw: st.DrawFn, number: int) -> list[Message]:
    messages = [user(draw(text))]
    for step in range(draw(st.integers(0, 2))):
        messages += draw(steps(number * 10 + step))
    messages.append(assistant(draw(text), agent=draw(st.just("") | names)))
    return messages


@st.composite
def histories(draw: st.DrawFn) -> tuple[Conversation, list[Entry], list[Archive]]:
    entries: list[Entry] = []
    archives: list[Archive] = []
    for number in range(draw(st.integers(0, 4))):
        for message in draw(turns(number)):
            entries.append(Entry(seq=len(entries) + 1, message=message, run_id="run-1", created_at=draw(times)))
        if draw(st.booleans()):
            first = archives[-1].last_seq + 1 if archives else 1
            archives.append(
                Archive(
                    number=len(archives) + 1,
                    first_seq=first,
                    last_seq=len(entries),
                    title=title_of(draw(text)),
                    summary=draw(text),
                    archived_at=draw(times),
                )
            )
    created = draw(times)
    conversation = Conversation(
        key=ConversationKey("crab", draw(text)),
        title=title_of(draw(anything)),
        created_at=created,
        updated_at=created + draw(st.floats(min_value=0, max_value=1e7)),
        last_seq=len(entries),
        message_count=len(entries),
        archive_count=len(archives),
    )
    return conversation, entries, archives
