"""Settings of hypothesis: the same examples in every run, unless more are asked for."""

import importlib.util
import os

import pytest

# Without hypothesis (extra: dev) the modules of this folder are not collected, and the run says why.
collect_ignore_glob = [] if importlib.util.find_spec("hypothesis") else ["test_properties*.py"]

if importlib.util.find_spec("hypothesis"):
    from hypothesis import HealthCheck, Phase, settings

    examples = int(os.environ.get("DMLRANK_EXAMPLES", "6"))
    settings.register_profile(
        "dmlrank",
        max_examples=examples,
        # More examples than usual are other examples in every run.
        derandomize="DMLRANK_EXAMPLES" not in os.environ,
        database=None,
        deadline=None,
        # A failing example is looked for in minutes, and made smaller only where more examples are tried.
        phases=[Phase.explicit, Phase.generate, *([Phase.shrink] if "DMLRANK_EXAMPLES" in os.environ else [])],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.function_scoped_fixture],
    )
    settings.load_profile("dmlrank")


def pytest_collection_modifyitems(items):
    """Skip this folder, unless it is asked for: it takes a minute, and .ci/run has a step for it."""
    for item in items:
        if "tests/properties" in str(item.path).replace("\\", "/") and not _is_asked_for(item.config):
            item.add_marker(pytest.mark.skip(reason="takes a minute; python -m pytest -n 2 tests/properties"))


def _is_asked_for(config):
    """Whether the folder, or a file in it, was named to pytest."""
    return any("properties" in argument for argument in config.invocation_params.args if isinstance(argument, str))
