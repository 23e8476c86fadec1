from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moot.daemon.config.broken_config import BrokenConfig
from moot.daemon.config.config_file import ConfigFile, load_config
from moot.domain.config import CompactionConfig, Config, ListenConfig, ModelConfig, default_config
from moot.domain.errors import ConfigError
from moot.domain.run import Limits


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def errors_of(path: Path, text: str) -> list[tuple[int, str]]:
    path.write_text(text)
    with pytest.raises(BrokenConfig) as caught:
        load_config(path)
    assert all(flaw.path == str(path) for flaw in caught.value.flaws)
    return [(flaw.line, flaw.reason) for flaw in caught.value.flaws]


def test_no_file_is_the_default_configuration(path: Path) -> None:
    assert load_config(path) == (default_config(), [])


def test_every_key_is_read(path: Path, tmp_path: Path) -> None:
    (tmp_path / "replies.toml").write_text("")
    path.write_text("""
default_model = "fast"
ask_seconds = 60
tool_seconds = 30.5
max_content_bytes = 1000
queue_bound = 4

[models.fast]
provider = "openai"
base_url = "https://models.example/v1"
model = "big-1"
api_key = "env:BIG_KEY"
window = 128000
max_output_tokens = 4096
tools = "native"
idle_seconds = 30
retries = 0
thinking_tokens = 1024
price_prompt = 1
price_completion = 2.5

[models.play]
provider = "scripted"
script = "replies.toml"

[models.small]
provider = "local"
model = "smollm2"
threads = 2

[limits]
steps = 0
seconds = 60
tokens = 5000
spend = 0.5

[compaction]
auto = false
threshold = 0.5

[listen]
http = "127.0.0.1:7601"
tcp = "off"
""")

    config, flaws = load_config(path)

    assert flaws == []
    assert config == Config(
        default_model="fast",
        models={
            **default_config().models,
            "fast": ModelConfig(
                name="fast",
                provider="openai",
                base_url="https://models.example/v1",
                model="big-1",
                api_key="env:BIG_KEY",
                window=128000,
                max_output_tokens=4096,
                tools="native",
                idle_seconds=30.0,
                retries=0,
                thinking_tokens=1024,
                price_prompt=1.0,
                price_completion=2.5,
            ),
            "play": ModelConfig(name="play", provider="scripted", script=str(tmp_path / "replies.toml")),
            "small": ModelConfig(name="small", provider="local", model="smollm2", threads=2),
        },
        limits=Limits(steps=None, seconds=60.0, tokens=5000, spend=0.5),
        compaction=CompactionConfig(auto=False, threshold=0.5),
        listen=ListenConfig(http="127.0.0.1:7601", tcp="off"),
        ask_seconds=60.0,
        tool_seconds=30.5,
        max_content_bytes=1000,
        queue_bound=4,
    )


def test_a_table_for_a_default_model_changes_only_what_it_names(path: Path) -> None:
    path.write_text("[models.smollm2]\nthreads = 1\n")

    config, flaws = load_config(path)

    assert flaws == []
    assert config.models["smollm2"] == ModelConfig(name="smollm2", provider="local", model="smollm2", threads=1)


def test_a_default_name_can_be_taken_for_another_provider(path: Path) -> None:
    path.write_text('[models.qwen]\nprovider = "openai"\nmodel = "q"\nbase_url = "http://localhost:11434/v1"\n')

    config, _ = load_config(path)

    assert config.models["qwen"].provider == "openai"


def test_unknown_keys_are_named_with_their_line_and_passed_over(path: Path) -> None:
    path.write_text('colour = "red"\n[models.m]\nprovider = "scripted"\nretrys = 1\n[unknown]\nx = 1\n')

    config, flaws = load_config(path)

    assert config.models["m"].retries == 3
    assert [flaw.line for flaw in flaws] == [1, 5, 4]
    assert "`retries`" in flaws[2].reason


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ("a = 1\nb = \n", 2, "TOML"),
        ('a = 1\nb = "never closed\n', 2, "TOML"),
        ("a = [1,\n2,\n", 2, "TOML"),
        ("a = 1\na = 2\n", 2, "TOML"),
        ('[models.m]\n\nprovider = "opnai"\n', 3, "openai, anthropic, local, scripted"),
        ('[models.m]\nmodel = "x"\n', 1, "`provider`"),
        ('[models.m]\nprovider = "openai"\n', 1, "`model`"),
        ('[models.m]\nprovider = "local"\nmodel = "gpt"\n', 3, "smollm2"),
        ('default_model = "ghost"\n', 1, "[models.ghost]"),
        ("default_model = 3\n", 1, "text in quotes"),
        ('[models.m]\nprovider = "openai"\nmodel = "x"\nbase_url = "host:80"\n', 4, "http://"),
        ('[models.m]\nprovider = "openai"\nmodel = "x"\nbase_url = "http://u:p@h/"\n', 4, "password"),
        ('[models.m]\nprovider = "openai"\nmodel = "x"\nbase_url = "http://h:99999/"\n', 4, "address"),
        ('[models.m]\nprovider = "scripted"\nwindow = "big"\n', 3, "whole number"),
        ('[models.m]\nprovider = "scripted"\nwindow = true\n', 3, "whole number"),
        ('[models.m]\nprovider = "scripted"\nidle_seconds = nan\n', 3, "more than 0"),
        ('[models.m]\nprovider = "scripted"\ntools = "some"\n', 3, "native"),
        ('[models."a b"]\nprovider = "scripted"\n', 1, "not allowed"),
        ("models = 3\n", 1, "table"),
        ("[models]\nm = 3\n", 2, "table"),
        ("[limits]\nsteps = -1\n", 2, "0 or more"),
        ("[limits]\nspend = inf\n", 2, "0 or more"),
        ("[compaction]\nthreshold = 2\n", 2, "between"),
        ("queue_bound = 0\n", 1, "between"),
        ('[listen]\nhttp = "0.0.0.0:80"\n', 2, "loopback"),
        ('[listen]\ntcp = "7600"\n', 2, "host:port"),
        ('[listen]\ntcp = "127.0.0.1:70000"\n', 2, "host:port"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(path: Path, text: str, line: int, word: str) -> None:
    found = errors_of(path, text)

    assert found[0][0] == line
    assert word in found[0][1]


def test_a_key_in_clear_text_is_refused_and_never_repeated(path: Path) -> None:
    found = errors_of(path, '[models.m]\nprovider = "openai"\nmodel = "x"\napi_key = "sk-very-secret"\n')

    assert found[0][0] == 4
    assert "env:VARIABLE" in found[0][1]
    assert "sk-very-secret" not in repr(found)


def test_all_errors_are_said_at_once_in_the_order_of_their_lines(path: Path) -> None:
    found = errors_of(path, 'default_model = "ghost"\nqueue_bound = 0\n[models.m]\nprovider = 3\n')

    assert [line for line, _ in found] == [1, 2, 4]


def test_bytes_that_are_no_text_are_said_with_their_line(path: Path) -> None:
    path.write_bytes(b"a = 1\nb = '\xff'\n")

    with pytest.raises(ConfigError) as caught:
        load_config(path)

    assert f"{path}:2:" in caught.value.message
    assert caught.value.fix


def test_windows_line_ends_and_a_byte_order_mark_do_no_harm(path: Path) -> None:
    path.write_bytes(b"\xef\xbb\xbfask_seconds = 5\r\nqueue_bound = 7\r\n")

    config, flaws = load_config(path)

    assert (config.ask_seconds, config.queue_bound, flaws) == (5.0, 7, [])


def test_a_folder_in_the_place_of_the_file_is_said(path: Path) -> None:
    path.mkdir()

    with pytest.raises(ConfigError):
        load_config(path)


def test_a_script_that_is_not_there_is_a_warning(path: Path) -> None:
    path.write_text('[models.m]\nprovider = "scripted"\nscript = "gone.toml"\n')

    _, flaws = load_config(path)

    assert [flaw.line for flaw in flaws] == [3]


def test_a_key_on_an_open_wire_is_a_warning(path: Path) -> None:
    path.write_text(
        '[models.m]\nprovider = "openai"\nmodel = "x"\nbase_url = "http://far.example/v1"\napi_key = "env:K"\n'
    )

    _, flaws = load_config(path)

    assert [flaw.line for flaw in flaws] == [4]


def test_a_reload_that_fails_keeps_the_last_good_configuration(path: Path) -> None:
    path.write_text("queue_bound = 5\n")
    file = ConfigFile(path)

    path.write_text("queue_bound = \n")
    assert not file.reload()
    assert file.current.queue_bound == 5
    assert [flaw.line for flaw in file.flaws] == [1]

    path.write_text("queue_bound = 6\n")
    assert file.reload()
    assert file.current.queue_bound == 6
    assert file.flaws == ()


def test_a_broken_file_at_the_start_is_an_error(path: Path) -> None:
    path.write_text("queue_bound = \n")

    with pytest.raises(ConfigError):
        ConfigFile(path)


@settings(max_examples=60, deadline=None)
@given(data=st.binary(max_size=300))
def test_no_bytes_do_more_harm_than_an_error(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("config") / "config.toml"
    path.write_bytes(data)

    flaws = None
    try:
        load_config(path)
    except BrokenConfig as broken:
        flaws = broken.flaws

    assert flaws is None or len(flaws) > 0


def test_a_daemon_that_starts_on_a_broken_file_uses_the_last_good_one(tmp_path: Path) -> None:
    path, kept = tmp_path / "config.toml", tmp_path / "last-good.toml"
    path.write_text('default_model = "scripted"\nask_seconds = 7\n', encoding="utf-8")
    ConfigFile(path, last_good=kept)
    path.write_text("default_model = \n", encoding="utf-8")

    file = ConfigFile(path, last_good=kept)

    assert (file.current.default_model, file.current.ask_seconds) == ("scripted", 7.0)
    assert [(flaw.path, flaw.line) for flaw in file.flaws] == [(str(path), 1)]


def test_a_number_of_too_many_digits_is_a_flaw_of_its_line(path: Path) -> None:
    digits = "9" * 5000

    assert errors_of(path, f"# {digits}\nask_seconds = 60\nqueue_bound = {digits}\n") == [
        (3, "a number has too many digits")
    ]


@pytest.mark.parametrize("key", ["queue_bound", "tool_seconds"])
@pytest.mark.parametrize("number", ["1" + "0" * 400, "-1" + "0" * 400, "0x" + "f" * 9000])
def test_a_number_beyond_sixty_four_bits_is_a_flaw_of_its_line(path: Path, key: str, number: str) -> None:
    assert errors_of(path, f"\n{key} = {number}\n") == [(2, f"`{key}` is too large a number")]


def test_the_keys_of_agents_that_work_together_keep_their_outside_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    path = tmp_path / "config.toml"
    path.write_text(
        "[agent]\nmultiAgent = true\nmaxDelegationRounds = 3\n"
        'agentsDir = "~/mine"\nforeignDirs = ["~/.claude/agents", "beside", "/else"]\n'
        "[runLedger]\nenabled = true\nwriteThrough = true\n[agentMemory]\nenabled = true\n"
    )

    config, warnings = load_config(path)

    assert warnings == []
    assert (config.agent.multi_agent, config.agent.max_delegation_rounds) == (True, 3)
    assert config.agent.agents_dir == "/home/ada/mine"
    assert config.agent.foreign_dirs == ("/home/ada/.claude/agents", str(tmp_path / "beside"), "/else")
    assert (config.run_ledger.enabled, config.run_ledger.write_through) == (True, True)
    assert config.agent_memory.enabled


@pytest.mark.parametrize(
    "line", ['agentsDir = "a\\u0000b"', 'foreignDirs = ["\\u0000"]', "maxDelegationRounds = 0", 'multiAgent = "yes"']
)
def test_a_wrong_value_of_an_agent_key_is_told_with_its_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(f"[agent]\n{line}\n")

    with pytest.raises(BrokenConfig) as caught:
        load_config(path)

    assert [flaw.line for flaw in caught.value.flaws] == [2]


def test_a_home_of_somebody_unknown_is_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('[agent]\nagentsDir = "~nobody-of-that-name/agents"\n')

    assert load_config(path)[0].agent.agents_dir == str(tmp_path / "~nobody-of-that-name" / "agents")
