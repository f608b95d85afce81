"""Checks that no linter knows: what the documentation names exists, and every procedure has its header."""
