"""Whatever dies or fills up, at whatever moment: every row comes out, equal to those of a run without a fault.

`make test` tries one fault at one moment, `make test-cluster` all five at five random moments each (--moments 5), and
tests marked `moments` too.
"""

import random
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from posattn import engine
from posattn.engine import Capacity, LocalEngine

from .driver import STEPS, trials
from .machines import Driver, add_node, cluster, kill_a_worker

pytestmark = pytest.mark.xdist_group("cluster")
NODES = 2


class AsPlanned(LocalEngine):
    """This process with the capacity of two nodes of one CPU, so that fleets are the same."""

    def capacity(self) -> Capacity:
        return Capacity(devices=NODES)


def rows(folder: Path) -> pd.DataFrame:
    """All but time and host."""
    found = engine.frame(folder)
    return found.drop(columns=[name for name in ("seconds", "host") if name in found])


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    out = tmp_path_factory.mktemp("local")
    engine.run(trials(), out=out, reporter=engine.Bar(), engine=AsPlanned(torch.device("cpu")))
    torch.set_num_threads(before)
    return rows(out)


@pytest.fixture(scope="module")
def machines() -> Iterator[Any]:
    with cluster(NODES) as made:
        yield made


def kill_the_driver(driver: Driver, machines: Any, again: Callable[[], Driver]) -> Driver:
    driver.kill()
    return again()


def kill_the_worker(driver: Driver, machines: Any, again: Callable[[], Driver]) -> Driver:
    kill_a_worker(machines)
    driver.wait_for(lambda: "was lost with its worker" in driver.said)
    return driver


def remove_a_node(driver: Driver, machines: Any, again: Callable[[], Driver]) -> Driver:
    machines.remove_node(machines.worker_nodes.copy().pop(), allow_graceful=False)
    driver.wait_for(lambda: "a node has left" in driver.said)
    driver.finish()
    add_node(machines)
    return driver


def add_another(driver: Driver, machines: Any, again: Callable[[], Driver]) -> Driver:
    node = add_node(machines)
    driver.finish()
    machines.remove_node(node, allow_graceful=False)
    return driver


def fill_the_disk(driver: Driver, machines: Any, again: Callable[[], Driver]) -> Driver:
    driver.full.touch()
    driver.wait_for(lambda: "Results wait in memory" in driver.said)
    time.sleep(1)
    driver.full.unlink()
    return driver


FAULTS = {
    "the driver killed": kill_the_driver,
    "a worker killed": kill_the_worker,
    "a node removed": remove_a_node,
    "a node added": add_another,
    "no space for a while": fill_the_disk,
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Moments are shares of all steps, drawn by the seed of --shuffle; the id of a test says which it was."""
    moments: Any = metafunc.config.getoption("--moments")
    if "moment" in metafunc.fixturenames:
        chance = random.Random(metafunc.config.getoption("--shuffle") or 0)
        cases = [(name, chance.uniform(0.02, 0.9)) for name in FAULTS for _ in range(moments)]
        cases = cases or [("a worker killed", 0.4)]
        metafunc.parametrize(("fault", "moment"), cases, ids=[f"{name}-{moment:.3f}" for name, moment in cases])


def test_every_row_comes_out_whatever_happens(
    fault: str, moment: float, machines: Any, expected: pd.DataFrame, tmp_path: Path
) -> None:
    out = tmp_path / "store"
    every = STEPS * len({trial.model for trial in trials()})
    driver = first = Driver(machines.address, out)
    try:
        driver.wait_for(lambda: first.steps() >= moment * every)
        assert driver.process.poll() is None, driver.told()
        before = {path: path.read_bytes() for path in out.glob("*/metrics.json")}
        driver = FAULTS[fault](driver, machines, lambda: Driver(machines.address, out))
        driver.finish()
    finally:
        driver.full.unlink(missing_ok=True)
        driver.kill()
    assert {path: path.read_bytes() for path in before} == before  # what was finished is neither lost nor made again
    pd.testing.assert_frame_equal(rows(out), expected)
    assert not list((out / "checkpoints").glob("*"))


@pytest.mark.moments
def test_the_table_equals_that_of_a_local_run_with_the_same_plan(
    machines: Any, expected: pd.DataFrame, tmp_path: Path
) -> None:
    driver = Driver(machines.address, tmp_path / "store")
    driver.finish()
    driver.kill()
    pd.testing.assert_frame_equal(rows(tmp_path / "store"), expected)
    assert set(engine.frame(tmp_path / "store")["host"]) != {""}
    said = re.search(r"cluster: (\d) nodes, (\d) CPUs, no GPU; 4 fleets waiting to start\.", driver.said)
    assert said is not None, driver.said
    nodes, cores = int(said[1]), int(said[2])
    assert nodes == cores + 1 >= 3  # the head has none; one that another test has just taken away may still be counted
    started = [event["fleet"] for event in driver.events if event["event"] == "start"]
    assert len(started) == 4
    assert all(title.startswith("positional on sum × 2, ") for title in started)  # then the node


@pytest.mark.moments
@pytest.mark.parametrize("what", ["everything", "the head's directory"])
def test_a_run_whose_cluster_ends_says_so_within_seconds_and_goes_on_with_another(what: str, tmp_path: Path) -> None:
    out, steps = tmp_path / "store", 20 * STEPS  # which take longer than it takes to notice
    with cluster(NODES) as made:
        address = made.address
        driver = Driver(address, out, steps=steps)
        driver.wait_for(lambda: any(out.glob("checkpoints/*/*.safetensors")))
        if what == "everything":
            made.shutdown()
        else:
            made.head_node.kill_gcs_server(check_alive=False)
        assert driver.process.wait(30) == 1, driver.told()  # after 7 to 10 s on two quiet cores; Ray itself takes 60 s
        driver.kill()
        last = "".join(driver.errors).strip().rpartition("\n")[2]
        assert last.startswith(f"posattn.errors.PosattnError: the cluster at {address} has ended: ")
        assert "Nothing finished is lost" in last
        assert "run the same command again" in last
    with cluster(NODES) as made:
        driver = Driver(made.address, out, steps=steps)
        driver.wait_for(lambda: "going on from step" in driver.said)
        driver.kill()
        assert "going on from step" in driver.said, driver.told()
