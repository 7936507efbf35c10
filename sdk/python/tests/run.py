"""Runs all tests of the SDK, each file in a process of its own with the packages that it needs, and prints as `cargo test`
does. A word on the command line picks the tests whose name contains it.

Packages come from PyPI into `target/sdk-python`, one folder for each set, once."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
HOME = HERE.parents[2] / "target" / "sdk-python"

#: The frameworks can't share one folder: their requirements exclude each other.
LANGCHAIN = ("langchain==1.4.7", "langchain-openai")
FILES: list[tuple[str, tuple[str, ...]]] = [
    ("test_run.py", ()),
    ("test_effects.py", ()),
    ("test_worker.py", ()),
    ("test_spool.py", ()),
    ("test_scenarios.py", ()),
    ("test_package.py", ("mypy==1.19.1", "setuptools>=77", "wheel")),
    ("test_langchain.py", LANGCHAIN),
    ("test_langgraph.py", LANGCHAIN),
    ("test_openai_agents.py", ("openai-agents==0.24.0",)),
    ("test_autogen.py", ("autogen-agentchat==0.7.5", "autogen-ext[openai]==0.7.5")),
    ("test_crewai.py", ("crewai==1.15.30",)),
]


def provide(packages: tuple[str, ...]) -> Path | None:
    """A folder with the packages, installed if it is not there yet."""
    if not packages:
        return None
    mark = hashlib.sha256(" ".join((*packages, sys.version)).encode()).hexdigest()[:12]
    folder = HOME / mark
    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
        subprocess.check_call([*pip, "--target", str(folder), *packages])
        (folder / "done").write_text("\n".join(packages))
    return folder


def run(file: str, folder: Path | None, wanted: list[str]) -> tuple[int, str]:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    environment["PYTHONPATH"] = str(folder) if folder else ""
    done = subprocess.run(
        [sys.executable, str(HERE / file), *wanted],
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
    # The longest wait of all is an outage, in which nothing is computed: the others run beside it.
    order = sorted(FILES, key=lambda entry: entry[0] != "test_spool.py")
    folders = {packages: provide(packages) for packages in dict.fromkeys(packages for _, packages in FILES)}
    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(run, file, folders[packages], wanted) for file, packages in order]
        worst = 0
        for each in running:
            code, said = each.result()
            print(said, end="", flush=True)
            worst = max(worst, code)
    return worst


if __name__ == "__main__":
    sys.exit(main())
