"""Prometheus metric families of a study; docs/metrics.md lists them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import isfinite

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric

from tuner import __version__
from tuner.adapters.metrics.figures import PHASES, StudyFigures
from tuner.core.text.safe_text import replace_unprintable

_LONGEST = 200  #: largest length of a label's value, in characters
_UNITS = ("seconds", "bytes")  #: units that the names of families may end with

Labelled = tuple[Mapping[str, str], float | None]  #: labels and value; None: not known


class StudyCollector:
    """Collector of a prometheus_client registry, called at each scrape."""

    def __init__(self, figures: StudyFigures) -> None:
        self._figures = figures

    def collect(self) -> Iterable[Metric]:
        """Yield every family that has a value, all of one moment."""
        with self._figures.still() as seen:
            return [family for family in _Families(seen).all() if family.samples]


class _Families:
    def __init__(self, seen: StudyFigures) -> None:
        self._seen = seen
        self._common = {
            "service": _clean(seen.study.service), "box": _clean(seen.box), "study": _clean(seen.name)
        }  # fmt: skip

    def all(self) -> Iterator[Metric]:
        yield from self._of_study()
        yield from self._of_now()
        yield from self._totals()
        yield from self._of_last_windows()
        yield from self._of_answer()

    def _of_study(self) -> Iterator[Metric]:
        study, seen = self._seen.study, self._seen
        yield self._info("tuner_build", "Version of tuner.", {"version": __version__})
        yield self._info(
            "tuner_study",
            "Settings of the study.",
            {
                "strategy": study.strategy,
                "objective": study.objective,
                "kind": study.kind,
                "cores": str(study.cores),
                "confidence": f"{study.confidence:g}",
                "within": f"{study.within_ratio:g}",
            },
        )
        yield self._one("tuner_study_layouts", "Number of layouts in the study.", len(study.layouts))
        yield self._one(
            "tuner_study_created_timestamp_seconds",
            "Time at which the study began, since 1970.",
            study.created_wall_s,
        )
        yield self._one(
            "tuner_told_timestamp_seconds",
            "Time at which tuner last updated the metrics, since 1970.",
            seen.reported_wall_s,
        )
        yield self._one(
            "tuner_remaining_seconds", "Expected time until the end of the study, if known.", seen.remaining_s
        )
        yield self._one(
            "tuner_planned_windows",
            "Valid windows, measured and still expected, if known.",
            seen.n_planned,
        )
        yield self._counter(
            "tuner_warnings", "Warnings of this session, by slug.",
            [({"slug": slug}, n) for slug, n in sorted(seen.warnings.items())],
        )  # fmt: skip

    def _of_now(self) -> Iterator[Metric]:
        nows = [({"box": box}, now) for box, now in self._seen.nows.items()]
        yield self._gauge(
            "tuner_phase",
            "1 for the current phase.",
            [({**on, "phase": phase}, float(phase == now.phase)) for on, now in nows for phase in PHASES],
        )
        yield self._gauge(
            "tuner_block",
            "Number of the current block, from 1 on; 0: before the first block.",
            [(on, now.block + 1) for on, now in nows],
        )
        yield self._gauge(
            "tuner_phase_elapsed_seconds",
            "Time since the start of the current phase.",
            [(on, now.elapsed_s) for on, now in nows],
        )
        running = [({**on, "layout": str(now.layout)}, now) for on, now in nows if now.layout is not None]
        if not running:
            return
        yield self._gauge("tuner_running", "1 for the current layout.", [(of, 1.0) for of, _ in running])
        yield self._gauge(
            "tuner_window_length_seconds",
            "Planned length of the current window.",
            [(of, now.window_s) for of, now in running],
        )
        yield self._gauge(
            "tuner_items_per_second",
            "Throughput of the current layout: mean of the window so far; in a warm-up, of the last second.",
            [(of, now.items_per_s) for of, now in running],
        )
        yield self._gauge(
            "tuner_load1",
            "load1 of the host in the current window.",
            [(of, now.load1) for of, now in running],
        )
        yield self._gauge(
            "tuner_active_tasks",
            "Running or uninterruptible tasks of the host in the current window, without tuner's.",
            [(of, now.n_active) for of, now in running],
        )

    def _totals(self) -> Iterator[Metric]:
        each = [({"layout": str(layout)}, of) for layout, of in sorted(self._seen.layouts.items())]
        yield self._counter(
            "tuner_launches", "Launches of this session.", [(labels, of.n_launches) for labels, of in each]
        )
        yield self._counter(
            "tuner_windows",
            "Number of measured windows, valid and invalid ones.",
            [
                ({**labels, "result": result}, n)
                for labels, of in each
                for result, n in (("valid", of.n_valid), ("void", of.n_void))
            ],
        )
        yield self._counter(
            "tuner_void_windows",
            "Number of invalid windows by reason; a window may have several reasons.",
            [
                ({**labels, "reason": slug}, n)
                for labels, of in each
                for slug, n in sorted(of.void_reasons.items())
            ],
        )
        yield self._counter(
            "tuner_items",
            "Successful items in all windows, including invalid ones and the current one.",
            [(labels, of.n_items) for labels, of in each],
        )
        yield self._counter(
            "tuner_failed_items",
            "Failed items in all windows, including invalid ones.",
            [(labels, of.n_failed) for labels, of in each],
        )
        yield self._counter(
            "tuner_window_seconds",
            "Total length of the valid windows.",
            [(labels, of.window_s) for labels, of in each],
        )
        yield self._counter(
            "tuner_cpu_seconds",
            "CPU time in valid windows: of the service, tuner, backends and other processes, and stolen.",
            [({**labels, "whose": whose}, cpu_s) for labels, of in each for whose, cpu_s in of.cpu_s.items()],
        )
        yield self._counter(
            "tuner_requests",
            "Finished requests of the load generator in all windows, including invalid ones.",
            [
                ({**labels, "result": result}, n)
                for labels, of in each
                if of.n_answered or of.n_requests_failed
                for result, n in (("answered", of.n_answered), ("failed", of.n_requests_failed))
            ],
        )

    def _of_last_windows(self) -> Iterator[Metric]:
        def of_each(name: str) -> list[Labelled]:
            return [
                ({"layout": str(layout)}, getattr(of, name))
                for layout, of in sorted(self._seen.layouts.items())
            ]

        last = "in the layout's last valid window"
        yield self._gauge("tuner_window_items_per_second", f"Throughput {last}.", of_each("throughput_per_s"))
        yield self._gauge("tuner_window_load1", f"Mean load1 {last}.", of_each("load1"))
        yield self._gauge(
            "tuner_window_memory_bytes",
            f"Memory (PSS) of the service and its child processes, {last}.",
            of_each("memory_bytes"),
        )
        yield self._gauge(
            "tuner_window_latency_seconds",
            f"Time within which this percentage of the requests was answered successfully, {last}.",
            [
                ({"layout": str(layout), "percentile": str(percentile)}, latency_s)
                for layout, of in sorted(self._seen.layouts.items())
                for percentile, latency_s in of.latency_s.items()
            ],
        )

    def _of_answer(self) -> Iterator[Metric]:
        known = self._seen.known
        if known is None:
            return
        unit = "items_per_second" if self._seen.study.objective == "throughput" else "items_per_cpu_second"
        found = sorted(known.estimates.items())
        data = {
            "mean": "Estimate of the layout, without drift between blocks.",
            "low": "Lower limit of the confidence interval of the estimate.",
            "high": "Upper limit of the confidence interval of the estimate.",
        }
        for end, text in data.items():
            name = "tuner_estimate" if end == "mean" else f"tuner_estimate_{end}"
            yield self._gauge(
                f"{name}_{unit}",
                text,
                [({"layout": str(layout)}, getattr(estimate, end)) for layout, estimate in found],
            )
        answer = known.answer
        if answer.layout is None:
            return
        yield self._gauge(
            "tuner_leader",
            "1 for the best layout so far.",
            [({"layout": str(answer.layout)}, 1.0)],
        )
        if answer.kind == "none":  # no claim on it
            return
        yield self._gauge(
            "tuner_tied",
            "1 for layouts that may be as good as the best.",
            [({"layout": str(layout)}, 1.0) for layout in answer.ties],
        )
        yield self._one(
            "tuner_answer_reached",
            "1 if the study has an answer: the best layout, within the margin.",
            float(answer.reached),
        )

    def _one(self, name: str, text: str, value: float | None) -> GaugeMetricFamily:
        return self._gauge(name, text, [({}, value)])

    def _gauge(self, name: str, text: str, samples: Iterable[Labelled]) -> GaugeMetricFamily:
        labels, values = self._known_samples(samples)
        family = GaugeMetricFamily(name, text, labels=labels, unit=_unit(name))
        for of, value in values:
            family.add_metric(of, value)
        return family

    def _counter(self, name: str, text: str, samples: Iterable[Labelled]) -> CounterMetricFamily:
        labels, values = self._known_samples(samples)
        family = CounterMetricFamily(name, text, labels=labels, unit=_unit(name))
        for of, value in values:
            family.add_metric(of, value)
        return family

    def _info(self, name: str, text: str, facts: Mapping[str, str]) -> InfoMetricFamily:
        family = InfoMetricFamily(name, text, labels=list(self._common))
        family.add_metric(list(self._common.values()), {key: _clean(value) for key, value in facts.items()})
        return family

    def _known_samples(self, samples: Iterable[Labelled]) -> tuple[list[str], list[tuple[list[str], float]]]:
        """Return the label names, and for each sample with a value its label values and the value."""
        seen = [(labels, value) for labels, value in samples if value is not None and isfinite(value)]
        own = [name for name in (seen[0][0] if seen else ()) if name not in self._common]
        return [*self._common, *own], [
            ([_clean({**self._common, **labels}[name]) for name in (*self._common, *own)], value)
            for labels, value in seen
        ]


def _unit(name: str) -> str:
    ends = name.rpartition("_")[2]
    return ends if ends in _UNITS else ""


def _clean(text: str) -> str:
    """Return *text* as a label; each character that cannot be printed becomes one replacement sign."""
    shown = replace_unprintable(text, "\N{REPLACEMENT CHARACTER}")
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"
