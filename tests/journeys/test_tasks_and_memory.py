"""What agents keep for a person is listed, changed and deleted by that person alone."""

import json

import pytest

from moot.client.connection import connect
from moot.domain.errors import NotFound
from moot.wire import moot_pb2 as pb
from tests.daemon_process import CONFIG as BASE
from tests.daemon_process import Home, LiveDaemon
from tests.daemon_thread import daemon_thread
from tests.talking import Talking
from tests.terminal import terminal

CONFIG = BASE + '[security.interceptor]\napproval_policy = "none"\n'
SCRIPT = """
[[rule]]
match = "remember"
calls = [{ name = "memory_agent_save", arguments = { key = "tea", content = "Likes green tea.", tags = ["drink"] } },
         { name = "memory_agent_save", arguments = { key = "town", content = "Lives in\\nGhent." } },
         { name = "task_create", arguments = { title = "Buy tea", description = "Green." } }]
after_tool = "Noted."

[[rule]]
reply = "Heard: {user}"
"""
CONTROL_D = "\x04"


def test_tasks_are_listed_added_and_closed(daemon: LiveDaemon, sender: str) -> None:
    daemon.cli("ask", "ada", "remember", "--as", sender)
    (task,) = daemon.cli_json("tasks", "--as", sender)["data"]
    assert (task["title"], task["status"], task["agent"], task["sender"]) == ("Buy tea", "todo", "ada", sender)
    added = daemon.cli_json("tasks", "add", "bob", "Pour  it", "--as", sender)["data"]
    assert (added["title"], added["agent"]) == ("Pour it", "bob")
    assert [each["title"] for each in daemon.cli_json("tasks", "--agent", "bob", "--as", sender)["data"]] == ["Pour it"]
    # The beginning of an id is enough, where it is unambiguous.
    closed = daemon.cli_json("tasks", "close", added["id"][:-3])["data"]
    assert closed["status"] == "done"
    assert [each["title"] for each in daemon.cli_json("tasks", "--as", sender)["data"]] == ["Buy tea"]
    assert len(daemon.cli_json("tasks", "--all", "--as", sender)["data"]) == 2
    assert daemon.cli_json("tasks", "close", "task-")["error"]["type"] in ("bad_request", "not_found")
    assert daemon.cli("tasks", "set", task["id"], "blocked").stdout == f"{task['id']} is blocked: Buy tea\n"
    shown = daemon.cli("tasks", "show", task["id"]).stdout
    assert f"ada as {sender}" in shown
    assert shown.rstrip().endswith("Green.")
    assert daemon.cli("tasks", "show", "task-zzz").returncode == 6


def test_memories_are_listed_searched_exported_and_forgotten(daemon: LiveDaemon, sender: str) -> None:
    daemon.cli("ask", "ada", "remember", "--as", sender)
    mine = ("--agent", "ada", "--as", sender)
    assert [each["key"] for each in daemon.cli_json("memory", *mine)["data"]] == ["tea", "town"]
    assert [each["key"] for each in daemon.cli_json("memory", "search", "GREEN drink", *mine)["data"]] == ["tea"]
    assert daemon.cli_json("memory", "search", "green ghent", *mine)["data"] == []
    exported = [json.loads(line) for line in daemon.cli("memory", "export", *mine).stdout.splitlines()]
    assert [(each["key"], each["content"]) for each in exported] == [
        ("tea", "Likes green tea."),
        ("town", "Lives in\nGhent."),
    ]
    # A memory cannot look like other lines of the output.
    assert "> Lives in\n> Ghent." in daemon.cli("memory", "show", "town", *mine).stdout
    assert "Did you mean 'tea'?" in daemon.cli("memory", "show", "teaa", *mine).stderr
    assert daemon.cli("memory", "forget", "tea", "--yes", *mine).stdout == f"Forgotten by ada as {sender}.\n"
    assert [each["key"] for each in daemon.cli_json("memory", *mine)["data"]] == ["town"]
    with terminal(daemon.home, "memory", "forget", "town", *mine) as person:
        person.wait_for("Forget this?")
        person.enter("n")
        person.wait_for_exit()
    assert [each["key"] for each in daemon.cli_json("memory", *mine)["data"]] == ["town"]


@pytest.mark.parametrize("columns", [60, 120])
def test_the_chat_shows_tasks_and_memories(daemon: LiveDaemon, sender: str, columns: int) -> None:
    with terminal(daemon.home, "chat", "ada", "--as", sender, columns=columns) as person:
        person.wait_on_screen("scripted")
        person.enter("/tasks")
        person.wait_for("no open tasks")
        person.enter("remember")
        person.wait_for("ada › Noted.")
        person.enter("/tasks")
        person.wait_for("Buy tea")
        person.enter("/memory tea")
        person.wait_for("tea Likes green tea.")
        person.enter("/undo")
        person.wait_for("✗")
        person.type(CONTROL_D)
        assert person.wait_for_exit() == 0


async def test_others_see_and_change_nothing(home: Home) -> None:
    home.write_config(CONFIG.replace('tcp = "off"', 'tcp = "127.0.0.1:0"'))
    with daemon_thread(home) as daemon:
        async with daemon.client() as owner:
            await owner.say("ada", "remember")
            (task,) = (await owner.ask(list_tasks=pb.ListTasksMsg())).task_list.tasks
            address = (await owner.ask(get_stats=pb.GetStats())).stats.tcp
            secret = (await owner.ask(new_token=pb.NewTokenMsg(name="phone"))).token_created.token
        async with connect(address, token=secret) as connection:
            phone = Talking(connection)
            assert list((await phone.ask(list_tasks=pb.ListTasksMsg())).task_list.tasks) == []
            assert list((await phone.ask(list_memories=pb.ListMemoriesMsg())).memory_list.memories) == []
            with pytest.raises(NotFound):
                await phone.ask(change_task=pb.ChangeTaskMsg(task_id=task.task_id, status="done"))
            with pytest.raises(NotFound):
                await phone.ask(forget_memory=pb.ForgetMemoryMsg(agent="ada", key="tea"))
            await phone.say("ada", "remember")
            own = (await phone.ask(list_memories=pb.ListMemoriesMsg())).memory_list.memories
            assert {each.sender for each in own} == {"phone"}
        assert len(daemon.cli_json("memory")["data"]) == 4
