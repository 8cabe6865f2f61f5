from pathlib import Path

from ports import reserved_port

from polyrhythm.processes.collectives.nccl import open_store


def listening(port: int) -> list[str]:
    """The addresses at which somebody on this host waits at `port`, as the kernel writes them."""
    tables = [Path(f"/proc/net/{name}").read_text(encoding="ascii").splitlines()[1:] for name in ("tcp", "tcp6")]
    places = [line.split()[1].split(":") for table in tables for line in table if line.split()[3] == "0A"]
    return [address for address, number in places if int(number, 16) == port]


def test_the_store_of_communicators_waits_at_its_own_address_only() -> None:
    with reserved_port() as port:
        keeper = open_store("127.0.0.1", port, keeper=True)
        other = open_store("127.0.0.1", port, keeper=False)
        other.set("key", "value")
        assert keeper.get("key") == b"value"
        assert listening(port) == ["0100007F"]
