"""One server over a toy model for all tests of a file."""

from collections.abc import Iterator

import pytest
from running import Running, running, toy_settings


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    yield from running(toy_settings(tmp_path_factory.mktemp("toy")))
