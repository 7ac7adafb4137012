"""Compose files: the command of each service (compose-spec, 05-services.md, 12-interpolation.md)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tuner.config.document import Document, FileKind, Place, parse_document, with_home
from tuner.config.start_files.dockerfile import Image, Words, read_images, started_by
from tuner.config.start_files.dotenv import interpolate, name_after, parse_dotenv, read_text
from tuner.config.start_files.started import Source, Started, Variables
from tuner.core.errors import ConfigError
from tuner.core.text.command_words import split_command

_KIND = FileKind("compose file", "docs/from-files.md")
#: keys that change measurements, but are left out
_LEFT_OUT = (
    *(
        "user",
        "cpus",
        "cpuset",
        "mem_limit",
        "memswap_limit",
        "ulimits",
        "shm_size",
        "sysctls",
        "tmpfs",
        "secrets",
    ),
    *("configs", "privileged", "cap_add", "gpus", "runtime", "stop_signal", "stop_grace_period"),
)
_PORT = re.compile(r"(?:(?:(?P<ip>[^:]+|\[.*\]):)?(?P<published>\d*):)?(?P<target>\d+)(?:/(?:tcp|udp))?")


def read_compose(source: Source, environment: Mapping[str, str]) -> list[Started]:
    """Return the processes of a compose file; variables come from tuner's environment and from ``.env``.

    Raises:
        ConfigError: the file is not YAML, or not a compose file; with the place of the error.
    """
    document = parse_document(source.text, source.name, _KIND)
    services = document.values.get("services")
    if not isinstance(services, Mapping):
        raise _no_services(document)
    outside = dict(environment)
    of_project: dict[str, str] = {}
    dotenv = source.folder / ".env"
    if dotenv.is_file():
        name = str(source.path.parent / ".env")
        found = parse_dotenv(read_text(dotenv, name), name, Variables({}, outside))
        of_project = {key: value for key, value in found.items() if key not in outside}
    hosts = {}
    for name, section in services.items():
        if not isinstance(section, Mapping):
            where = document.where(("services", name))
            raise ConfigError(
                f"{where}: services.{name}: should be a mapping", hint="Indent its keys below it."
            )
        hosts[name] = _published_ports(section, Variables(dict(of_project), outside))
    started = []
    for name in services:
        reader = _Service(source, document, name, Variables(dict(of_project), outside))
        try:
            one = reader.started()
        except ConfigError as error:
            at = document.where(("services", name), key=True)
            one = Started(name, at, folder=source.folder, error=error)
        if one is not None:
            started.append(replace(one, hosts={other: hosts[other] for other in hosts if other != name}))
    return started


def _no_services(document: Document) -> ConfigError:
    if "service" in document.values:
        return ConfigError(
            f"{document.where(('service',), key=True)}: this is a config of tuner already",
            hint=f"Measure with: tuner grid {document.name}",
        )
    if "kind" in document.values and "apiVersion" in document.values:
        return ConfigError(
            f"{document.where(('kind',))}: this is a manifest of Kubernetes",
            hint="Name its container's command: tuner init -- COMMAND",
        )
    return ConfigError(
        f"{document.where(())}: there is no mapping 'services:', as compose files have it",
        hint="--from reads a Procfile, a compose file, a unit, a config of supervisord, or a Dockerfile.",
    )


def _published_ports(section: Mapping[str, Any], variables: Variables) -> dict[int, int]:
    """Return the ports of a container -> their published ports on this host."""
    found: dict[int, int] = {}
    ports = section.get("ports")
    for port in ports if isinstance(ports, list) else []:
        if isinstance(port, Mapping):
            target, published = str(port.get("target", "")), str(port.get("published", ""))
        else:
            try:
                text = interpolate(str(port), variables, lambda _: "")
            except ConfigError:
                continue
            match = _PORT.fullmatch(text)
            target, published = (match["target"], match["published"] or "") if match is not None else ("", "")
        if target.isdecimal() and published.isdecimal():
            found[int(target)] = int(published)
    return found


@dataclass(slots=True)
class _Service:
    """One service of a compose file."""

    source: Source
    document: Document
    name: str
    variables: Variables  #: of the file: the container's own are not among them

    def started(self) -> Started | None:
        """Return the process of this service, or None if only its image, which tuner cannot read, has it."""
        section = self._extended_section(self.name, ())
        notes: list[str] = []
        image, context = self._image(section)
        base = image or Image(self.name)
        entrypoint = self._command(section, "entrypoint")
        command = self._command(section, "command")
        if entrypoint is not None:
            base = replace(base, entrypoint=entrypoint if entrypoint.words else None, command=None)
        if command is not None:
            base = replace(base, command=command if command.words else None)
        if base.entrypoint is None and base.command is None and base.error is None:
            return None
        own = {**self._of_files(section, notes), **self._environment(section)}
        one = started_by(base, self.source, self.variables.outside, name=self.name, own=own)
        working_dir = self._text(section, "working_dir")
        mounts = self._mounts(section)
        if context is not None and base.directory is not None:
            mounts.setdefault(base.directory, context)
        depends = section.get("depends_on")
        if depends:
            names = [depends] if isinstance(depends, str) else depends
            notes.append(f"start its dependencies yourself: {', '.join(map(str, names))}")
        left_out = [key for key in _LEFT_OUT if section.get(key)]
        deploy = section.get("deploy")
        left_out += ["deploy.resources"] if isinstance(deploy, Mapping) and deploy.get("resources") else []
        if left_out:
            notes.append(f"left out: {', '.join(left_out)}")
        return replace(
            one,
            at=one.at if base.error is not None else self._at(section),
            directory=working_dir or one.directory,
            folder=context or self.source.folder,
            mounts=mounts,
            copies=self._copies(section),
            notes=(*one.notes, *self.variables.notes(), *notes),
            by_name_only=bool(section.get("profiles")),
            has_secret=one.has_secret or self.variables.used_secrets(),
        )

    def _extended_section(self, name: str, seen: tuple[str, ...]) -> dict[str, Any]:
        """Return the section of a service, merged over that of the service that it extends."""
        section: Mapping[str, Any] = self.document.values["services"][name]
        extends = section.get("extends")
        if extends is None:
            return dict(section)
        other = (
            extends
            if isinstance(extends, str)
            else extends.get("service")
            if isinstance(extends, Mapping)
            else None
        )
        where = self.document.where(("services", name, "extends"))
        if isinstance(extends, Mapping) and extends.get("file") not in (None, self.source.path.name):
            raise ConfigError(
                f"{where}: it extends a service of another file",
                hint="Name the output of docker compose config.",
            )
        if (
            not isinstance(other, str)
            or other not in self.document.values["services"]
            or other in (*seen, name)
        ):
            raise ConfigError(
                f"{where}: it extends {other!r}, which is no other service", hint="Name one of the file."
            )
        base = self._extended_section(other, (*seen, name))
        merged = {**base, **section}
        for key in ("environment",):
            both = [_mapping(one[key]) for one in (base, section) if one.get(key)]
            if both:
                merged[key] = {name: value for one in both for name, value in one.items()}
        return merged

    def _at(self, section: Mapping[str, Any]) -> str:
        key = "command" if section.get("command") is not None else "entrypoint"
        return self.document.where(("services", self.name, key))

    def _expand(self, value: Any, *place: str | int) -> str:
        where = self.document.where(("services", self.name, *place))
        if isinstance(value, Mapping | list):
            raise ConfigError(f"{where}: {'.'.join(map(str, place))}: should be a text", hint="Quote it.")
        return interpolate("" if value is None else str(value), self.variables, lambda _: where)

    def _text(self, section: Mapping[str, Any], key: str) -> str | None:
        return None if section.get(key) is None else self._expand(section[key], key)

    def _command(self, section: Mapping[str, Any], key: str) -> Words | None:
        """Return a command, written as a list of words or as a text to split; None if there is none."""
        value = section.get(key)
        if value is None:
            return None
        place: Place = ("services", self.name, key)
        where = self.document.where(place)
        if isinstance(value, list):
            return Words(where, tuple(self._expand(word, key, n) for n, word in enumerate(value)))
        try:
            return Words(where, tuple(split_command(self._expand(value, key))))
        except ValueError as error:
            raise ConfigError(
                f"{where}: {key}: {error}", hint="Close the quote, or write a list of words."
            ) from error

    def _environment(self, section: Mapping[str, Any]) -> dict[str, str]:
        """Return variables from a mapping or a list; a name without a value gets tuner's own value."""
        value = section.get("environment")
        found: dict[str, str] = {}
        items: Sequence[tuple[str, Any, str | int]] = []
        if isinstance(value, Mapping):
            items = [(name, text, name) for name, text in value.items()]
        elif isinstance(value, list):
            expanded = [(self._expand(word, "environment", n), n) for n, word in enumerate(value)]
            items = [
                (
                    word.partition("=")[0],
                    word.partition("=")[2].replace("$", "$$") if "=" in word else None,
                    n,
                )
                for word, n in expanded
            ]
        for name, text, key in items:
            if name_after(name, 0) != name:
                where = self.document.where(("services", self.name, "environment", key), key=True)
                raise ConfigError(
                    f"{where}: environment: {name[:40]!r} is no name", hint="Write NAME: value."
                )
            if text is not None:
                found[name] = self._expand(text, "environment", key)
            elif (outside := self.variables.get(name)) is not None:
                found[name] = outside
        return found

    def _of_files(self, section: Mapping[str, Any], notes: list[str]) -> dict[str, str]:
        """Return the variables of the files of ``env_file``; later files override earlier ones."""
        value = section.get("env_file")
        found: dict[str, str] = {}
        for n, one in enumerate(value if isinstance(value, list) else [] if value is None else [value]):
            is_required = not isinstance(one, Mapping) or str(one.get("required", "true")).lower() != "false"
            written = one.get("path") if isinstance(one, Mapping) else one
            name = self._expand(written, "env_file", *([n] if isinstance(value, list) else []))
            path = self.source.folder / name
            if path.is_file():
                shown = str(self.source.path.parent / name)
                found |= parse_dotenv(
                    read_text(path, shown), shown, Variables(dict(found), self.variables.outside)
                )
            elif is_required:
                notes.append(f"env_file {name} is not on this host, and was not read")
        return found

    def _image(self, section: Mapping[str, Any]) -> tuple[Image | None, Path | None]:
        """Return the image of the service's Dockerfile and the build folder; None where there is none."""
        build = section.get("build")
        if build is None:
            return None, None
        settings = build if isinstance(build, Mapping) else {"context": build}
        context = self.source.folder / self._expand(settings.get("context", "."), "build")
        if not context.is_dir():
            return None, None
        path = context / self._expand(settings.get("dockerfile", "Dockerfile"), "build", "dockerfile")
        if not path.is_file():
            return None, context
        name = (
            str(self.source.path.parent / path.relative_to(self.source.folder))
            if path.is_relative_to(self.source.folder)
            else str(path)
        )
        images = read_images(Source(name, read_text(path, name), path))
        target = settings.get("target")
        found = next((image for image in images if image.name == target), images[-1])
        return found, context

    def _mounts(self, section: Mapping[str, Any]) -> dict[str, Path]:
        """Return the folders of the container that are mounts -> folders of this host."""
        found: dict[str, Path] = {}
        volumes = section.get("volumes")
        for n, volume in enumerate(volumes if isinstance(volumes, list) else []):
            if isinstance(volume, Mapping):
                here, there = str(volume.get("source", "")), str(volume.get("target", ""))
            else:
                here, _, rest = self._expand(volume, "volumes", n).partition(":")
                there = rest.partition(":")[0]
            if here[:1] in (".", "/", "~") and there:
                try:
                    home = with_home(Path(here))
                except ValueError as error:
                    raise ConfigError(
                        f"{self.source.name}: volumes: {error}", hint="Write the whole path."
                    ) from error
                found[there.rstrip("/")] = (self.source.folder / home).resolve()
        return found

    def _copies(self, section: Mapping[str, Any]) -> int:
        deploy = section.get("deploy")
        replicas = deploy.get("replicas") if isinstance(deploy, Mapping) else None
        text = str(section.get("scale") or replicas or "1")
        return int(text) if text.isdecimal() and int(text) else 1


def _mapping(environment: Any) -> dict[str, Any]:
    """Return ``environment``, a mapping or a list of NAME=VALUE, as a mapping."""
    if isinstance(environment, Mapping):
        return dict(environment)
    words = [str(word).partition("=") for word in environment]
    return {name: value if equals else None for name, equals, value in words}
