"""Runs all tests of the SDK, each file in a process of its own with the packages that it needs, and prints as `cargo test`
does. A word on the command line picks the tests whose name contains it.

Packages come from PyPI into `target/sdk-python`, one folder for each set, once."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from postgres import private_postgres

HERE = Path(__file__).resolve().parent
HOME = HERE.parents[2] / "target" / "sdk-python"

#: The frameworks can't share one folder: their requirements exclude each other.
LANGCHAIN = ("langchain==1.4.7", "langchain-openai")
FILES: list[tuple[str, tuple[str, ...]]] = [
    ("test_run.py", ()),
    ("test_effects.py", ()),
    ("test_worker.py", ()),
    ("test_spool.py", ()),
    ("test_late.py", ()),
    ("test_scenarios.py", ()),
    ("test_guard.py", ()),
    ("test_keys.py", ()),
    ("test_threads.py", ()),
    ("test_lazy.py", ()),
    ("test_wire.py", ()),
    ("test_causes.py", ()),
    ("test_ends.py", ()),
    ("test_values.py", ("numpy", "pandas")),
    ("test_hostile.py", ()),
    ("test_schedules.py", ()),
    ("test_package.py", ("mypy", "setuptools>=77", "wheel")),
    ("test_langchain.py", LANGCHAIN),
    ("test_langgraph.py", LANGCHAIN),
    ("test_openai_agents.py", ("openai-agents==0.24.0",)),
    ("test_autogen.py", ("autogen-agentchat==0.7.5", "autogen-ext[openai]==0.7.5")),
    ("test_crewai.py", ("crewai==1.15.30",)),
]


#: What is tried on every supported Python that is found.
EVERYWHERE = (
    "test_guard.py", "test_keys.py", "test_threads.py", "test_lazy.py", "test_ends.py", "test_causes.py", "test_wire.py",
    "test_values.py", "test_effects.py", "test_hostile.py",
)  # fmt: skip
#: What is tried with the server's other store as well.
ON_POSTGRES = ("test_run.py", "test_effects.py")
SUPPORTED = (10, 11, 12, 13, 14)


def others() -> dict[int, str]:
    """The supported Pythons beside this one, by their minor version."""
    found: dict[int, str] = {}
    for minor in SUPPORTED:
        kept = sorted((Path.home() / ".pyenv" / "versions").glob(f"3.{minor}.*/bin/python3"))
        for path in (shutil.which(f"python3.{minor}"), *map(str, kept)):
            # A name on the path may be a shim without a Python behind it.
            if path and minor != sys.version_info.minor and minor not in found:
                asked = subprocess.run([path, "-c", "import sys; print(sys.version_info.minor)"], capture_output=True, text=True)
                if asked.stdout.strip() == str(minor):
                    found[minor] = path
    return found


_installing: defaultdict[tuple[str, ...], threading.Lock] = defaultdict(threading.Lock)


def provide(packages: tuple[str, ...]) -> Path | None:
    """A folder with the packages, installed if it is not there yet."""
    if not packages:
        return None
    with _installing[packages]:
        return _provided(packages)


def _provided(packages: tuple[str, ...]) -> Path:
    mark = hashlib.sha256(" ".join((*packages, sys.version)).encode()).hexdigest()[:12]
    folder = HOME / mark
    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
        pip += ["--root-user-action", "ignore"]
        subprocess.check_call([*pip, "--target", str(folder), *packages])
        (folder / "done").write_text("\n".join(packages))
    return folder


def run(file: str, packages: tuple[str, ...], wanted: list[str], python: str = sys.executable, **more: str) -> tuple[int, str]:
    folder = provide(packages)
    # What configures a developer's own server must not colour the tests.
    theirs = {name: value for name, value in os.environ.items() if not name.startswith("REDRIVE_") or name == "REDRIVE_BIN"}
    environment = {**theirs, "PYTHONUNBUFFERED": "1", **more}
    environment["PYTHONPATH"] = str(folder) if folder else ""
    done = subprocess.run(
        [python, str(HERE / file), *wanted],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    return done.returncode, done.stdout


def main() -> int:
    wanted = sys.argv[1:2]
    HOME.mkdir(parents=True, exist_ok=True)
    # The longest first: an outage in which nothing is computed, and the largest of the frameworks to install.
    order = sorted(FILES, key=lambda entry: entry[0] not in ("test_spool.py", "test_crewai.py", "test_schedules.py"))
    pythons = others()
    missing = [f"3.{minor}" for minor in SUPPORTED if minor not in pythons and minor != sys.version_info.minor]
    beside = ", ".join(f"3.{minor}" for minor in pythons) or "none"
    print(f"Python 3.{sys.version_info.minor}; beside it {beside}; not found: {', '.join(missing) or 'none'}", flush=True)
    with private_postgres() as postgres, ThreadPoolExecutor(2) as pool:
        running = [pool.submit(run, file, packages, wanted) for file, packages in order]
        running += [pool.submit(run, file, (), wanted, python) for python in pythons.values() for file in EVERYWHERE]
        if postgres is None:
            print("PostgreSQL is not installed: all of it runs with SQLite only", flush=True)
        else:
            running += [pool.submit(run, file, (), wanted, SDK_TEST_POSTGRES=postgres) for file in ON_POSTGRES]
        worst = 0
        for each in running:
            code, said = each.result()
            print(said, end="", flush=True)
            worst = max(worst, code)
    return worst


if __name__ == "__main__":
    sys.exit(main())
