"""Tools that users add: functions decorated with @tool, loaded from files and entry points."""
