"""What stands in for Horovod's modules: this folder is put on ``sys.path`` by ``hora.compat.install``."""
