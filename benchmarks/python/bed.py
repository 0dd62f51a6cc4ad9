"""Two hosts on one machine: network namespaces, and between them a link that is limited to 1 Gbit/s.

    python benchmarks/python/bed.py --ranks-per-host 2 python script.py

starts a command on both, root only. A veth pair is the cable; a token bucket filter at each end lets 1 Gbit/s
out, so both directions together carry twice that. Each host has a host name of its own, by which Open MPI
tells hosts apart; processors, memory and files are those of this machine. Where a bed cannot be built, the
program says why and ends with exit code 77. Names contain the process id, so that beds do not meet; what a
killed process left behind goes when the next one begins. Written for Open MPI 4.1 and 5, tried with 4.1.4.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

SKIPPED = 77
NAME = "hora-bed"
INTERFACE = "bed0"  # on both hosts
NETWORK, ADDRESSES = "10.77.0.0/24", ("10.77.0.1", "10.77.0.2")
MBIT_PER_S = 1000
# A burst just above 64 KiB, the most that Linux hands to an interface at once: a smaller bucket makes the
# filter cut that into packets, which costs a core; a larger one lets more through than the link carries.
FILTER = ("tbf", "rate", f"{MBIT_PER_S}mbit", "burst", "80kb", "latency", "50ms")
COMMAND_S = 10.0
TOOLS = {"ip": "iproute2", "tc": "iproute2", "unshare": "util-linux", "mpirun": "openmpi-bin"}
AGENT = """\
# Takes the place of ssh: drops its options and the host, and runs the command on the other host.
while [ "${{1#-}}" != "$1" ]; do shift; done
shift
exec ip netns exec {host} unshare --uts sh -c "hostname {host}; $*"
"""


class NoBed(Exception):
    """Two hosts cannot be had here; the text says why."""


@dataclass(frozen=True)
class Launcher:
    """What a version of Open MPI calls the same things."""

    agent: tuple[str, str]  # that starts daemons on other hosts
    network: tuple[str, str]  # on which daemons talk
    memory: str  # transport within a host


OPEN_MPI_4 = Launcher(("--mca", "plm_rsh_agent"), ("--mca", "oob_tcp_if_include"), "vader")
OPEN_MPI_5 = Launcher(("--prtemca", "plm_ssh_agent"), ("--prtemca", "prte_if_include"), "sm")


@dataclass(frozen=True)
class Bed:
    """Two hosts that are up."""

    hosts: tuple[str, str]  # names of hosts and of their namespaces
    agent: Path
    launcher: Launcher

    def mpirun(self, ranks_per_host: int) -> list[str]:
        """Return the launcher's part of a command that runs on both hosts, the lower ranks on the first."""
        named = 'hostname "$0" && exec "$@"'
        first = ["ip", "netns", "exec", self.hosts[0], "unshare", "--uts", "sh", "-c", named, self.hosts[0]]
        slots = ",".join(f"{address}:{ranks_per_host}" for address in ADDRESSES)
        return [
            *(*first, "mpirun", "--allow-run-as-root", "--host", slots, "-np", str(2 * ranks_per_host)),
            *("--map-by", "slot", "--bind-to", "none"),
            *(*self.launcher.agent, f"sh {self.agent}", *self.launcher.network, NETWORK),
            *("--mca", "pml", "ob1", "--mca", "btl", f"tcp,self,{self.launcher.memory}"),
            *("--mca", "btl_tcp_if_include", NETWORK),
            # Each host takes all cores for its own, and its ranks would not give way to those of the other.
            *("--mca", "mpi_yield_when_idle", "1"),
        ]


@contextlib.contextmanager
def open_bed() -> Iterator[Bed]:
    """Build a bed, one at a time in a process, and remove it at the end.

    Raises `NoBed` where there can be none.
    """
    launcher = find_launcher()
    remove_left_overs()
    own = os.getpid()
    try:
        first, second = names_of(own)
        build((first, second))
        agent = Path(tempfile.mkdtemp(prefix=f"{NAME}-{own}-")) / "agent"
        agent.write_text(AGENT.format(host=second))
        yield Bed((first, second), agent, launcher)
    finally:
        remove(own)


def find_launcher() -> Launcher:
    """Return how Open MPI is to be called, after a look at what a bed needs besides the kernel."""
    if sys.platform != "linux":
        raise NoBed("network namespaces are Linux's")
    if os.geteuid() != 0:
        raise NoBed("only root may make network namespaces")
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        packages = " ".join(sorted({TOOLS[tool] for tool in missing}))
        raise NoBed(f"{' and '.join(missing)} not found: apt-get install --no-install-recommends {packages}")
    version = call("mpirun", "--version").partition("\n")[0]
    found = re.search(r"Open MPI\) (\d+)", version)
    if found is None:
        raise NoBed(f"it is started by Open MPI's mpirun, and this is {version!r}")
    return OPEN_MPI_5 if int(found[1]) >= 5 else OPEN_MPI_4


def names_of(pid: int) -> tuple[str, str]:
    return f"{NAME}-{pid}-1", f"{NAME}-{pid}-2"


def build(hosts: tuple[str, str]) -> None:
    """Make two hosts and the link between them."""
    for host in hosts:
        call("ip", "netns", "add", host)
        call("ip", "-n", host, "link", "set", "lo", "up")
    ends = [("name", INTERFACE, "netns", host) for host in hosts]
    call("ip", "link", "add", *ends[0], "type", "veth", "peer", *ends[1])
    for host, address in zip(hosts, ADDRESSES, strict=True):
        call("ip", "-n", host, "address", "add", f"{address}/24", "dev", INTERFACE)
        call("ip", "-n", host, "link", "set", INTERFACE, "up")
        call("tc", "-n", host, "qdisc", "add", "dev", INTERFACE, "root", *FILTER)
        call(*("ip", "netns", "exec", host, "unshare", "--uts", "hostname", host))


def remove(pid: int) -> None:
    """Remove the bed of a process as far as it is there, with all that runs on its hosts."""
    there = namespaces()
    for host in names_of(pid):
        if host in there:
            end_processes(host)
            subprocess.run(["ip", "netns", "delete", host], capture_output=True, timeout=COMMAND_S)
    for folder in Path(tempfile.gettempdir()).glob(f"*{NAME}-{pid}-*"):  # Open MPI's too, by host
        shutil.rmtree(folder, ignore_errors=True)


def remove_left_overs() -> None:
    """Remove the beds of processes that have ended, and one that an earlier process of this id has left."""
    folders = [folder.name for folder in Path(tempfile.gettempdir()).glob(f"*{NAME}-*")]
    owners = {
        int(found[1]) for name in [*namespaces(), *folders] if (found := re.search(rf"{NAME}-(\d+)-", name))
    }
    for pid in owners:
        if pid == os.getpid() or not Path(f"/proc/{pid}").exists():
            remove(pid)


def namespaces() -> list[str]:
    return [line.split()[0] for line in call("ip", "netns", "list").splitlines() if line.strip()]


def end_processes(host: str) -> None:
    """End what runs on a host, and wait until it is gone."""
    until = time.monotonic() + COMMAND_S
    while (pids := call("ip", "netns", "pids", host).split()) and time.monotonic() < until:
        for pid in map(int, pids):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def call(*command: str) -> str:
    """Run a command and return its output; raise `NoBed` with its complaint."""
    ended = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_S)
    if ended.returncode:
        said = " ".join((ended.stderr or ended.stdout).split())
        raise NoBed(f"{' '.join(command)}: {said or f'exit status {ended.returncode}'}")
    return ended.stdout


def leave_nothing_when_ended() -> None:
    """Let SIGTERM and SIGHUP end this process like Ctrl-C does, with everything tidied up."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))


def run(command: Sequence[str], ranks_per_host: int) -> int:
    """Run a command on both hosts and return its exit code."""
    with open_bed() as bed, subprocess.Popen([*bed.mpirun(ranks_per_host), *command]) as process:
        try:
            return process.wait()
        finally:
            process.terminate()  # mpirun ends its ranks
            try:
                process.wait(COMMAND_S)
            except subprocess.TimeoutExpired:
                process.kill()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks-per-host", type=int, default=1)
    parser.add_argument("command", nargs=argparse.REMAINDER, help="with its arguments")
    options = parser.parse_args()
    if not options.command:
        parser.error("a command to run on both hosts is missing")
    leave_nothing_when_ended()
    try:
        return run(options.command, options.ranks_per_host)
    except NoBed as reason:
        print(f"two hosts: skipped, because {reason}")
        return SKIPPED
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main())
