"""What people see of a party: its status file, its health over HTTP, and its measures."""

import json
import math
import re
import socket
import stat
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from sottovoce.deployment.party.health import HealthServer, health_address
from sottovoce.deployment.party.journal import Journal
from sottovoce.deployment.party.onlooker import LONG, Onlooker, Operation
from sottovoce.deployment.party.stalls import Missing
from sottovoce.deployment.party.standing import STATUS, Other, Standing, life, process, read_status, write_status
from sottovoce.deployment.party.stopping import Stopped
from sottovoce.deployment.privacy import Cost
from sottovoce.errors import ConfigError

FACTS = {
    "run": 'a "run"', "digest": "ab" * 32, "party": "basel", "role": "agent", "store": "/nowhere", "program": "1.2", "wire": 1, "delta": 1e-5,
    "reserved": math.inf,
}  # fmt: skip


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def standing(**values) -> Standing:
    known = {
        "phase": "hear", "round": 3, "rounds": 9, "exchange": 2, "exchanges": 9, "moved": 90.0, "awaited": ("chur",),
        "missing": (Missing("davos", 2, 2),), "others": (Other(name="chur", heard=95.0, taken=2, start=1), Other(name="bern", heard=-math.inf, greeted=False)),
        "boots": 2, "sent_bytes": 1234, "resends": 5, "seconds": 0.25, "spent": 0.5,
    }  # fmt: skip
    return Standing(**known | values)


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


@contextmanager
def looking_on(folder, monkeypatch, **operation):
    clock = Clock()
    monkeypatch.setattr(Onlooker, "clock", clock)
    journal = Journal(folder)
    watch = Onlooker(journal, lambda name: None, folder, FACTS, Operation(**operation))
    try:
        yield watch, clock
    finally:
        if watch._ended is None:
            watch.end("done", "The run is done.")
        journal.close()


def asked(port: int, request: bytes, *, patience: float = 5.0) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=patience) as connection:
        connection.sendall(request)
        found = b""
        while part := connection.recv(4096):
            found += part
    return found


def get(port: int, path: str) -> tuple[int, str]:
    head, _, body = asked(port, f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()).partition(
        b"\r\n\r\n"
    )
    assert f"Content-Length: {len(body)}".encode() in head
    return int(head.split()[1]), body.decode()


def test_the_status_file_is_private_whole_and_written_once_a_second_at_most(tmp_path, monkeypatch):
    with looking_on(tmp_path, monkeypatch) as (watch, clock):
        assert read_status(tmp_path)["standing"] is None
        assert stat.S_IMODE((tmp_path / STATUS).stat().st_mode) == 0o600
        made = []
        for step in range(40):
            clock.now = 100.0 + step / 10
            watch.look(lambda: made.append(clock.now) or standing())
        assert made == [100.0, 101.0, 102.0, 103.0]
        value = read_status(tmp_path)
        assert value["standing"]["moved"] == 13.0
        assert [other["heard"] for other in value["standing"]["others"]] == [8.0, None]
        assert value["standing"]["missing"] == [{"party": "davos", "exchange": 2, "hops": 2}]
        assert value["reserved"] is None, "infinite; JSON has no word for it"
        assert life(value, time.time()) == "runs"
        for number in range(8):
            watch.log("refused", sender="chur", reason=f"number {number}\n\x1b", kind="Forged")
        watch.end("refused", "others have more of it")
        ended = read_status(tmp_path)
        assert [each["says"] for each in ended["last_refusals"]] == [rf"number {n}\n\x1b" for n in (3, 4, 5, 6, 7)]
        assert ended["refusals"] == {"Forged": 8}
        assert (life(ended, time.time()), ended["ended"]["how"]) == ("ended", "refused")


def test_a_process_that_is_gone_is_not_taken_for_one_that_runs(tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", "pass"])
    ended.wait(60)
    now = time.time()
    write_status(tmp_path, {"process": process(), "ended": None})
    value = read_status(tmp_path)
    assert life(value, now) == "runs"
    assert life(value, now + 60) == "silent"
    assert life(value | {"process": process() | {"pid": ended.pid, "since": None}}, now) == "crashed"
    assert life(value | {"process": process() | {"since": "17"}}, now) == "crashed", "another process has its number"
    assert life(value | {"process": process() | {"machine": "another"}}, now) == "elsewhere"
    killed = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    alive = value | {"process": process() | {"pid": killed.pid, "since": None}}
    assert life(alive, now) == "runs"
    killed.kill()
    killed.wait(60)
    assert life(alive, now) == "crashed"


def test_a_status_that_cannot_be_written_stops_nobody(tmp_path):
    write_status(tmp_path / "gone", {"process": process()})
    for content in ("[]", "{", '{"format": "sottovoce status", "version": 2, "process": {}}', "[" * 10_000):
        (tmp_path / STATUS).write_text(content)
        with pytest.raises(ConfigError):
            read_status(tmp_path)


def test_health_is_well_while_the_party_looks_around_and_not_when_it_has_not_for_long(tmp_path, monkeypatch):
    port = free_port()
    with looking_on(tmp_path, monkeypatch, health=f"127.0.0.1:{port}") as (watch, clock):
        assert get(port, "/health")[0] == 200
        clock.now += LONG + 1
        code, body = get(port, "/health")
        assert (code, json.loads(body)["status"]) == (503, "stuck")
        watch.look(standing)
        code, body = get(port, "/health")
        assert (code, json.loads(body)) == (
            200,
            {"status": "ok", "phase": "hear", "exchange": 2, "awaited": 1, "looked_seconds_ago": 0.0},
        )
        watch._ended = {"how": "stopped"}
        assert get(port, "/health")[0] == 503
        watch._ended = None
    with pytest.raises(ConnectionRefusedError):
        get(port, "/health")


def test_whose_exchanges_take_long_is_given_longer(tmp_path, monkeypatch):
    with looking_on(tmp_path, monkeypatch) as (watch, clock):
        clock.now += 2
        watch.look(lambda: standing(seconds=100.0))
        clock.now += 2 * LONG
        assert watch._health()[0]
        clock.now += 3 * LONG
        assert not watch._health()[0]


SAMPLE = re.compile(
    r'([a-z][a-z0-9_]*)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\[\\n"])*",?)+)\})? (\+Inf|-Inf|NaN|-?[0-9.e+-]+)'
)


def parsed(page: str) -> dict[str, list[tuple[str, float]]]:
    """Families of a page in Prometheus' text format 0.0.4, read as strictly as its description has it: HELP, TYPE, samples, nothing else."""
    found, name, kind = {}, "", ""
    assert page.endswith("\n")
    for line in page[:-1].split("\n"):
        if line.startswith("# HELP "):
            name, _, words = line[7:].partition(" ")
            assert name not in found
            assert words
            kind = ""
        elif line.startswith("# TYPE "):
            typed, kind = line[7:].split(" ")
            assert typed == name
            assert kind in ("gauge", "counter")
            assert (kind == "counter") == name.endswith("_total")
            found[name] = []
        else:
            sample = SAMPLE.fullmatch(line)
            assert sample, line
            assert sample[1] == name
            assert kind
            found[name].append((sample[2] or "", float(sample[3].replace("Inf", "inf"))))
    return found


def test_metrics_are_read_as_prometheus_reads_them(tmp_path, monkeypatch):
    port = free_port()
    with looking_on(tmp_path, monkeypatch, health=f"127.0.0.1:{port}") as (watch, clock):
        clock.now = 130.0
        watch.look(standing)
        watch.log("refused", sender="chur", reason="..", kind="Forged")
        watch.log("refused", sender="chur", reason="..")
        clock.now = 131.0
        code, page = get(port, "/metrics")
    found = parsed(page)
    assert code == 200
    one = {name: samples[0][1] for name, samples in found.items() if len(samples) == 1}
    assert found["sottovoce_party_info"][0][0].startswith('party="basel",run="a \\"run\\"",role="agent"')
    assert found["sottovoce_refusals_total"] == [('kind="Forged"', 1.0), ('kind="Unexpected"', 1.0)]
    assert one["sottovoce_reserved_epsilon"] == math.inf
    assert one["sottovoce_memory_resident_bytes"] > 1e6
    expected = {
        "exchange_position": 2, "exchanges": 9, "round_position": 3, "rounds": 9, "last_exchange_seconds": 0.25, "progress_age_seconds": 41.0,
        "look_age_seconds": 1.0, "neighbours": 2, "neighbours_greeted": 1, "awaited_parties": 1, "missing_parties": 1, "spent_epsilon": 0.5,
        "sent_bytes_total": 1234, "resent_messages_total": 5, "starts_total": 2,
    }  # fmt: skip
    assert {name: one[f"sottovoce_{name}"] for name in expected} == expected


def test_a_client_that_is_slow_or_strange_keeps_nobody_long():
    port = free_port()
    server = HealthServer(f"127.0.0.1:{port}", lambda: (True, {}), lambda: "page")
    try:
        with socket.create_connection(("127.0.0.1", port)) as slow:
            slow.sendall(b"GET /health HTTP/1.1\r\n")
            began = time.monotonic()
            assert get(port, "/health")[0] == 200
            assert time.monotonic() - began < 4.5
        codes = {
            request: asked(port, request).split(b" ")[1]
            for request in (
                b"POST /health HTTP/1.1\r\n\r\n",
                b"GET /other HTTP/1.1\r\n\r\n",
                b"GET /health HTTP/1.1\r\nHost: evil.example.org\r\n\r\n",
                b"nonsense\r\n\r\n",
                b"GET /health HTTP/1.1\r\nHost: 999.0.0.1\r\n\r\n",
                b"GET /health HTTP/1.1\r\nhost: localhost:80\r\n\r\n",
            )
        }
        assert list(codes.values()) == [b"405", b"404", b"403", b"400", b"403", b"200"]
        assert asked(port, b"GET /" + b"x" * 5000).split(b" ")[1] == b"400"
        began, answers = time.monotonic(), 0
        while time.monotonic() - began < 0.5:
            answers += get(port, "/metrics")[0] == 200
        assert 1 <= answers <= 60
    finally:
        server.close()


def test_health_is_served_on_loopback_alone_and_on_a_free_port():
    assert health_address("localhost:9100") == ("localhost", 9100)
    for address in ("0.0.0.0:9100", "192.168.1.5:9100", "hospital.example.org:9100", "9100", "127.0.0.1"):
        with pytest.raises(ConfigError):
            health_address(address)
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ConfigError, match="another port"):
        HealthServer(f"127.0.0.1:{taken.getsockname()[1]}", lambda: (True, {}), lambda: "")


def test_who_is_asked_to_stop_stops_with_the_code_of_the_signal(tmp_path, monkeypatch):
    numbers = iter([0, 15])
    with looking_on(tmp_path, monkeypatch, asked_to_stop=lambda: next(numbers)) as (watch, _):
        watch.check_stop()
        with pytest.raises(Stopped, match=r"stopped by SIGTERM.*the same command goes on") as stopped:
            watch.check_stop()
        assert stopped.value.exit_code == 143


def test_a_meter_is_told_at_the_delta_of_the_ledger(tmp_path, monkeypatch):
    with looking_on(tmp_path, monkeypatch) as (watch, _):
        assert watch.epsilon({}) == 0.0
        assert watch.epsilon(Cost.gaussian(0.5).describe()) == Cost.gaussian(0.5).epsilon(1e-5)


LOOP = """
import os, sys, time
from sottovoce.deployment.party.stopping import stop_on_signals
with stop_on_signals() as asked:
    print(os.getpid(), flush=True)
    until = time.monotonic() + 30
    while time.monotonic() < until and not (asked() and "heed" in sys.argv):
        time.sleep(0.02)
    print(asked(), flush=True)
"""


@pytest.mark.parametrize("number", [2, 15])
def test_the_first_signal_is_noted_and_the_second_ends_at_once(number):
    def begun(*words):
        process = subprocess.Popen([sys.executable, "-c", LOOP, *words], stdout=subprocess.PIPE, text=True)
        process.stdout.readline()
        return process

    heeds, ignores = begun("heed"), begun()
    heeds.send_signal(number)
    assert heeds.communicate(timeout=20) == (f"{number}\n", None)
    assert heeds.returncode == 0
    ignores.send_signal(number)
    time.sleep(0.3)
    assert ignores.poll() is None
    ignores.send_signal(number)
    assert ignores.wait(timeout=5) == -number
    ignores.stdout.close()
