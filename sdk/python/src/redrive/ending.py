"""The reports made of what an attempt leaves behind. Whether it was a success is decided here once, when the attempt ends,
and then checked again by the server's detectors."""

from __future__ import annotations

import base64
from typing import Any

from .encode import Raw, body, cut, dumps, label, output_token, text_of
from .evidence import Evidence, Problem, tool_words
from .report import chain, error_of, response_of

_PARTIAL_MAX_CHARS = 32 * 1024


def start_body(fields: dict[str, Any], start_id: str) -> str:
    return body({"mode": "start", "start_id": start_id, **fields})


def success(evidence: Evidence, steps: list[Raw]) -> tuple[str, str]:
    """A success, unless something that the framework swallowed still stands."""
    problem = evidence.standing()
    if problem is not None:
        return swallowed(evidence, steps, problem)
    told = {
        "output": None if evidence.output is None else output_token(evidence.output),
        "finish_reason": evidence.finish_reason,
        "usage": evidence.usage(),
        "steps": _list(steps),
    }
    return "succeed", body(told)


def swallowed(evidence: Evidence, steps: list[Raw], problem: Problem) -> tuple[str, str]:
    answer = evidence.output
    if answer is not None and evidence.partial is None:
        evidence.partial = answer if isinstance(answer, str) else dumps(answer)
    evidence.tool = evidence.tool or problem.tool
    if problem.error is not None:
        said = {"reason": problem.reason} if problem.reason else {}
        report = error_of(problem.error, **said) | {"message": cut(problem.message, 8192)}
        return _failed(evidence, steps, report, response_of(problem.error))
    error = {"type": "SwallowedError", "message": cut(problem.message, 8192), "reason": problem.reason}
    return _failed(evidence, steps, error)


def failure(evidence: Evidence, steps: list[Raw], error: BaseException | str, **said: Any) -> tuple[str, str]:
    said = {name: value for name, value in said.items() if value is not None}
    if isinstance(error, str):
        return _failed(evidence, steps, {"message": cut(error, 8192), **said})
    if isinstance(error, KeyboardInterrupt):
        said = {"reason": "cancelled", **said}
    report = error_of(error, **said)
    tool = next((p for p in evidence.problems_of_tools() if any(link is p.error for link in chain(error))), None)
    if tool is not None:
        # The same words whether the framework let the tool's exception through or not.
        evidence.tool = tool.tool
        report["message"] = cut(f"{tool_words(tool.tool)}{report['message']}", 8192)
    if isinstance(error, (KeyboardInterrupt, SystemExit)):
        by_hand = isinstance(error, KeyboardInterrupt)
        report["message"] = "interrupted from the keyboard" if by_hand else f"the agent exited: {text_of(error) or 0}"
    return _failed(evidence, steps, report, response_of(error))


def time_limit(evidence: Evidence, steps: list[Raw], words: str) -> tuple[str, str]:
    return _failed(evidence, steps, {"type": "TimeLimit", "message": words, "reason": "timeout"})


def process_ends(evidence: Evidence, steps: list[Raw]) -> tuple[str, str]:
    words = "the process ended while the run was under way"
    return _failed(evidence, steps, {"type": "ProcessExit", "message": words, "reason": "x:process_exit", "category": "transient"})


def told_to_stop(evidence: Evidence, steps: list[Raw]) -> tuple[str, str]:
    words = "the process was told to stop (SIGTERM)"
    return _failed(evidence, steps, {"type": "Terminated", "message": words, "reason": "x:terminated", "category": "transient"})


def _failed(
    evidence: Evidence, steps: list[Raw], error: dict[str, Any], response: dict[str, Any] | None = None
) -> tuple[str, str]:
    told = {
        "error": {name: value for name, value in error.items() if value is not None},
        "response": response,
        "partial_output": None if evidence.partial is None else cut(evidence.partial, _PARTIAL_MAX_CHARS),
        "finish_reason": evidence.finish_reason,
        "usage": evidence.usage(),
        "step": label(evidence.step) if evidence.step else None,
        "tool": label(evidence.tool) if evidence.tool else None,
        "model": evidence.model,
        "steps": _list(steps),
    }
    return "fail", body(told)


def _list(steps: list[Raw]) -> Raw | None:
    return Raw("[" + ",".join(steps) + "]") if steps else None


def from_base64(text: str) -> bytes:
    return base64.b64decode(text)
