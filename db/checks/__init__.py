"""What is wrong with an installed schema: functions that differ, rows that contradict each other.

It imports `install`. Begin with `findings`.
"""
