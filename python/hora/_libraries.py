"""What tensors on GPUs need of Python packages: libraries, and memory."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

__all__ = ["free_gpu_memory", "library_folders"]

# Of the packages nvidia-nccl-cu12 and -cu13, nvidia-cuda-nvrtc-cu12, and nvidia-cuda-nvrtc of CUDA 13.
PLACES = ("nccl/lib", "cuda_nvrtc/lib", "cu13/lib")


def library_folders() -> list[str]:
    """Return the folders that exist."""
    package = importlib.util.find_spec("nvidia")
    bases = package.submodule_search_locations if package is not None else None
    folders = [Path(base) / place for base in bases or () for place in PLACES]
    return [str(folder) for folder in folders if folder.is_dir()]


def free_gpu_memory() -> None:
    """Let PyTorch give back what it keeps of GPUs for later use."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()
