"""Kernels of kernels_under_test.py, compiled in this process for any instruction set that the machine has."""

import pytest
from in_process import HERE, Compiler

from chenxing.kernels.isa import ISA


@pytest.fixture(scope="session")
def compiler() -> Compiler:
    return Compiler()


@pytest.fixture(params=HERE, ids=lambda isa: isa.name)
def isa(request: pytest.FixtureRequest) -> ISA:
    """Every instruction set of this machine in turn."""
    return request.param
