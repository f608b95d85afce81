"""Other message queues, and Telesto, each as a server, a queue, and clients that put and consume.

This room imports `tiers` for Telesto's own servers and the database package for accounts and PostgreSQL.
What only a server needs is imported where it is started, so that processes that generate load import a
client alone.

Begin with `interface`: it says what a peer is for the comparison. One module for each system has its
adapter: `telesto`, `rabbitmq`, `nats`, `redis_streams`, `pgmq`, `pgq`, `procrastinate`, `pgqueuer`.
`processes` starts servers; `postgres` is what the peers in PostgreSQL have in common.
"""
