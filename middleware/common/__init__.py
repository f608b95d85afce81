"""What every room uses: settings, failures, logs, deadlines, periodic work.

It imports no other room. Begin with `settings` and `failures`.
"""
