"""Settings of the Python interpreter for a daemon: threads and garbage collection. Used by app.py."""

import gc
import sys

# How long a thread keeps the interpreter while another one wants it.
_SWITCH_SECONDS = 0.0005


def tune_interpreter() -> None:
    # Switch to the writer's thread soon: with the default of five milliseconds it waits for a whole model call.
    sys.setswitchinterval(_SWITCH_SECONDS)
    # Existing objects stay alive; scanning them at every garbage collection would cost a tenth of every turn.
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    gc.enable()
