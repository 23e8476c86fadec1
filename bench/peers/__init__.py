"""Other frameworks measured in the same run, each in a virtual environment of its own: ./dev bench --peers."""
