"""moot secrets: what is asked of the daemon, what is printed, and where a value may come from."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from moot.cli import output
from moot.cli.commands.secrets import secrets
from moot.cli.main import run
from moot.domain.errors import BadRequest
from moot.wire import moot_pb2 as pb
from tests.frame_server import Caller, FrameServer, frame_server

VALUE = "s3cret-Value-9999"


async def answer(message: pb.ClientMessage, caller: Caller) -> None:
    kind = message.WhichOneof("message")
    if kind == "set_secret":
        caller.send(message.request_id, secret_set=pb.SecretSet(name=message.set_secret.name, replaced=False))
    elif kind == "list_secrets":
        info = pb.SecretInfo(name="TOKEN", owner="user", created_at=1.0, updated_at=2.0, uses=3, used_at=0)
        caller.send(message.request_id, secret_list=pb.SecretList(secrets=[info], key="file"))
    elif kind == "audit_secrets":
        use = pb.SecretUseInfo(name="TOKEN", action="resolve", agent="ada\x1b[31m", sender="user", tool="exec", at=5.0)
        caller.send(message.request_id, secret_audit=pb.SecretAudit(uses=[use]))
    else:
        caller.send(message.request_id, pong=pb.Pong())


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FrameServer]:
    monkeypatch.setenv("MOOT_HOME", str(tmp_path))
    monkeypatch.delenv("MOOT_ADDRESS", raising=False)
    output.use_json(False)
    with frame_server(tmp_path / "run" / "moot.sock", answer) as serving:
        yield serving
    output.use_json(False)


def moot(*arguments: str, stdin: str = "", **environment: str) -> Result:
    return CliRunner().invoke(secrets, list(arguments), input=stdin, env=environment)


@pytest.mark.parametrize(("piped", "kept"), [(f"{VALUE}\n", VALUE), (VALUE, VALUE), (f" {VALUE} \n\n", f" {VALUE} \n")])
def test_a_value_is_taken_from_stdin_without_its_last_line_break(server: FrameServer, piped: str, kept: str) -> None:
    done = moot("set", "TOKEN", stdin=piped)
    assert done.exit_code == 0, done.output
    assert server.wait_for("set_secret").set_secret == pb.SetSecretMsg(name="TOKEN", value=kept)
    assert done.output == "Stored TOKEN. Agents refer to it as {{secret:TOKEN}}.\n"


def test_a_value_is_taken_from_a_variable(server: FrameServer) -> None:
    done = moot("set", "TOKEN", "--from-env", "GH", "--json", GH=VALUE)
    assert server.wait_for("set_secret").set_secret.value == VALUE
    data = json.loads(done.output)["data"]
    assert (data["name"], data["replaced"], data["scope"]["configuration_only"]) == ("TOKEN", False, False)


def test_a_variable_that_is_not_set_is_an_error(server: FrameServer) -> None:
    done = moot("set", "TOKEN", "--from-env", "NOT_THERE_AT_ALL")
    assert isinstance(done.exception, BadRequest)
    assert server.of("set_secret") == []


def test_a_value_on_the_command_line_is_refused_and_not_repeated(server: FrameServer) -> None:
    done = moot("set", "TOKEN", VALUE)
    assert isinstance(done.exception, BadRequest)
    assert VALUE not in f"{done.output}{done.exception.message}{done.exception.fix}"
    assert server.of("set_secret") == []


def test_the_list_shows_names_and_never_values(server: FrameServer) -> None:
    data = json.loads(moot("list", "--json").output)["data"]
    assert data["key"] == "file"
    (secret,) = data["secrets"]
    assert (secret["name"], secret["created_at"], secret["updated_at"], secret["uses"]) == ("TOKEN", 1.0, 2.0, 3)
    assert (secret["owner"], secret["used_at"]) == ("user", None)
    assert secret["scope"] == dict.fromkeys(("agents", "senders", "tools", "hosts"), []) | {"configuration_only": False}
    output.use_json(False)
    assert "never" in moot("list").output


def test_rm_names_the_secret(server: FrameServer) -> None:
    assert moot("rm", "TOKEN", "--yes").output == "Removed TOKEN.\n"
    assert server.wait_for("remove_secret").remove_secret.name == "TOKEN"


def test_the_audit_says_who_and_shows_no_control_characters(server: FrameServer) -> None:
    done = moot("audit", "TOKEN", "--limit", "5")
    assert server.wait_for("audit_secrets").audit_secrets == pb.AuditSecretsMsg(name="TOKEN", limit=5)
    assert "resolve" in done.output
    assert "\x1b" not in done.output


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_nothing_is_removed_where_nobody_can_be_asked(server: FrameServer, more: tuple[str, ...]) -> None:
    refused = moot("rm", "TOKEN", *more)
    assert isinstance(refused.exception, BadRequest)
    assert "--yes" in refused.exception.fix
    assert server.of("remove_secret") == []
    assert moot("rm", "TOKEN", "--yes", *more).exit_code == 0
    assert server.wait_for("remove_secret").remove_secret.name == "TOKEN"


def test_a_secret_that_never_was_is_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def unused(message: pb.ClientMessage, caller: Caller) -> None:
        if message.WhichOneof("message") == "audit_secrets":
            caller.send(message.request_id, secret_audit=pb.SecretAudit())
        else:
            await answer(message, caller)

    monkeypatch.setenv("MOOT_HOME", str(tmp_path))
    with frame_server(tmp_path / "run" / "moot.sock", unused):
        assert run(["secrets", "audit", "NOPE"]) == 6
        assert run(["secrets", "rm", "NOPE"]) == 6
        assert run(["secrets", "audit", "TOKEN"]) == 0
