"""Safety of one call, from its tool and from what the call can reach. Used by the approval hook. Pure."""

from collections.abc import Collection

from msgspec import Struct

from moot.domain.ask import Binding
from moot.domain.prompt import Safety, ToolSpec

# Names of files and folders that other programs act upon without being told to: an edit of one is always dangerous.
# They are compared in lower case, since some file systems do not distinguish it.
CONTROL_NAMES = frozenset(
    {
        ".git", ".gitmodules", ".github", ".gitlab-ci.yml", ".husky", ".pre-commit-config.yaml", ".envrc", ".vscode",
        ".idea", ".claude", ".mcp.json", "agents.md", "claude.md", "claude.local.md",
        # Hooks of git, where the settings of a repository usually put them.
        ".githooks", "lefthook.yml", ".lefthook.yml",
        # Continuous integration.
        ".gitea", ".forgejo", ".circleci", ".buildkite", ".travis.yml", "jenkinsfile", "azure-pipelines.yml",
        "bitbucket-pipelines.yml", ".woodpecker.yml", ".drone.yml",
        # Editors, debuggers and shells that enter the folder, and other agents.
        ".devcontainer", ".devcontainer.json", ".zed", ".dir-locals.el", ".exrc", ".nvimrc", ".nvim.lua", ".gdbinit",
        ".lldbinit", ".mise.toml", "mise.toml", ".cursor", ".cursorrules", ".windsurf", ".codex", ".gemini",
        "gemini.md",
        # Imported by every Python that is started where they are found.
        "sitecustomize.py", "usercustomize.py",
    }
)  # fmt: skip


class Reach(Struct, frozen=True, kw_only=True):
    """What a call can reach, as its tool knows it. Without any of these, a call is as safe as its tool."""

    # It runs a program in the sandbox, without a network, in a directory where the sandbox lets it write.
    is_sandboxed: bool = False
    # It changes files below the working directory and nothing else, and the change can be undone.
    is_undoable: bool = False
    # What it destroys beyond one plainly named file and cannot be undone; "" if nothing is known.
    destroys: str = ""
    # What exactly it would change; the tool refuses if that is something else by the time of the call.
    binding: Binding | None = None


def judge_safety(
    spec: ToolSpec, reach: Reach | None, *, doubt: str = "", uses: str = "", taint: Collection[str] = ()
) -> Safety:
    """Return how much harm a call can do.

    `doubt` is what the classifier finds doubtful about it, `uses` the secrets it refers to, `taint` the untrusted text
    the run has seen. Such text may have chosen the command, and what a command changes cannot be undone: it can also
    write files that later runs are told to follow.
    """
    if spec.safety is not Safety.DANGEROUS or reach is None or doubt or uses or reach.destroys or spec.sinks:
        return spec.safety
    if reach.is_undoable or (reach.is_sandboxed and not taint):
        return Safety.MODERATE
    return spec.safety


def has_control_name(path: str) -> bool:
    """Whether a part of the relative path is a file or folder that other programs act upon by themselves."""
    return any(part.casefold() in CONTROL_NAMES for part in path.split("/"))
