"""What TCP reaches between the hosts of a lab: goodput of one flow and of flows that share a link, and the round trip.

    polyrhythm lab --hosts 3 --network slow -- python benchmarks/lab_links.py --seconds 5

Host 0 prints one JSON object: Mbit/s of payload that arrived in the second half of each transfer, by case, and the
medians of 50 round trips of one byte over TCP, in milliseconds, on a quiet line and beside a transfer.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import threading
import time

PORT = 5000
CHUNK = 1 << 20
ROUND_TRIPS = 50


def address(host: int) -> str:
    first, _, _ = os.environ["MASTER_ADDR"].rpartition(".")
    return f"{first}.{host + 1}"


def serve() -> None:
    """For each connection do what its first byte says: echo, take what comes and say the rate, or send for so many seconds."""
    with socket.create_server(("", PORT)) as door:
        while True:
            connection, _ = door.accept()
            threading.Thread(target=answer, args=(connection,), daemon=True).start()


def answer(connection: socket.socket) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with connection:
        while request := connection.recv(1):
            if request == b"e":
                connection.sendall(b"e")
            elif request == b"t":
                connection.sendall(json.dumps(take(connection)).encode())
                return
            elif request == b"s":
                send(connection, float(connection.recv(16)))
                return
            elif request == b"q":
                os._exit(0)


def take(connection: socket.socket) -> float:
    """Bytes per second from the middle of the transfer to its end."""
    buffer, seen = bytearray(CHUNK), [(time.perf_counter(), 0)]
    while count := connection.recv_into(buffer):
        seen.append((time.perf_counter(), seen[-1][1] + count))
    middle = (seen[0][0] + seen[-1][0]) / 2
    begun, before = next(entry for entry in seen if entry[0] >= middle)
    return (seen[-1][1] - before) / (seen[-1][0] - begun)


def send(connection: socket.socket, seconds: float) -> None:
    until, data = time.perf_counter() + seconds, bytes(CHUNK)
    while time.perf_counter() < until:
        connection.sendall(data)
    connection.shutdown(socket.SHUT_WR)


def push(host: int, seconds: float) -> float:
    """Send to `host`; the rate that it says."""
    with connect(host) as connection:
        connection.sendall(b"t")
        send(connection, seconds)
        return float(connection.recv(64))


def pull(host: int, seconds: float) -> float:
    """Have `host` send; the rate of what came."""
    with connect(host) as connection:
        connection.sendall(b"s" + f"{seconds:<16}".encode())
        return take(connection)


def round_trip(host: int) -> float:
    """The median of several round trips of one byte, in seconds."""
    with connect(host) as connection:
        taken = []
        for _ in range(ROUND_TRIPS):
            begun = time.perf_counter()
            connection.sendall(b"e")
            connection.recv(1)
            taken.append(time.perf_counter() - begun)
        return statistics.median(taken)


def connect(host: int) -> socket.socket:
    until = time.monotonic() + 10
    while True:
        try:
            connection = socket.create_connection((address(host), PORT))
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
            continue
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection


def together(*jobs: tuple[object, ...]) -> list[float]:
    """Run (function, arguments...) at once."""
    answers = [0.0] * len(jobs)

    def run(number: int) -> None:
        function, *arguments = jobs[number]
        answers[number] = function(*arguments)  # type: ignore[operator]

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=5.0)
    seconds = parser.parse_args().seconds
    if os.environ["RANK"] != "0":
        serve()
    found: dict[str, object] = {"round trip ms": 1e3 * round_trip(1)}
    mbit = 8e-6
    found["one flow"] = mbit * push(1, seconds)
    found["two flows leave one host"] = [mbit * rate for rate in together((push, 1, seconds), (push, 2, seconds))]
    found["two flows enter one host"] = [mbit * rate for rate in together((pull, 1, seconds), (pull, 2, seconds))]
    found["both ways at once"] = [mbit * rate for rate in together((push, 1, seconds), (pull, 1, seconds))]
    busy, trip = together((push, 1, 4.0), (round_trip, 1))
    found["beside a transfer"] = {"mbit": mbit * busy, "round trip ms": 1e3 * trip}
    print(json.dumps(found))
    for host in range(1, int(os.environ["WORLD_SIZE"])):
        with connect(host) as connection:
            connection.sendall(b"q")


if __name__ == "__main__":
    main()
