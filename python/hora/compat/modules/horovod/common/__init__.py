"""``horovod.common``: exceptions and small functions."""
