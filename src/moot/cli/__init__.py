"""The `moot` command line: `main` has the table of commands, `commands` their code, `render` the display."""
