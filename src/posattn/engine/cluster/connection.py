"""How this process joins a Ray cluster: an address is tried by a socket first, since Ray itself waits for minutes."""

import os
import re
import socket
from pathlib import Path
from typing import Any

from posattn.errors import PosattnError, missing_extra, require

AUTO = "auto"
#: Seconds that an address has to answer.
ANSWER = 3.0
#: Where `ray start` and `ray.init` write down the address of the cluster that they have started on this machine.
CURRENT = Path("/tmp/ray/ray_current_cluster")
START = "ray start --head --node-ip-address=ADDRESS (docs/scale.md)"
#: How HTTP/2 begins, which Ray's directory speaks: what does not answer with settings is no cluster.
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5)
SETTINGS = b"\x04"
#: Ray's own names for this machine: it looks for a cluster at the machine's address then, not at the loopback's.
HERE = ("localhost", "127.0.0.1")


def ray_module() -> Any:
    """Ray, with its usage statistics off, imported when a cluster is asked for and not before."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "3")  # seconds for what answers and is no cluster, instead of 20
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # its future default, which needs no warning
    try:
        import ray
    except ImportError:
        raise missing_extra("running on a cluster", "cluster") from None
    return ray


def checked(address: Any) -> str:
    """An address as Ray takes it, HOST:PORT, or "auto"."""
    if address == AUTO:
        return AUTO
    right = isinstance(address, str) and re.fullmatch(r"([\w.-]+|\[[\da-fA-F:]+\]):\d{1,5}", address, re.ASCII)
    client = str(address).startswith("ray:")
    hint = " Run posattn on a machine of the cluster; ray:// is not supported." if client else ""
    require(bool(right), f"cluster {address!r}: write auto, or HOST:PORT of the head node, as 10.0.0.1:6379.{hint}")
    _, port = host_and_port(str(address))
    require(0 < port < 2**16, f"cluster {address!r}: port {port} is out of range. Use 1 to 65535; Ray's own is 6379.")
    return str(address)


def host_and_port(address: str) -> tuple[str, int]:
    """
    >>> host_and_port("[::1]:6379")
    ('::1', 6379)
    """
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def connect(address: str) -> Any:
    """Ray, connected to the cluster at an address; a connection that this process has to it already is used."""
    ray = ray_module()
    if ray.is_initialized():
        return ray
    found = _running() if checked(address) == AUTO else address
    _check(ray, found)
    try:
        ray.init(address=found, log_to_driver=False, configure_logging=False)
    except (ConnectionError, RuntimeError, OSError) as error:
        first = str(error).strip().partition("\n")[0]
        raise PosattnError(
            f"cluster {found}: Ray cannot join it ({first}). Run posattn on a machine of that cluster."
        ) from None
    # Ray prints what becomes of its nodes to standard output, where --json has lines of its own; there is no option.
    ray._private.worker._worker_logs_enabled = False
    return ray


def _running() -> str:
    """The address of the cluster that runs on this machine."""
    found = os.environ.get("RAY_ADDRESS", "")
    if not found and CURRENT.is_file():
        found = CURRENT.read_text().strip()
    require(bool(found), f"no Ray cluster runs on this machine: start one, {START}, or name one, --cluster HOST:PORT.")
    return checked(found)


def is_ray(address: str) -> bool:
    """Whether what answers at an address is the directory of a Ray cluster; an OSError where nothing does."""
    with socket.create_connection(host_and_port(address), timeout=ANSWER) as tried:
        tried.settimeout(ANSWER)
        tried.sendall(GREETING)
        return tried.recv(9)[3:4] == SETTINGS


def _check(ray: Any, address: str) -> None:
    host, port = host_and_port(address)
    own = ray.util.get_node_ip_address() if host in HERE else host
    looked = "" if own == host else f"; Ray takes {host} as {own}, this machine's own address"
    mend = f"Check the address, or start a cluster, {START}."
    try:
        found = is_ray(f"{own}:{port}")
    except OSError as error:
        reason = error.strerror or error
        raise PosattnError(f"cluster {address}: nothing answers there ({reason}{looked}). {mend}") from None
    require(found, f"cluster {address}: what answers there is no Ray cluster{looked}. {mend}")
