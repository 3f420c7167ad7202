"""What may be released: the check of tags, and the metadata of the package."""

import pathlib
import re
import runpy

import pytest

import dmlrank as dr

ROOT = pathlib.Path(__file__).parents[1]
CHANGELOG = "# Changelog\n\n## 0.2.0 (2027-01-31)\n\n### Added\n\n- A thing.\n\n## 0.1.0 (2026-12-01)\n\n"


@pytest.fixture
def problems():
    path = ROOT / ".ci" / "check_release.py"
    if not path.exists():
        pytest.skip("the tests run outside a checkout, without .ci/")
    return runpy.run_path(str(path))["problems"]


def test_a_tag_that_is_the_version_with_a_dated_section_may_be_released(problems):
    assert problems("v0.2.0", "0.2.0", CHANGELOG) == []


@pytest.mark.parametrize(
    ("tag", "version", "changelog", "expected"),
    [
        ("v0.3.0", "0.2.0", CHANGELOG, "the tag must be v0.2.0"),
        ("v0.2.0.dev0", "0.2.0.dev0", CHANGELOG, "a version under development"),
        ("v0.3.0", "0.3.0", CHANGELOG, "no section '## 0.3.0 (YYYY-MM-DD)'"),
        ("v0.2.0", "0.2.0", CHANGELOG.replace(" (2027-01-31)", ""), "no section '## 0.2.0 (YYYY-MM-DD)'"),
        ("v0.1.0", "0.1.0", CHANGELOG, "The section of 0.1.0 in CHANGELOG.md is empty"),
    ],
)
def test_what_stands_against_a_release_is_said(problems, tag, version, changelog, expected):
    assert any(expected in sentence for sentence in problems(tag, version, changelog))


def test_the_version_follows_the_rules_of_packaging():
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+|rc\d+)?", dr.__version__)


def test_actions_of_workflows_are_pinned_to_commits():
    """A tag of an action can be moved; a commit cannot."""
    workflows = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    if not workflows:
        pytest.skip("the tests run outside a checkout, without .github/")
    for path in workflows:
        for action in re.findall(r"uses: (\S+)", path.read_text(encoding="utf-8")):
            assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", action), f"{path.name}: {action}"
