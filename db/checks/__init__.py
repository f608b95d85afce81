"""Checks of an installed schema: functions that differ, rows that contradict each other.

It imports `install`. Begin with `findings`; the statements are in SQL files beside it.
"""
