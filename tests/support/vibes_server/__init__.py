"""A vibe on this machine: the protocol of the ``vibes-diy`` client, with an access function and faults."""
