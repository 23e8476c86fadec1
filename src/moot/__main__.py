"""python -m moot, and the `moot` command."""

from moot.cli.main import main

if __name__ == "__main__":
    main()
