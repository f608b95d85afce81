"""The wire protocol of Telesto: packets, errors and framing, without I/O."""
