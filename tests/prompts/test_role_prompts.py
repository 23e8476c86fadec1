"""What a coordinator and its worker are sent, word for word. MOOT_WRITE_PROMPTS=1 writes the pages anew."""

import os
import re
from pathlib import Path

from tests.daemon_process import PROVIDER_CONFIG, Home
from tests.daemon_thread import daemon_thread
from tests.fake_provider import Provider
from tests.journeys.test_continued_workers import ask, first_worker
from tests.journeys.test_roles import bodies_of, say, steps, write
from tests.prompts.test_prompts import FOLDER, shown
from tests.teaming import eventually_idle

CONFIG = PROVIDER_CONFIG


async def test_a_coordinator_and_a_continued_worker_are_sent_exactly_this(
    home: Home, provider: Provider, tmp_path: Path
) -> None:
    write(home, "boss", "role: coordinator\nprefixes: [fs_read]\n")
    write(home, "hand", 'role: worker\nprefixes: ["fs_*"]\n')
    with daemon_thread(home) as daemon:
        async with daemon.client() as talk:
            worker = await first_worker(talk, home, provider, cwd=str(tmp_path))
            provider.program(*steps("now count", say("Five.")), *steps("task-notification", say("Heard.")))
            await ask(talk, provider, {"worker_id": worker, "message": "now count"})
            await eventually_idle(home, talk)
    for agent in ("boss", "hand"):
        page = shown(bodies_of(provider, agent)[-1], str(tmp_path))
        page = re.sub(r"<duration_ms>\d+", "<duration_ms>MS", page.replace(worker, "WORKER"))
        page = re.sub(r"<total_tokens>\d+", "<total_tokens>TOKENS", page)
        page = re.sub(r"context \d+% full", "context SHARE% full", page)
        page = re.sub(r"call_[0-9a-f]{16}", "CALL", page.replace(str(home.path), "HOME"))
        page = re.sub(r"(?<=workspaces/)[\w-]+", "FOLDER", page)
        path = FOLDER / f"{'coordinator' if agent == 'boss' else 'continued_worker'}.txt"
        if os.environ.get("MOOT_WRITE_PROMPTS"):
            path.write_text(page, encoding="utf-8")
        assert page == path.read_text(encoding="utf-8")
