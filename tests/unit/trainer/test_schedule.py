"""When a checkpoint is due, by steps and by the clock."""

from dtj_api.spec import CheckpointPolicy
from dtj_trainer.checkpoint.schedule import Schedule


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_steps_alone_never_make_a_save_late() -> None:
    clock = Clock()
    schedule = Schedule(CheckpointPolicy("/c", every_steps=10), clock)
    clock.now += 1e6
    assert not schedule.late()
    assert [step for step in range(1, 31) if schedule.due(step)] == [10, 20, 30]


def test_save_is_late_when_the_last_one_or_the_start_is_that_old() -> None:
    clock = Clock()
    schedule = Schedule(CheckpointPolicy("/c", every_steps=10, every_seconds=60), clock)
    clock.now += 100
    schedule.restart()
    seen = []
    for seconds in (59, 1, 30):
        clock.now += seconds
        seen.append(schedule.late())
    assert seen == [False, True, True]
    schedule.restart()
    clock.now += 59.9
    assert not schedule.late()
    clock.now += 0.1
    assert schedule.late()
    assert schedule.due(20)
