"""What a command has to do with its terminal: output, input, questions, progress, signals, exit codes.

It imports no other subpackage. Begin with `output` and `interrupts`.
"""
