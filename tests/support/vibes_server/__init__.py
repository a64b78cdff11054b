"""A vibe on this machine: the protocol of the ``vibes-diy`` client over WebSocket, with an access function and faults."""
