"""One .proto file: the code, the reference and the numbers shared with older clients all follow it."""

from google.protobuf import descriptor_pb2

from moot.wire import moot_pb2 as pb
from scripts.protodoc import TARGET, compiled, page


def test_the_generated_code_is_that_of_the_proto_file() -> None:
    generated = descriptor_pb2.FileDescriptorProto()
    pb.DESCRIPTOR.CopyToProto(generated)
    written = compiled()
    written.ClearField("source_code_info")
    nested = [inner for message in written.message_type for inner in message.nested_type]
    for message in (*written.message_type, *nested):
        for field in message.field:
            # The compiler notes the name JSON would use; generated code leaves it out.
            field.ClearField("json_name")

    assert generated == written, "run: python scripts/protodoc.py"


def test_the_reference_is_current() -> None:
    assert TARGET.read_text(encoding="utf-8") == page(), "run: python scripts/protodoc.py"


def test_every_message_says_what_it_is_for() -> None:
    file = compiled()
    said = {tuple(place.path) for place in file.source_code_info.location if place.leading_comments}
    silent = [
        message.name
        for index, message in enumerate(file.message_type)
        if (4, index) not in said and message.name not in ("ClientMessage", "ServerMessage")
    ]

    assert silent == []


def test_the_numbers_older_clients_know_are_kept() -> None:
    def numbers(message: type[pb.ClientMessage] | type[pb.ServerMessage] | type[pb.StreamEvent]) -> dict[str, int]:
        return {field.name: field.number for field in message.DESCRIPTOR.fields if field.number < 200}

    assert numbers(pb.ClientMessage) == {
        "send": 1, "stream": 2, "reply_to_ask": 3, "list_active_conversations": 4, "kill": 5, "compact": 6,
        "list_conversations": 7, "list_agents": 15, "get_agent": 16, "ping": 30, "reload": 32, "get_stats": 33,
        "subscribe_events": 34,
    }  # fmt: skip
    assert numbers(pb.ServerMessage) == {
        "error": 1, "pong": 2, "response": 3, "stream": 4, "active_conversations": 5, "compact": 6,
        "conversation_list": 7, "agent_info": 11, "agent_list": 12, "stats": 20, "agent_event": 21,
    }  # fmt: skip
    assert numbers(pb.StreamEvent) == {
        "start": 1, "chunk": 2, "thinking": 3, "tool_start": 4, "tool_result": 5, "tools_complete": 6, "end": 7,
        "ask_user": 8, "text_start": 10, "text_end": 11, "thinking_start": 12, "thinking_end": 13,
    }  # fmt: skip


def test_a_stream_request_has_the_bytes_an_older_client_sends() -> None:
    old = b"\x12\x1c" + b"\x0a\x04twin" + b"\x12\x08question" + b"\x22\x04user" + b"\x32\x04crab"

    message = pb.ClientMessage.FromString(old)

    assert message.stream == pb.StreamMsg(agent="twin", content="question", sender="user", guest="crab")
    assert message.SerializeToString() == old
