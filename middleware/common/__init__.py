"""What every subpackage uses: settings, failures, logs, deadlines, periodic work.

It imports no other subpackage. Begin with `settings` and `failures`.
"""
