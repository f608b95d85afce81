"""The wire protocol of Telesto, without I/O; needs nothing but Python.

- telesto.protocol.packets: the packets with encode and decode, PACKETS and REQUESTS, the protocol's constants
- telesto.protocol.enums: the enums, error codes and states of a connection
- telesto.protocol.errors: the exceptions, one for each error code, and exception_for
- telesto.protocol.framing: FrameDecoder, which splits a stream into frames

Packets, enums and error codes are generated from spec/telesto.toml; spec/README.md says how to change it.
"""
