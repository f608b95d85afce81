"""The service of a run as processes, the proxies between them, and the faults that hurt them."""
