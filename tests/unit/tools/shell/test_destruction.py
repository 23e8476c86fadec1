"""Commands that destroy what cannot be taken back need approval in mode work; those that do not are ordinary."""

import pytest

from moot.domain.shell import Level
from moot.tools.shell.grammar import classify
from tests.unit.tools.shell.shell_commands import EVERYDAY

DESTRUCTIVE = (
    "echo x > .envrc",
    "echo x >> sub/.Envrc",
    "mkdir -p .github/workflows && cat > .github/workflows/ci.yml",
    "printf a | tee -a AGENTS.md",
    "cp a .husky/pre-commit",
    "mv a .vscode/tasks.json",
    "cd .vscode && echo x > tasks.json",
    "cd sub/.github; cat >> ci.yml",
    "(cd .vscode && cp /usr/share/tasks.json .)",
    "rm -rf src",
    "rm -r build dist",
    "rm *",
    "rm src/*.py",
    "rm a.txt b.txt",
    "rm a.txt && rm b.txt",
    "rm a.txt; unlink b.txt",
    "rm {a,b}.txt",
    'rm "$file"',
    "for f in *.py; do rm $f; done",
    "for f in a b; do rm $f; done",
    "sh -c 'rm -rf src'",
    "bash -c 'cd src && rm -r .cache'",
    "env X=1 rm -rf src",
    "nohup rm -rf src",
    "make && rm -rf out",
    "echo $(rm -rf src)",
    "f() { rm -r src; }; f",
    "ls | xargs rm",
    "git ls-files -o | xargs -0 /bin/rm -f",
    "ls | parallel rm",
    "find . -name '*.pyc' -delete",
    "find src -name '*.py' -exec rm {} +",
    "find src -type f -exec sh -c 'rm \"$1\"' _ {} ';'",
    "truncate -s 0 log.txt",
    "dd if=/dev/zero of=data.bin count=1",
    "mv src /tmp/old",
    "rsync -a --delete a/ b/",
    "tar --remove-files -cf a.tar src",
    "for f in *; do : > $f; done",
    'for f in a b; do echo > "$f"; done',
    "sed -i s/a/b/ src/*.py",
    'cp a "$b"',
    "git push",
    "git push origin main",
    "git -C sub push",
    "git checkout -- .",
    "git checkout .",
    "git checkout HEAD src",
    "git checkout -f main",
    "git restore .",
    "git restore --staged --worktree .",
    "git switch -f main",
    "git reset --merge",
    "git branch -D topic",
    "git tag -d v1",
    "git stash drop",
    "git stash clear",
    "git rm -rf src",
    "git worktree remove --force ../x",
    "python3 -c \"import shutil; shutil.rmtree('src')\"",
    "python3 - <<'X'\nimport shutil\nshutil.rmtree('src')\nX",
    "python3 -c \"import os; [os.remove(f) for f in os.listdir('.')]\"",
    "perl -e 'unlink glob \"*\"'",
    "rm --recurs src",
    "git checkout --forc main",
    "mv -t /tmp src",
    "tee a b < c",
    "hg update --clean",
    "svn revert -R .",
)
ORDINARY = (
    "rm a.txt",
    "rm -f -- a.txt",
    "unlink a.txt",
    "touch x && rm x",
    "rm x; ls; rm x",
    "rmdir empty",
    "python3 -c \"import os; os.remove('a.txt')\"",
    "tee a < b",
    "tee -a a b < c",
    "echo x > a.txt",
    "echo x >> .git/info/exclude",
    "cat AGENTS.md",
    "cd .github && ls && echo x > /tmp/list",
    "git add .github",
    "pytest -q > out.txt 2> err.txt",
    'echo "$x" >> log.txt',
    "mv a.txt b.txt",
    "cp -r src other",
    "find . -name '*.py' -exec grep -l x {} +",
    "ls | xargs grep rmdir",
    "dd if=a of=/dev/null",
    "git status",
    "git add -A && git commit -m 'rm -rf is gone'",
    "git checkout main",
    "git checkout -b feature/x",
    "git switch main",
    "git restore --staged a.txt",
    "git reset",
    "git reset --soft HEAD~1",
    "git branch topic",
    "git branch -d topic",
    "git tag v1",
    "git stash",
    "git push --dry-run",
    "git rm a.txt",
    "make test",
    "python3 -m build",
    "echo rm -rf src",
    "grep -rn 'git push' docs",
)
# These are doubtful or refused, whatever the mode.
WORSE = (
    "git clean -fdx",
    "git reset --hard",
    "git push --force",
    "shred a.txt",
    "find . -delete",
    "rm -rf .",
    "rm -rf ~",
    "f() { rm -rf $1; }; f src",
)


@pytest.mark.parametrize("command", DESTRUCTIVE)
def test_what_cannot_be_taken_back_is_destructive(command: str) -> None:
    verdict = classify(command)
    assert verdict.level is Level.DESTRUCTIVE, verdict
    assert verdict.reason


@pytest.mark.parametrize("command", ORDINARY)
def test_one_named_file_and_everything_else_is_ordinary(command: str) -> None:
    assert classify(command).level is Level.OK


@pytest.mark.parametrize(
    ("command", "lost"),
    [
        ("echo x > a.txt", {"a.txt"}),
        ("pytest -q > out.txt 2> err.txt", {"out.txt", "err.txt"}),
        ("make &> log", {"log"}),
        ("echo x >> a.txt", set()),
        ("tee a < b", {"a"}),
        ("tee -a a < b", set()),
        ("rm a.txt", {"a.txt"}),
        ("cp a b", {"b", "b/a"}),
        ("cp -n a b", set()),
        ("cp -r src other", {"other", "other/src/"}),
        ("cp *.py lib", {"lib", "lib/"}),
        ("cp -t lib a b", {"lib", "lib/a", "lib/b"}),
        ("mv x/a b", {"b", "b/a"}),
        ("rsync -a a/ b/", {"b", "b/"}),
        ("ln -s a b", set()),
        ("ln -sf a b", {"b", "b/a"}),
        ("sed s/a/b/ f", set()),
        ("sed -i s/a/b/ f g", {"f", "g"}),
        ("sed -i -e 's/[a]/b/' f", {"f"}),
        ("sed -i.bak s/a/b/ f", set()),
        ("sed --in-place s/a/b/ f", {"f"}),
        ("perl -pi -e 's/a/b/' f", {"f"}),
        ("sort -o f f", {"f"}),
        ("sh -c 'echo x > a'", {"a"}),
        ("cd sub && echo x > a", {"a", "sub/a"}),
        ("cd sub && sh -c 'echo x > a'", {"a", "sub/a"}),
        ("(cd sub && make); echo x > a", {"a", "sub/a"}),
        ("gcc -o prog a.c", set()),
        ("echo 'x > y'", set()),
    ],
)
def test_the_files_that_would_be_lost_are_listed(command: str, lost: set[str]) -> None:
    verdict = classify(command)
    assert verdict.level is Level.OK
    assert set(verdict.lost_files) == lost


def test_a_long_command_lists_them_too_and_many_are_destructive() -> None:
    assert classify(f"echo {'x' * 5_000} > a").lost_files == ("a",)
    assert classify("; ".join(f"cd d{number}" for number in range(150)) + "; cp a b").level is Level.DESTRUCTIVE


def test_doubt_and_danger_come_first() -> None:
    assert {classify(command).level for command in WORSE} <= {Level.ASK, Level.DANGEROUS}


def test_a_long_command_is_judged_alike() -> None:
    assert classify(f"echo {'x' * 5_000} && rm -rf src").level is Level.DESTRUCTIVE


def test_few_everyday_commands_are_destructive() -> None:
    found = [command for command in EVERYDAY if classify(command).level is Level.DESTRUCTIVE]
    assert len(found) < len(EVERYDAY) / 20, found
