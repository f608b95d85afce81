"""Other message queues beside Telesto: the same work for each, interleaved, on the same machine.

- `interface` is what a peer is for the comparison: a server, a queue, and clients that put and consume;
- one module for each system has its adapters: `telesto`, `rabbitmq`, `nats`, `redis_streams`, `pgmq`, `pgq`,
  `procrastinate`, `pgqueuer`; `catalog` lists them and says what each needs;
- `bodies` says what a message carries, `load` is the process that generates load;
- `comparison` carries out the runs, `audit` balances them, `table` prints the ratios and judges the targets;
- `install` gets what is missing.
"""
