"""The package itself: its types hold, and its wheel builds, installs into a fresh environment and passes the scenarios."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
import venv
import zipfile
from pathlib import Path

from live import HERE
from suite import main

PACKAGE = HERE.parent


def said(command: list[str], **more: str) -> str:
    done = subprocess.run(
        command, cwd=PACKAGE, env={**os.environ, **more}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        raise AssertionError(f"{' '.join(command)}:\n{done.stdout}")
    return done.stdout


class Package(unittest.TestCase):
    def test_the_types_hold_under_the_strictest_rules(self) -> None:
        with tempfile.TemporaryDirectory() as cache:
            self.assertIn("Success", said([sys.executable, "-m", "mypy", "--strict", "--cache-dir", cache]))

    def test_nothing_but_the_standard_library_is_imported(self) -> None:
        known = set(sys.stdlib_module_names) | {"redrive"}
        text = "import sys; before = set(sys.modules); import redrive; print(*{m.partition('.')[0] for m in set(sys.modules) - before})"
        found = set(said([sys.executable, "-c", text], PYTHONPATH=str(PACKAGE / "src")).split())
        self.assertLessEqual(found, known)
        self.assertIn("redrive", found)

    def test_the_installed_wheel_passes_the_scenarios(self) -> None:
        with tempfile.TemporaryDirectory(prefix="redrive-wheel-") as folder:
            pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
            build = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder]
            # Built from a copy: the tree stays as it is.
            copy = Path(folder) / "source"
            subprocess.check_call(["cp", "-r", str(PACKAGE), str(copy)])
            said([*pip, *build, str(copy)])
            [wheel] = Path(folder).glob("redrive-*.whl")
            names = zipfile.ZipFile(wheel).namelist()
            for name in ("redrive/py.typed", "redrive/frameworks/langchain.py", "redrive/worker.py"):
                self.assertIn(name, names)
            # Without a pip of its own: not every Python comes with one to put there.
            venv.create(Path(folder) / "venv", with_pip=False)
            python = str(Path(folder) / "venv" / "bin" / "python")
            said([*pip, "--python", python, "install", "--no-index", str(wheel)], PYTHONPATH="")
            where = said([python, "-c", "import redrive; print(redrive.__file__)"], PYTHONPATH="")
            self.assertIn("site-packages", where)
            played = said([python, str(HERE / "test_scenarios.py")], PYTHONPATH="", REDRIVE_INSTALLED="1")
            self.assertIn("11 passed; 0 failed", played)


if __name__ == "__main__":
    main(__file__)
