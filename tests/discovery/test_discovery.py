"""Sources are joined into one set; one that fails keeps what it knew, says so once and is asked again."""

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from covey.kernel.errors import MisuseError
from covey.net.discovery.discovery import Discovery
from covey.net.discovery.source import DEFAULTS, DiscoveryOptions
from tests.discovery.loops import QuickLoop

DOWN = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
Found = list[tuple[float, list[str]]]


def run_for(
    seconds: float,
    wheres: Sequence[str],
    resolve: Callable[[str, int], Any] | None = None,
    options: DiscoveryOptions = DEFAULTS,
) -> tuple[Discovery, Found]:
    """Run discovery at 10.0.0.1:7400 for so long; return it, and when it found what."""
    discovery = Discovery(wheres, "a", "10.0.0.1:7400", options)
    found: Found = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        task = loop.create_task(discovery.run(lambda known: found.append((loop.time(), sorted(known)))))
        await asyncio.wait([task], timeout=seconds)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asyncio.all_tasks() == {asyncio.current_task()}

    with asyncio.Runner(loop_factory=lambda: QuickLoop(resolve)) as runner:
        runner.run(main())
    return discovery, found


def in_turn(*answers: Any) -> Callable[[str, int], Any]:
    """Answer the first question with the first, and so on; with the last ever after."""
    rest = list(answers)
    return lambda host, port: rest.pop(0) if len(rest) > 1 else rest[0]


def test_static_addresses_are_found_at_once_and_do_not_change() -> None:
    _, found = run_for(3600, ["10.0.0.2:7400", "[::1]:7400"])
    assert found == [(0, ["10.0.0.2:7400"]), (0, ["10.0.0.2:7400", "[::1]:7400"])]


def test_this_process_is_not_among_the_others() -> None:
    discovery, found = run_for(60, ["10.0.0.1:7400", "10.0.0.1:7401", "db:7400"], in_turn(["10.0.0.1", "10.0.0.2"]))
    assert found[-1] == (0, ["10.0.0.1:7401", "10.0.0.2:7400"])
    assert discovery.found == {"10.0.0.1:7401", "10.0.0.2:7400"}


def test_a_name_is_all_of_its_addresses_and_is_resolved_again() -> None:
    resolve = in_turn(["10.0.0.2", "10.0.0.3", "::1", "::1"], ["10.0.0.3", "10.0.0.2", "::1"], ["10.0.0.4"])
    _, found = run_for(100, ["db:7400"], resolve)
    assert found == [(0, ["10.0.0.2:7400", "10.0.0.3:7400", "[::1]:7400"]), (60, ["10.0.0.4:7400"])]


def test_what_two_sources_know_stays_when_one_forgets_it() -> None:
    answers = {"a": in_turn(["10.0.0.2", "10.0.0.3"], ["10.0.0.4"]), "b": in_turn(["10.0.0.2"])}
    _, found = run_for(100, ["a:1", "b:1", "10.0.0.3:1"], lambda host, port: answers[host](host, port))
    assert found[-1] == (30, ["10.0.0.2:1", "10.0.0.3:1", "10.0.0.4:1"])


@pytest.mark.parametrize(
    "trouble", [DOWN, OSError("no route"), TimeoutError("slow"), [], ["0.0.0.0"], ["239.1.2.3"], ["nonsense"]]
)
def test_a_name_that_fails_keeps_what_it_knew(trouble: Any) -> None:
    discovery, found = run_for(200, ["db:1", "10.0.0.9:1"], in_turn(["10.0.0.2"], trouble, trouble, ["10.0.0.3"]))
    assert [known for _, known in found if "10.0.0.9:1" in known] == [
        ["10.0.0.2:1", "10.0.0.9:1"],
        ["10.0.0.3:1", "10.0.0.9:1"],
    ]
    assert discovery.failures == {"db:1": 2}


def test_a_failure_is_said_once_until_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    run_for(200, ["db:1"], in_turn(["10.0.0.2"], DOWN, DOWN, DOWN, ["10.0.0.2"], DOWN))
    said = [(record.levelname, getattr(record, "kept", None)) for record in caplog.records]
    assert said == [("WARNING", ["10.0.0.2:1"]), ("INFO", None), ("WARNING", ["10.0.0.2:1"])]
    assert "Temporary failure" in caplog.records[0].error  # type: ignore[attr-defined]
    assert {record.where for record in caplog.records} == {"db:1"}  # type: ignore[attr-defined]


def test_a_failing_source_is_asked_ever_more_seldom_up_to_a_bound_and_afresh_after_a_success() -> None:
    asked: list[float] = []
    answers = in_turn(*[DOWN] * 8, ["10.0.0.2"], DOWN, ["10.0.0.3"])

    def resolve(host: str, port: int) -> Any:
        asked.append(asyncio.get_running_loop().time())
        return answers(host, port)

    options = DiscoveryOptions(retry_first_s=1, retry_max_s=20, resolve_every_s=30)
    run_for(155, ["db:1"], resolve, options)
    assert asked == [0, 1, 3, 7, 15, 31, 51, 71, 91, 121, 122, 152]


def test_a_source_that_does_not_answer_is_a_failure_at_once_and_its_answer_is_taken_when_it_comes() -> None:
    async def slowly() -> list[str]:
        await asyncio.sleep(20)
        return ["10.0.0.2"]

    discovery, found = run_for(25, ["db:1", "10.0.0.9:1"], lambda host, port: slowly())
    assert found == [(0, ["10.0.0.9:1"]), (20, ["10.0.0.2:1", "10.0.0.9:1"])]
    assert discovery.failures == {"db:1": 1}


def test_a_name_that_never_answers_does_not_hold_up_a_cancellation() -> None:
    discovery, found = run_for(25, ["db:1"], lambda host, port: asyncio.sleep(1e9, []))
    assert (found, discovery.failures) == ([], {"db:1": 1})


def test_so_many_addresses_of_a_name_are_believed() -> None:
    many = [f"10.1.{n // 256}.{n % 256}" for n in range(1000)]
    discovery, found = run_for(1, ["db:1"], in_turn(many), DiscoveryOptions(addresses_max=10))
    assert len(found[0][1]) == 10
    assert discovery.drops == {"name: too many addresses": 990}


def test_an_application_that_fails_is_not_kept_quiet() -> None:
    def fail(_: object) -> None:
        raise RuntimeError("a bug of the application")

    with asyncio.Runner(loop_factory=QuickLoop) as runner, pytest.raises(ExceptionGroup) as caught:
        runner.run(Discovery(["10.0.0.2:1", "10.0.0.3:1"], "a", "10.0.0.1:1").run(fail))
    assert caught.value.subgroup(RuntimeError)


@pytest.mark.parametrize(
    ("wheres", "name", "address", "complaint"),
    [
        (["nowhere"], "a", "10.0.0.1:1", "no host and port"),
        ([], "", "10.0.0.1:1", "process name"),
        ([], "a", "0.0.0.0:1", "at which others reach it"),
        ([], "a", "10.0.0.1:0", "not a port"),
        ([], "a", "localhost:1", "no IP address"),
    ],
)
def test_what_cannot_be_is_refused_before_it_runs(wheres: list[str], name: str, address: str, complaint: str) -> None:
    with pytest.raises(MisuseError, match=complaint):
        Discovery(wheres, name, address)


@pytest.mark.parametrize(
    "options", [{"look_every_s": 0}, {"addresses_max": -1}, {"retry_first_s": 2, "retry_max_s": 1}]
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(MisuseError):
        DiscoveryOptions(**options)


def test_discovery_says_nothing_unless_asked(capfd: pytest.CaptureFixture[str]) -> None:
    logging.getLogger().handlers, kept = [], logging.getLogger().handlers
    try:
        run_for(60, ["db:1"], in_turn(DOWN))
    finally:
        logging.getLogger().handlers = kept
    assert capfd.readouterr() == ("", "")
