"""Every key of the section [workflow] of config.toml. Read by config_file.py."""

from moot.daemon.config.keys import Key, check_between

WORKFLOW_KEYS = (
    Key("enabled", bool, "Let agents and people run workflows. `false` removes the tools `workflow_*`.", "true"),
    Key("max_parallel", int, "Maximum number of steps of all workflows at work.", "8", check_between(1, 1_000)),
)

SECTIONS = {"workflow": WORKFLOW_KEYS}
