"""A daemon that is killed while an agent imports into the knowledge graph: all of it is there in the end, and once."""

import json
from contextlib import suppress
from functools import partial

from moot.domain.errors import MootError
from moot.failpoint import GRAPH_POINTS
from moot.wire import moot_pb2 as pb
from tests.daemon_process import CONFIG, Home, eventually, running

ROWS = 40
DOCUMENT = {
    "predicates": [{"name": "follows", "exclusive": True}],
    "entities": [
        {"id": f"n{number}", "type": "thing", "relations": [{"predicate": "follows", "object": f"n{number + 1}"}]}
        for number in range(ROWS)
    ],
}
SCRIPT = f"""
[[rule]]
match = "import it"
steps = [
  {{ calls = [{{ name = "ontology_import_json", arguments = {{ data = {json.dumps(json.dumps(DOCUMENT))} }} }}] }},
  {{ reply = "Imported." }},
]

[[rule]]
reply = "Noted."
"""
ENDED = "SELECT count(*) FROM runs WHERE kind = 'background' AND status = 'ended' AND outcome = 'completed'"


def has_ended(home: Home, count: int) -> bool:
    return home.query(ENDED) == [(count,)]


async def test_each_point_kills_the_daemon_and_the_import_is_completed_once(home: Home) -> None:
    home.furnish(script=SCRIPT, config=CONFIG)
    for count, point in enumerate(GRAPH_POINTS, 1):
        with running(home, MOOT_FAIL_AT=point) as killed:
            async with killed.client() as talk:
                # It may be killed before it can answer.
                with suppress(MootError):
                    await talk.ask(start_run=pb.StartRunMsg(agent="ontologist", content="import it"))
                killed.reap()
        with running(home) as daemon:
            await eventually(partial(has_ended, home, count))
            facts = daemon.cli_json("graph", "facts")["data"]
            assert [(fact["subject"], fact["object"]) for fact in facts] == [
                (f"n{number}", f"n{number + 1}") for number in range(ROWS)
            ]
            assert home.query("SELECT count(*) FROM graph_terms") == [(1,)]
            results = "SELECT count(*) FROM messages WHERE role = 'tool' AND instr(content, '\"imported\"') > 0"
            assert home.query(results) == [(count,)]
            assert daemon.cli("graph", "clear", "--yes").returncode == 0
