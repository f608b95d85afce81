"""Processes that generate load, and what they record of it.

A process is started with a plan, connects its clients, waits for a moment that all processes have in common,
works until the time is up, and leaves a file with a record of each request. This room imports the client and
the protocol, and for `ceiling` the calls of the database's procedures; what starts the processes and what
reads the records is above it.

Begin with `generator`: it tells what a process does. `plan` is what it is told; `slot` and `roles` are what
its clients do; `pacing` says when (closed loop with think time, or open loop at given moments); `bodies` is
what a message carries, `recorder` what is kept of each request. `worker` starts processes and lets them begin
together. `ceiling` is another such process: it calls the procedures without the service.
"""
