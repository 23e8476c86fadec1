"""Run the fake provider by itself: `python -m tests.fake_provider --port 0` prints its address and serves."""

import argparse
import asyncio

from tests.fake_provider.server import Server, start


async def _serve(port: int, key: str) -> None:
    runner, port = await start(Server(key=key), port=port)
    print(f"http://127.0.0.1:{port}", flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--key", default="")
    options = parser.parse_args()
    try:
        asyncio.run(_serve(options.port, options.key))
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    main()
