"""Disturbed lives end as the undisturbed one does: the operator is killed at every write, its calls are refused, its
watches break, the API server lags or is away. The families are in scenarios.py.

`make chaos` plays all of them. DTJ_CHAOS_SEEDS=7 plays one seed again, DTJ_CHAOS_SEEDS=100-119 others,
DTJ_CHAOS_ROUNDS=3 a longer life.
"""

import asyncio
from pathlib import Path

import pytest
from dtj_testbed import ApiServer

from tests.chaos.scenarios import FAMILIES, WHOLE, Family, seeds
from tests.chaos.trial import Calm, calm_life, play


@pytest.fixture(scope="session")
def calm(server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Calm:
    return asyncio.run(calm_life(server, tmp_path_factory.mktemp("calm")))


# the whole family by family, or a sample of all side by side
PARTS = {family.__name__: (family,) for family in FAMILIES} if WHOLE else {"sample": tuple(FAMILIES)}


@pytest.mark.parametrize("families", PARTS.values(), ids=PARTS.keys())
async def test_disturbed_lives_end_as_the_undisturbed(
    families: tuple[Family, ...], server: ApiServer, calm: Calm, tmp_path: Path
) -> None:
    scenarios = {
        f"{family.__name__}, {name}": disturbances
        for family in families
        for name, disturbances in family(calm, seeds(family)).items()
    }
    wrong = await play(server, tmp_path, calm, scenarios)
    assert not wrong, wrong
