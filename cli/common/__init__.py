"""What every command uses: options, the connection, output, signals, exit codes.

It imports no other room. Begin with `app` and `connection`.
"""
