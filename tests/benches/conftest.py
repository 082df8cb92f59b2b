"""The modules of benches/ can be imported here; its scripts have no ending and are loaded by `script`."""

import importlib.machinery
import importlib.util
import sys

import pytest

from server.process import ROOT

BENCHES = ROOT / "benches"
sys.path.insert(0, str(BENCHES))


@pytest.fixture(scope="session")
def script():
    """Loads a script of benches/ without running it: `script("peers")`."""

    def load(name: str):
        import harness

        loader = importlib.machinery.SourceFileLoader(f"benches_{name}", str(BENCHES / name))
        module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
        body_runner, harness.main = harness.main, lambda body: None
        try:
            loader.exec_module(module)
        finally:
            harness.main = body_runner
        return module

    return load
