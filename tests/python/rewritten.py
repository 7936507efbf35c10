"""Requests after each change, held against the request types of the `openai` and `anthropic` packages.

Called with the file that `cargo run --example rewritten` prints, and optionally a word that a test's name must
contain. Installs the packages under the temporary folder the first time. Prints as `cargo test` does.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time

PACKAGES = ["openai==3.49.0", "anthropic==2.8.0", "pydantic==2.14.3"]


def provide_packages():
    """Puts the packages into a folder of their own and on the path, installing what is missing."""
    mark = hashlib.sha256(" ".join(PACKAGES + [sys.version]).encode()).hexdigest()[:12]
    home = os.path.join(tempfile.gettempdir(), f"redrive-python-{mark}")
    done = os.path.join(home, "done")
    if not os.path.exists(done):
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade"]
        subprocess.check_call([*pip, "--target", home, *PACKAGES])
        with open(done, "w", encoding="utf-8") as file:
            file.write("\n".join(PACKAGES))
    sys.path.insert(0, home)


def read_whole(value):
    """Pydantic reads an iterable only as far as somebody asks: ask for all of it."""
    if isinstance(value, dict):
        return {key: read_whole(inner) for key, inner in value.items()}
    if isinstance(value, (str, bytes, int, float, bool)) or value is None:
        return value
    return [read_whole(inner) for inner in value]


def adapters():
    from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
    from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
    from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
    from pydantic import TypeAdapter

    return {
        "openai": TypeAdapter(CompletionCreateParamsNonStreaming),
        "responses": TypeAdapter(ResponseCreateParamsNonStreaming),
        "anthropic": TypeAdapter(MessageCreateParamsNonStreaming),
    }


def check(case, adapter):
    read_whole(adapter.validate_python(case["request"]))
    # What fits already is left alone; every other change has to show.
    assert case["differs"] or case["left"] or "compress_context" in case["name"], "nothing was changed"
    if case["left"] and "scale_output_budget" not in case["name"]:
        allowed = ("nothing more can be left out", "the output budget is at its limit")
        assert all(line.endswith(allowed) for line in case["left"]), case["left"]


def main():
    cases = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")]
    wanted = sys.argv[2] if len(sys.argv) > 2 else ""
    named = [(f"{case['name']}".replace(" ", "_").replace(":", ""), case) for case in cases]
    chosen = [(name, case) for name, case in named if wanted in name]
    print("     Running tests/python/rewritten.py (tests/rewritten-py)", flush=True)
    print(f"\nrunning {len(chosen)} tests")
    began, failed = time.monotonic(), []
    by_format = adapters()
    # A type that takes anything proves nothing: each has to refuse a broken request.
    for format, broken in [("openai", {"model": "m", "messages": [{"role": "nobody"}]}),
                           ("responses", {"model": "m", "input": [{"role": "nobody", "content": 1}]}),
                           ("anthropic", {"model": "m", "max_tokens": 1, "messages": [{"role": "nobody", "content": "x"}]})]:
        try:
            read_whole(by_format[format].validate_python(broken))
        except Exception:
            continue
        failed.append((f"{format}_refuses_what_is_broken", "it was taken"))
    for name, case in chosen:
        try:
            check(case, by_format[case["format"]])
            print(f"test {name} ... ok")
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this test's failure
            print(f"test {name} ... FAILED")
            failed.append((name, str(error)))
    for name, why in failed:
        print(f"\n---- {name} ----\n{why[:2000]}")
    if failed:
        print("\nfailures:")
        for name, _ in failed:
            print(f"    {name}")
    word = "FAILED" if failed else "ok"
    took = time.monotonic() - began
    print(f"\ntest result: {word}. {len(chosen) - len(failed)} passed; {len(failed)} failed; 0 ignored; 0 measured; "
          f"{len(cases) - len(chosen)} filtered out; finished in {took:.2f}s")
    return 1 if failed else 0


if __name__ == "__main__":
    provide_packages()
    sys.exit(main())
