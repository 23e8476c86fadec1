"""The error for a request about an agent that is not there: why, and which one may have been meant."""

from pathlib import Path

from moot.agents.registry import Registry, agent_name_of
from moot.daemon.principal import Principal
from moot.domain.errors import ConfigError, MootError, NotFound
from moot.domain.near_names import suggest_name
from moot.domain.text import clean


def make_no_agent_error(registry: Registry, name: str, principal: Principal) -> MootError:
    flaw = next((flaw for flaw in registry.flaws if agent_name_of(Path(flaw.path)) == name), None)
    if flaw is not None:
        # Only the owner may see paths of files.
        why = clean(str(flaw)) if principal.is_owner else "its file is broken"
        fix = "Correct the file; `moot agents validate` shows where."
        return ConfigError(f"the agent {name!r} cannot be used: {why}", fix=fix)
    near = suggest_name(name, (agent.name for agent in registry.active()))
    if hidden := registry.explain_hidden(name):
        return hidden
    return NotFound(f"there is no agent {name!r}", fix=f"{near}`moot agents` lists them.")
