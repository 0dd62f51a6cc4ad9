"""Build of hora's native libraries: setuptools calls CMake and puts what it makes into the package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

ROOT = Path(__file__).resolve().parent
COMMANDS = {"cmake": "cmake", "ninja": "ninja-build", "c++": "g++"}  # command: Debian package


def require_commands() -> None:
    """Name every missing build command together with the package that has it."""
    missing = [command for command in COMMANDS if shutil.which(command) is None]
    if "CXX" in os.environ and "c++" in missing:
        missing.remove("c++")
    if missing:
        packages = " ".join(COMMANDS[command] for command in missing)
        raise CompileError(
            f"hora cannot be built, commands not found: {', '.join(missing)}\n"
            f"Install them with: apt-get install --no-install-recommends {packages}"
        )


def pybind11_folder() -> str:
    """Folder of pybind11's CMake files in the environment that runs this build."""
    try:
        import pybind11
    except ImportError as error:
        raise CompileError(
            f"hora cannot be built: {sys.executable} has no pybind11\n"
            f"Install it with: {sys.executable} -m pip install 'pybind11>=3.1,<4'"
        ) from error
    return pybind11.get_cmake_dir()


def run_cmake(step: str, *arguments: str) -> None:
    sys.stdout.flush()
    try:
        subprocess.run(["cmake", *arguments], cwd=ROOT, stderr=subprocess.STDOUT, check=True)
    except subprocess.CalledProcessError as error:
        raise CompileError(
            f"hora: CMake's {step} step failed, its messages are above.\n"
            f"Packages the build needs on Debian: {ROOT / 'scripts' / 'apt-packages.txt'}"
        ) from error


class CMakeBuild(build_ext):
    """Builds libhora, libhora_mpi, libhora_tensorflow and _core with CMake.

    An editable install writes them into ``python/hora``. ``HORA_BUILD_DIR`` names another build folder, so
    that a developer's tree (``build/dev``) and the editable install can be one and the same.
    """

    def run(self) -> None:
        require_commands()
        extension = Path(self.get_ext_fullpath("hora._core")).resolve()
        folder = Path(os.environ.get("HORA_BUILD_DIR", self.build_temp)).resolve()
        settings = {
            "CMAKE_BUILD_TYPE": "RelWithDebInfo",
            "HORA_BUILD_PYTHON": "ON",
            "HORA_PACKAGE_DIR": str(extension.parent),
            "Python_EXECUTABLE": sys.executable,
            "pybind11_DIR": pybind11_folder(),
        }
        definitions = [f"-D{name}={value}" for name, value in settings.items()]
        run_cmake("configure", "-S", str(ROOT), "-B", str(folder), "-G", "Ninja", *definitions)
        run_cmake("build", "--build", str(folder))
        self.check_products(extension)

    def check_products(self, extension: Path) -> None:
        libraries = ("libhora.so", "libhora_mpi.so", "libhora_tensorflow.so")
        for product in (extension, *(extension.with_name(library) for library in libraries)):
            if not product.is_file():
                raise CompileError(f"hora: the build ended without making {product.name}")


setup(ext_modules=[Extension("hora._core", sources=[])], cmdclass={"build_ext": CMakeBuild})
