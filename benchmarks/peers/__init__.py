"""Other message queues, and Telesto, each as a server, a queue, and clients that put and consume.

It imports `tiers` for Telesto's own servers, and the database package for accounts and PostgreSQL.
What only a server needs is imported when it starts, so that processes that generate load import only a
client.

Begin with `interface`, the definition of a peer. Each system has an adapter: `telesto`, `rabbitmq`, `nats`,
`redis_streams`, `pgmq`, `pgq`, `procrastinate`, `pgqueuer`. `processes` starts servers; `postgres` is shared
by the peers in PostgreSQL.
"""
