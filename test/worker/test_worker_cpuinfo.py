"""What is said of the processors."""

from pass_bench.worker.cpuinfo import busy_warning


def test_a_busy_machine_is_mentioned_above_twice_its_processors() -> None:
    assert busy_warning(4.0, 2) == ""
    assert "load average 17.3 on 2 processors" in busy_warning(17.3, 2)
