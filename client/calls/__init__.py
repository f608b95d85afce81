"""What the application asks for: its requests, what answers them, and how they fail.

They are encoded and decoded here, without I/O. It imports no other subpackage. Begin with `queue_calls`.
"""
