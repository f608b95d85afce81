"""Processes that generate load, and their records.

A process gets a plan, connects its clients, waits for the common start, works until the time is up, and
leaves a file with a record of each request. This subpackage imports the client and the protocol, and for
`ceiling` the calls of the database's procedures. The subpackages above start the processes and
read the records.

Begin with `generator`, the main program of a process. `settings` are those of a run, `plan` is the input of a
process; `slot` and `roles` are the behaviour of its clients; `pacing` schedules requests (closed loop with
think time, or open loop); `bodies` defines the content of messages, `recorder` the records. `worker` starts
processes together. `ceiling` is another such process: it calls the procedures without the service.
"""
