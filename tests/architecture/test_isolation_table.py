"""docs/isolation.md says of every table to whom its rows belong."""

import asyncio
import re
from pathlib import Path

import apsw

from tests.contracts.store_kit import SqliteDisk

PAGE = Path(__file__).resolve().parents[2] / "docs" / "isolation.md"
NAME = re.compile(r"`([a-z_]+)`")
# The tables in which SQLite keeps a full-text index.
PARTS = ("_config", "_content", "_data", "_docsize", "_idx")


def list_tables(folder: Path) -> set[str]:
    async def create() -> Path:
        disk = SqliteDisk(folder)
        storage = await disk.open()
        await storage.store.close()
        return disk.path

    with apsw.Connection(str(asyncio.run(create()))) as db:
        names = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    made = {f"{name}{part}" for name in names for part in PARTS}
    return {name for name in names - made if not name.startswith("sqlite_")}


def test_the_page_says_to_whom_the_rows_of_every_table_belong(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    cells = [line.strip("|").split("|")[-1] for line in text.splitlines() if line.startswith("|")]
    daemon = text.partition("## What belongs to the daemon")[2]
    named = {name for cell in (*cells, daemon) for name in NAME.findall(cell)}
    tables = list_tables(tmp_path)
    assert tables - named == set(), "say in docs/isolation.md who finds this, and try it in tests/isolation_kinds.py"
    assert named - tables == set(), "docs/isolation.md names tables that do not exist"
