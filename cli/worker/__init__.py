"""`telesto worker`: an application's tasks in several processes, under a supervisor.

Begin with `worker`, the command. `supervisor` runs the processes, and `process` is what each of them does.
"""
