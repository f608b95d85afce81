"""What moves bytes and time for a session: threads, sockets, and who writes its state.

It imports every other subpackage. Begin with `driver`, for threads, or `async_driver`.
"""
