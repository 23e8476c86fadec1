"""Child process that serves an embedded model: `python -m moot.models.local_server`.

It reads its API key as the first line of standard input, loads the model, writes one line of JSON
with its port, or with an error, and serves on loopback until standard input closes.
"""

import argparse
import ctypes
import json
import os
import signal
import sys
from contextlib import suppress
from typing import Any

_PR_SET_PDEATHSIG = 1
# llama.cpp caches prompts of other conversations in memory; its own limit is 8 GiB.
_PROMPT_CACHE_MIB = 256


def main() -> None:
    options = _parse_options()
    # Output of the library must not be mixed with our one line.
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _exit_with_parent(options.parent)
    # A model is large and can be loaded again: the kernel ends it before the daemon, and after commands.
    with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("500")
    key = sys.stdin.readline().strip()
    try:
        server = _serve(options, key)
    except (ImportError, RuntimeError, ValueError, OSError) as error:
        print(json.dumps({"error": str(error), "missing": isinstance(error, ImportError)}), file=answer, flush=True)
        os._exit(1)
    print(json.dumps({"address": server.listening_address}), file=answer, flush=True)
    answer.close()
    sys.stdin.read()
    # The library's shutdown waits for active requests, whose answers are no longer read.
    os._exit(0)


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="the GGUF file")
    parser.add_argument("--alias", required=True, help="the model's name in answers")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--context", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True, help="how many tokens of a prompt are read at a time")
    parser.add_argument("--parent", type=int, required=True, help="the process to die with")
    return parser.parse_args()


def _exit_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process when its parent dies, and exit if the parent is already gone."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def _serve(options: argparse.Namespace, key: str) -> Any:
    import xllamacpp  # noqa: PLC0415  an extra, and 30 MB

    parameters = xllamacpp.CommonParams()
    parameters.model.path = options.model
    parameters.model_alias = {options.alias}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.api_keys = [key]
    parameters.n_ctx = options.context
    parameters.n_parallel = 1
    # Progress is reported, and a cancelled request ends, after each batch.
    parameters.n_batch = parameters.n_ubatch = options.batch
    # Decides what goes to a graphics card, for which it loads the model once more: a third of the start.
    processor = xllamacpp.ggml_backend_dev_type.GGML_BACKEND_DEVICE_TYPE_CPU
    parameters.fit_params = any(device["type"] != processor for device in xllamacpp.get_device_info())
    parameters.cache_ram_mib = _PROMPT_CACHE_MIB
    # Repacking weights for speed doubles their memory; measured, the gain is small.
    parameters.no_extra_bufts = True
    parameters.cpuparams.n_threads = options.threads
    parameters.cpuparams_batch.n_threads = options.threads
    parameters.sampling.temp = 0.2
    parameters.sampling.top_p = 0.9
    parameters.sampling.penalty_repeat = 1.05
    parameters.ui = False
    parameters.endpoint_slots = False
    parameters.cors_origins = ""
    parameters.offline = True
    parameters.verbosity = 1
    return xllamacpp.Server(parameters)


if __name__ == "__main__":
    main()
