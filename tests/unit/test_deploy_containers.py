"""deploy/docker and deploy/kubernetes: what can be known of them without an engine or a cluster."""

from __future__ import annotations

import fnmatch
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
DOCKER, KUBERNETES = ROOT / "deploy" / "docker", ROOT / "deploy" / "kubernetes"
DOCKERFILE = (DOCKER / "Dockerfile").read_text(encoding="utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text(encoding="utf-8"))
EXACT = re.compile(r"[\w./-]+:v?\d+\.\d+\.\d+[\w.-]*")


def job() -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The job, its pod and its container."""
    claim, found = yaml.safe_load_all((KUBERNETES / "job.yaml").read_text(encoding="utf-8"))
    assert (claim["kind"], found["kind"]) == ("PersistentVolumeClaim", "Job")
    pod = found["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    return found["spec"], pod, container


def instructions() -> list[tuple[str, str]]:
    """Of the Dockerfile, in order: FROM, what it is of; RUN, its command ..."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE).replace("\\\n", " ")
    return [(line.split()[0], line.partition(" ")[2].strip()) for line in text.splitlines() if line.strip()]


def test_every_image_is_named_by_its_exact_version() -> None:
    (base,) = re.findall(r"^ARG BASE=(.*)$", DOCKERFILE, re.MULTILINE)
    images = [base, *(service["image"] for service in COMPOSE["services"].values()), job()[2]["image"]]

    assert [image for image in images if not EXACT.fullmatch(image)] == []
    assert {of.split()[0] for name, of in instructions() if name == "FROM"} == {"${BASE}"}


def test_what_runs_has_no_compiler_and_is_not_root() -> None:
    lines = instructions()
    last = max(n for n, (name, _) in enumerate(lines) if name == "FROM")
    runtime = lines[last:]

    assert "gcc" in " ".join(of for name, of in lines[:last] if name == "RUN")
    assert "apt-get" not in " ".join(of for _, of in runtime)
    assert [of for name, of in runtime if name == "USER"] == ["10001:10001"]
    assert f"--uid {job()[1]['securityContext']['runAsUser']}" in DOCKERFILE


def test_every_package_is_held_to_a_hash() -> None:
    installs = re.findall(r"pip install (.*?)(?:&&|$)", DOCKERFILE.replace("\\\n", " "), re.MULTILINE)

    assert len(installs) == 3
    assert all("--require-hashes" in line or "--no-index" in line for line in installs)


def test_all_that_the_image_copies_is_there_and_goes_to_the_builder() -> None:
    named = [of.split() for name, of in instructions() if name == "COPY" and "--from" not in of]
    sources = [word for words in named for word in words[:-1] if not word.startswith("--")]
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]

    assert [source for source in sources if not (ROOT / source).exists()] == []
    assert [
        source for source in sources if not any(source == one or source.startswith(f"{one}/") for one in kept)
    ] == []
    assert [one for one in kept if not any(fnmatch.fnmatch(source, f"{one}*") for source in sources)] == []


def test_compose_is_what_its_specification_says() -> None:
    schema = json.loads((ROOT / "tests/schemas/compose-spec.json").read_text(encoding="utf-8"))

    assert [error.message for error in jsonschema.Draft7Validator(schema).iter_errors(COMPOSE)] == []


def test_compose_is_open_to_this_box_only() -> None:
    ports = [port for service in COMPOSE["services"].values() for port in service.get("ports", [])]

    assert ports
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []
    assert not any("network_mode" in service for service in COMPOSE["services"].values())


def test_every_file_that_compose_mounts_is_there() -> None:
    mounts = [mount for service in COMPOSE["services"].values() for mount in service.get("volumes", [])]
    plain = [re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", mount).split(":")[0] for mount in mounts]
    files = [name for name in plain if name.startswith(".")]

    assert files
    assert [name for name in files if not (DOCKER / name).exists()] == []
    assert {name for name in plain if not name.startswith(".")} == set(COMPOSE["volumes"])


def test_prometheus_finds_tuner_where_compose_has_it() -> None:
    prometheus = yaml.safe_load((DOCKER / "prometheus.yml").read_text(encoding="utf-8"))
    own = yaml.safe_load((ROOT / "deploy" / "prometheus" / "tuner.yml").read_text(encoding="utf-8"))
    (target,) = prometheus["scrape_configs"][0]["static_configs"][0]["targets"]
    host, port = target.split(":")

    assert host in COMPOSE["services"]
    assert f"0.0.0.0:{port}" in COMPOSE["services"]["tuner"]["command"]
    assert {**prometheus, "scrape_configs": None} == {**own, "scrape_configs": None}


def test_grafana_is_given_the_dashboard_and_its_source() -> None:
    (source,) = yaml.safe_load((DOCKER / "grafana" / "datasource.yml").read_text())["datasources"]
    (provider,) = yaml.safe_load((DOCKER / "grafana" / "dashboards.yml").read_text())["providers"]
    mounted = {
        mount.split(":")[1]: mount.split(":")[0] for mount in COMPOSE["services"]["grafana"]["volumes"]
    }

    assert source["url"] == "http://prometheus:9090"
    assert (DOCKER / mounted[provider["options"]["path"]] / "tuner.json").is_file()


def test_a_pod_has_whole_cores_for_itself() -> None:
    _, _, container = job()
    resources = container["resources"]

    assert resources["requests"] == resources["limits"]
    assert set(resources["limits"]) == {"cpu", "memory"}
    assert int(resources["limits"]["cpu"]) >= 1


def test_a_pod_may_do_nothing_that_a_study_does_not_need() -> None:
    _, pod, container = job()

    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["automountServiceAccountToken"] is False


def test_a_study_outlives_its_pod_and_is_gone_on_with_on_the_same_node() -> None:
    spec, pod, container = job()
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    mounted = {mount["mountPath"]: volumes[mount["name"]] for mount in container["volumeMounts"]}

    assert "persistentVolumeClaim" in mounted["/study"]
    assert "emptyDir" in mounted["/tmp"]
    assert (pod["restartPolicy"], spec["backoffLimit"] > 0) == ("Never", True)
    assert pod["hostname"]
    assert pod["nodeSelector"]


@pytest.mark.parametrize(
    ("code", "gives_up"), [(1, False), (2, True), (3, True), (6, True), (130, False), (137, False)]
)
def test_what_another_pod_could_not_mend_ends_the_job(code: int, gives_up: bool) -> None:
    rules = job()[0]["podFailurePolicy"]["rules"]
    fail = [rule["onExitCodes"]["values"] for rule in rules if rule["action"] == "FailJob"]

    assert any(code in values for values in fail) is gives_up
