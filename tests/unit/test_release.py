"""What a release tag publishes: the version it has to name, the notes, and the major tag that follows or stays."""

from __future__ import annotations

import pytest

from scripts import release

CHANGELOG = """# Changelog

## [Unreleased]

## [1.2.0] - 2026-01-02

### Added

- Something.

## [1.1.0] - 2026-01-01

- Older.
"""


def test_a_tag_has_to_be_the_packages_version() -> None:
    """A tag that names another version than the tree states is refused."""
    release.check("v1.2.0", '__version__ = "1.2.0"\n')
    for tag, source in (("v1.2.1", '__version__ = "1.2.0"\n'), ("v1.2.0", "")):
        with pytest.raises(SystemExit, match="make them equal"):
            release.check(tag, source)


@pytest.mark.parametrize("tag", ["1.2.3", "v1.2", "v1.2.3-rc1", "v1.2.3\n", "v1"])
def test_only_full_versions_are_released(tag: str) -> None:
    """A tag of another form is refused, the major tag itself too."""
    with pytest.raises(SystemExit, match="is no release"):
        release.version_of(tag)


def test_the_notes_are_the_changelogs_part() -> None:
    """The release says what the changelog says of that version, and nothing of others."""
    assert release.notes("v1.2.0", CHANGELOG) == "### Added\n\n- Something.\n"
    assert release.notes("v1.1.0", CHANGELOG) == "- Older.\n"


@pytest.mark.parametrize("tag", ["v1.3.0", "v1.2.00", "v1.2"])
def test_a_version_without_notes_is_refused(tag: str) -> None:
    """What the changelog does not describe is not released."""
    with pytest.raises(SystemExit, match="no section"):
        release.notes(tag, CHANGELOG)


def test_the_major_tag_never_goes_back() -> None:
    """It follows the newest release of its line by number, and a later fix of an older line leaves it where it is."""
    assert release.major_tag("v1.10.0", ["v1.9.0", "v1.10.0", "v2.0.0", "v1", "other"]) == "v1"
    assert release.major_tag("v1.9.1", ["v1.9.0", "v1.9.1", "v1.10.0"]) == ""
    assert release.major_tag("v2.0.0", ["v1.9.0", "v2.0.0"]) == "v2"
