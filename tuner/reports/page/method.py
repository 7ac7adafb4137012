"""Section of the HTML page on environment and method, with what is needed to repeat the study."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from tuner.core.domain.limits import limits_from
from tuner.core.domain.records import StudyRecord, is_simulated
from tuner.core.domain.safety_limits import render_limit
from tuner.core.ranking.overview import Overview
from tuner.core.text.figures import format_kept_size, percent, pluralize, render_duration
from tuner.core.windows.validity import most_foreign_cores
from tuner.reports.documents.plain import file_word, shell_line
from tuner.reports.page.blocks import Block, CodeText, Facts, Section, Text

#: names for facts about the host; other facts keep their own names
_WORDS = {
    "host": "host",
    "os": "operating system",
    "kernel": "kernel",
    "cpu": "CPU",
    "cpu_frequency": "CPU clock",
    "physical_cores": "physical cores",
    "threads_per_core": "threads per core",
    "cpus": "CPUs",
    "host_cpus": "CPUs of the host",
    "cpus_elsewhere": "CPUs for other processes alone",
    "physical_cores_of_cpus": "physical cores of these CPUs",
    "physical_cores_of_workers": "physical cores of the workers' CPUs",
    "cores": "cores of the host",
    "cores_why": "reason for this number of cores",
    "load_of": "load average of",
    "strangers": "other processes",
    "launch_cgroup": "cgroup of each launch",
    "memory": "memory",
    "swap": "swap",
    "virtualization": "virtualization",
    "steal_since_boot": "CPU time stolen since boot",
    "governor": "governor",
    "clock_source": "clock source",
    "tuner": "tuner",
    "python": "Python of tuner",
    "worker_python": "Python of the workers",
    "worker_gil": "GIL of the workers' interpreter",
    "worker_gil_seen": "GIL of the workers, as they ran",
    "worker_gil_module": "module that switched the GIL on",
    "supervisor": "supervisor",
    "git_revision": "revision",
    "user": "user",
}

#: settings that a config must not contain, because they belong to another strategy
_OF_OTHER_STRATEGY = {"all": ("within", "kind", "min_window"), "race": ("repeats", "windows_per_launch")}


def method_section(overview: Overview) -> Section:
    """Return the last section of the page."""
    study = overview.study
    blocks: list[Block] = [
        Text(["Settings of the study:"]),
        Facts(_requested_facts(study)),
        Text(["Host and software:"]),
        Facts(_environment(study)),
    ]
    config = repeatable(study)
    if config is not None:
        command = study.provenance.command
        simulated = " --simulate PROFILE" if is_simulated(study) else ""
        blocks.append(
            CodeText(
                "To repeat the study, save the config below as study.yaml and run",
                f"{command} study.yaml{simulated}",
            )
        )
        if "<hidden>" in config:
            blocks.append(Text(["The study stores no secrets: replace <hidden> by yours."], "note"))
        blocks.append(CodeText("study.yaml", config, is_folded=True))
    again = (["tuner", command, file_word(overview.name)] for command in ("rank", "explain"))
    blocks.append(CodeText("The same figures from the study file", "\n".join(map(shell_line, again))))
    return Section("method", "Environment and method", blocks)


def repeatable(study: StudyRecord) -> str | None:
    """Return a config for the same study as YAML without secrets; None: the file does not contain one."""
    import yaml

    try:
        kept = study.config.copy_sections()
    except ValueError:
        return None
    if not kept:
        return None
    kept.pop("simulate", None)
    asked = dict(kept.get("study") or {})
    asked.update(cores=study.cores, layouts=[str(layout) for layout in study.layouts], seed=study.seed)
    asked["window"] = render_duration(study.window_s)
    for other in ("grid", "variants", "max_connections"):  # the layouts were made from these
        asked.pop(other, None)
    if study.strategy in _OF_OTHER_STRATEGY:
        asked["strategy"] = study.strategy
        for other in _OF_OTHER_STRATEGY[study.strategy]:
            asked.pop(other, None)
    if study.strategy == "all":
        asked.update(repeats=study.n_blocks, windows_per_launch=study.windows_per_launch)
    text: str = yaml.safe_dump(
        _without_empty({**kept, "study": asked}), sort_keys=False, allow_unicode=True, width=100
    )
    return text


def _without_empty(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            key: _without_empty(entry)
            for key, entry in value.items()
            if entry is not None and entry not in ([], {})
        }
    return value


def _requested_facts(study: StudyRecord) -> list[tuple[str, str]]:
    shortest, longest = render_duration(study.shortest_window_s), render_duration(study.window_s)
    began = datetime.fromtimestamp(study.created_wall_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    cap = render_duration(study.warmup_cap_s)
    warmup = (
        f"found for each launch, {cap} at most" if study.warmup_s is None else render_duration(study.warmup_s)
    )
    orders = {
        "race": "a race: layouts that may be best are launched again, in random order",
        "all": f"every layout once per block, in random order, {pluralize(study.n_blocks, 'block')}",
    }
    found = [
        ("service", study.service),
        ("started", began),
        ("layouts", ", ".join(map(str, study.layouts))),
        ("cores", f"layouts for {study.cores}; the host offered {study.box_cores:g}"),
        ("order", orders.get(study.strategy, study.strategy)),
        ("seed of the launch order", str(study.seed)),
        ("windows", longest if shortest == longest else f"{shortest} to {longest}"),
        ("windows per launch", str(study.windows_per_launch)),
        ("warm-up", warmup),
        ("first launch", "discarded, to warm the page cache" if study.warms_cache else "used"),
        ("attempts at most for an invalid window", str(study.max_attempts)),
        ("required answer", _requested_answer(study)),
        ("objective", study.objective),
    ]
    if study.limits:
        found.append(("limits", ", ".join(render_limit(limit) for limit in limits_from(study.limits))))
    if study.budget_s is not None:
        found.append(("budget", render_duration(study.budget_s)))
    if study.foreign_limit_cores is not None:
        most_cores = most_foreign_cores(study)
        found.append(("CPU of other processes that invalidates a window", f"{most_cores:g} cores"))
    if command := _command(study):
        found.append(("command", command))
    return found


def _requested_answer(study: StudyRecord) -> str:
    if study.strategy != "race":
        return f"at {percent(study.confidence)}"
    return f"within {percent(study.within_ratio)} of the best, {percent(study.confidence)}, {study.kind}"


def _command(study: StudyRecord) -> str:
    """Return the service's command, stored without secrets."""
    try:
        command = study.config.service.section["command"]
    except (ValueError, KeyError, TypeError):
        return ""
    import shlex

    return shlex.join(map(str, command)) if isinstance(command, list) else str(command)


def _words_of(fact: str) -> str:
    """Return the words of a fact of one variant's workers: ``worker_python@3.13``."""
    name, _, variant = fact.partition("@")
    words = _WORDS.get(name, name.replace("_", " "))
    return f"{words}, {variant}" if variant else words


def _environment(study: StudyRecord) -> list[tuple[str, str]]:
    shown = replace(
        study.provenance, simulated=None, study_typed=None, config_file=None, inner_threads={}
    ).to_mapping()
    known = [(words, format_kept_size(shown[name])) for name, words in _WORDS.items() if name in shown]
    others = [(_words_of(name), text) for name, text in shown.items() if name not in _WORDS]
    return [*known, *others] or [("host", "not in the study file")]
