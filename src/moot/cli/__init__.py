"""The moot command line: `main` holds the table of commands, `commands` their code, `render` how things are shown."""
