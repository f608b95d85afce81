"""What every command uses: the application, options, variables, the connection and the client of a command.

It imports `terminal`. Begin with `app` and `connection`.
"""
