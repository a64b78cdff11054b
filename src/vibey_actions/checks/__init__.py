"""``doctor``: what a sync needs, looked at before anything is needed. Nothing here writes."""
