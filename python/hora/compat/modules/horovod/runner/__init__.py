"""``horovod.runner``: what test suites import of it; jobs are started with ``mpirun``."""
