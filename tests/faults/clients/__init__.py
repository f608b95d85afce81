"""The clients of a run, each a process: what they do, and the history that each writes before it goes on."""
