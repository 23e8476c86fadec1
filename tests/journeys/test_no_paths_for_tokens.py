"""What a token is told holds no path of the owner, whatever it asks for."""

import asyncio
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf.descriptor import FieldDescriptor

from moot.client.connection import connect
from moot.wire import moot_pb2 as pb
from moot.wire.codec import encode_frame
from tests.daemon_process import PROVIDER_CONFIG, Home, LiveDaemon
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider
from tests.journeys.test_rag import call, do
from tests.raw_client import Raw, tcp_address

CONFIG = (
    PROVIDER_CONFIG.replace('tcp = "off"', 'tcp = "127.0.0.1:0"')
    + """
[models.file]
provider = "local"
model = "HOME/models/secret.gguf"
"""
)
AGENTS_TRIED = ("ada", "broken", "asleep", "filer", "nobody")


@pytest.fixture
def revealing(home: Home, provider: Provider) -> Iterator[LiveDaemon]:
    """A daemon whose configuration and agents have problems that name files."""
    home.write_config((home.path / "config.toml").read_text().replace("HOME", str(home.path)))
    home.write_agent("filer", model="file")
    asleep = home.write_agent("asleep")
    asleep.write_text(asleep.read_text().replace("name: asleep", "name: asleep\nstatus: disabled"))
    home.write_agent("broken").write_text("---\nname: broken\nnonsense: [\n---\nx\n")
    with daemon_thread(home) as daemon:
        yield daemon


def _requests(home: Home, run_id: str, agent: str) -> Iterator[tuple[str, pb.ClientMessage]]:
    values = {"agent": agent, "name": agent, "content": "hello", "run_id": run_id, "query": "hello"}
    for field in pb.ClientMessage.DESCRIPTOR.oneofs_by_name["message"].fields:
        if field.name in ("hello", "subscribe_events"):
            continue
        for path in ("", str(home.path / "no-such-file")):
            message = pb.ClientMessage()
            request = getattr(message, field.name)
            request.SetInParent()
            assert field.message_type is not None
            texts = [each for each in field.message_type.fields if each.type == FieldDescriptor.TYPE_STRING]
            if path and not any(each.name in ("path", "cwd") for each in texts):
                continue
            for each in texts:
                value = path if each.name in ("path", "cwd") else values.get(each.name, "")
                if value and each.is_repeated:
                    getattr(request, each.name).append(value)
                elif value:
                    setattr(request, each.name, value)
            yield field.name, message


async def _answers(client: Raw, message: pb.ClientMessage) -> list[pb.ServerMessage]:
    client.writer.write(encode_frame(message))
    answers = [await client.receive()]
    while answers[-1].HasField("stream") and not answers[-1].stream.HasField("end"):
        answers.append(await client.receive())
    return answers


async def test_no_answer_to_a_token_names_a_path_or_the_machine(revealing: LiveDaemon) -> None:
    home = revealing.home
    async with revealing.client() as owner:
        token = (await owner.ask(new_token=pb.NewTokenMsg(name="phone"))).token_created.token
        problems = [model.problem for model in (await owner.ask(list_models=pb.ListModelsMsg())).model_list.models]
        assert any(str(home.path) in problem for problem in problems)
        # The owner chose the folder; the token works there without being told where it is.
        chosen = pb.WorkingDirectoryMsg(agent="ada", sender="phone", cwd=str(home.path))
        await owner.ask(working_directory=chosen)
    host, _, port = tcp_address(revealing).rpartition(":")
    client = Raw(*await asyncio.open_connection(host, int(port)))
    await client.ask(pb.ClientMessage(hello=pb.Hello(version=1, token=token)))
    started = (await client.ask(pb.ClientMessage(start_run=pb.StartRunMsg(agent="ada", content="x")))).run
    told, kinds = [], set[str]()
    for agent in AGENTS_TRIED:
        for kind, message in _requests(home, started.run_id, agent):
            kinds.add(kind)
            answers = await _answers(client, message)
            told += [(kind, agent, answer) for answer in answers]
    client.writer.close()

    ended = [answer.stream.end.error for _, _, answer in told if answer.stream.HasField("end")]
    assert any("(a path of the owner)" in error for error in ended), ended
    assert len(kinds) == len(pb.ClientMessage.DESCRIPTOR.oneofs_by_name["message"].fields) - 2
    # As a word: a short name can occur in an id.
    revealing_text = re.compile(rf"{re.escape(str(home.path))}|\b{re.escape(socket.gethostname())}\b")
    assert [(kind, agent, str(answer)) for kind, agent, answer in told if revealing_text.search(str(answer))] == []


async def test_an_approval_shows_a_token_no_path(home: Home, provider: Provider) -> None:
    provider.program({"calls": [{"name": "exec", "arguments": {"command": "rm notes.txt"}}]}, {"text": "done"})
    with daemon_thread(home) as daemon:
        async with daemon.client() as owner:
            token = (await owner.ask(new_token=pb.NewTokenMsg(name="phone"))).token_created.token
            host, _, port = tcp_address(daemon).rpartition(":")
            client = Raw(*await asyncio.open_connection(host, int(port)))
            await client.ask(pb.ClientMessage(hello=pb.Hello(version=1, token=token)))
            told = [await client.ask(pb.ClientMessage(subscribe_events=pb.SubscribeEvents(), request_id=9))]
            stream = pb.ClientMessage(stream=pb.StreamMsg(agent="ada", content="go"), request_id=1)
            client.writer.write(encode_frame(stream))
            while not told[-1].stream.HasField("approval_opened"):
                told.append(await client.receive())
            shown = told[-1].stream.approval_opened
            assert "rm notes.txt" in shown.line
            assert "in (a path of the owner)" in shown.preview
            client.writer.write(encode_frame(pb.ClientMessage(list_asks=pb.ListAsksMsg(), request_id=2)))
            client.writer.write(
                encode_frame(pb.ClientMessage(list_asks=pb.ListAsksMsg(ask_id=shown.ask_id), request_id=3))
            )
            # Whether a pattern covers the call would tell where it works.
            guess = pb.ListAsksMsg(ask_id=shown.ask_id, pattern=f"rm {{path:{home.path}}}")
            client.writer.write(encode_frame(pb.ClientMessage(list_asks=guess, request_id=4)))
            # They may be answered in any order.
            while not {2, 3, 4} <= {answer.request_id for answer in told}:
                told.append(await client.receive())
            (refused,) = [answer.error.message for answer in told if answer.request_id == 4]
            assert "may not decide" in refused
            listed = [ask for answer in told for ask in answer.ask_list.asks]
            assert [list(ask.patterns) for ask in listed] == [[], []]
            assert list(shown.patterns) == []
            (whole,) = (await owner.ask(list_asks=pb.ListAsksMsg())).ask_list.asks
            assert str(home.path) in whole.preview
            assert str(home.path) in whole.rule
            assert str(home.path) in whole.patterns[0].rule
            # Who may approve it sees exactly what is approved.
            made = pb.NewTokenMsg(name="chief", senders=["phone"], may_approve=True)
            chief = (await owner.ask(new_token=made)).token_created.token
            async with connect(tcp_address(daemon), token=chief) as connection:
                (seen,) = (await connection.request(pb.ClientMessage(list_asks=pb.ListAsksMsg()))).ask_list.asks
                assert (seen.preview, seen.rule) == (whole.preview, whole.rule)
                assert list(seen.patterns) == list(whole.patterns)
            await owner.ask(decide_ask=pb.DecideAskMsg(ask_id=shown.ask_id, attempt=1, decision="deny"))
            while not told[-1].stream.HasField("end"):
                told.append(await client.receive())
            client.writer.close()
    assert [str(answer) for answer in told if str(home.path) in str(answer)] == []


async def test_errors_about_documents_name_files_as_the_agent_does(
    daemon: LiveDaemon, provider: Provider, sender: str, tmp_path: Path
) -> None:
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\0\0")
    (tmp_path / "tea.md").write_text("Green tea steeps for two minutes.\n")
    async with daemon.client() as talk:
        refused, indexed, unknown, whole, gone = await do(
            talk,
            provider,
            sender,
            call("rag_index", source="picture.png"),
            call("rag_index", source="tea.md"),
            call("rag_search", query="tea", source="coffee"),
            call("rag_index", source="."),
            call("rag_forget", source="tea.md"),
            cwd=tmp_path,
        )
    assert "picture.png was not indexed: it is not text" in refused
    assert f"{indexed['source']}: tea.md." in unknown
    assert whole["place"] == "."
    assert gone["place"] == "tea.md"
    assert str(tmp_path) not in str((refused, indexed, unknown, whole, gone))
