"""What clients do under load: client types, pacing, records. Runs in processes that generate load.

- `plan` says what one process does, `seats` who takes part;
- `pacing` says when: closed loop with think time, or open loop at given moments;
- `queue_roles`, `request_roles`, `topic_roles` and `consumer_roles` are the client types;
- `envelope` is what a body carries, `recorder` what is kept about each request, `operations` its kinds;
- `generator` is the process.
"""
