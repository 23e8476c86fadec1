"""The rows about NATS can be measured: a run beside nats-py, with few messages and a real server."""

from pathlib import Path

from bench.broker import measure_broker
from bench.mail_nats import measure_nats_mail

# Never asked: these rows need no model.
NO_PROVIDER = "http://127.0.0.1:9"


async def test_mail_between_daemons_is_measured_beside_nats_py(tmp_path: Path) -> None:
    cost = await measure_nats_mail(tmp_path, NO_PROVIDER, messages=20)

    assert len(cost.raw) == len(cost.published) == len(cost.rate) == len(cost.cpu["receiver"])
    assert min([*cost.raw, *cost.published, *cost.rate, cost.synced, cost.latency]) > 0


async def test_the_broker_port_is_measured_beside_nats_py(tmp_path: Path) -> None:
    cost = await measure_broker(tmp_path, messages=20)

    assert min(cost.raw, cost.adapter, cost.latency) > 0
