"use strict";
/* What was played, as spans and links: the end of backend/timeline/replay.py, and backend/timeline/trace.py. */
const Trace = (() => {
  const what = (draft) => [...new Set(draft.words)].join(", ");

  function why(draft, drafts) {
    const { kind, after, busy, source } = draft;
    if (kind === "wait")
      return `${what(draft).replace("wait for ", "")} was not complete${source === null ? "" : `: ${what(drafts[source])}`}`;
    if (["setup", "teardown", "copy", "epilogue"].includes(kind)) return `after ${after}`;
    return `issued after ${after}${busy ? `; the ${kind === "mma" ? "tensor core" : "engine"} was busy with earlier work` : ""}`;
  }

  /** Of a multiprocessor that has played all it was given. */
  function of(machine) {
    const order = machine.drafts
        .map((_, i) => i)
        .sort((a, b) => machine.drafts[a].start - machine.drafts[b].start || a - b),
      place = new Map(order.map((old, i) => [old, i]));
    const spans = order.map((i) => {
      const { words: _words, after: _after, busy: _busy, source: _source, ...span } = machine.drafts[i];
      return {
        ...span,
        what: what(machine.drafts[i]),
        why: why(machine.drafts[i], machine.drafts),
        lines: [...new Set(span.lines)].sort((a, b) => a - b),
      };
    });
    const links = machine.links.map((link) => ({
      ...link,
      source: place.get(link.source),
      wait: place.get(link.wait),
    }));
    const used = [...new Set(spans.map((span) => span.lane))],
      engines = ["TMA", "tensor core", "TMA store"].filter((lane) => used.includes(lane));
    const threads = used.filter((lane) => !engines.includes(lane)).sort();
    const lanes = used.includes("TMA store")
      ? [...engines.slice(0, 2), ...threads, ...engines.slice(2)]
      : [...engines, ...threads];
    return { spans, links, lanes, makespan: machine.makespan };
  }

  /** backend/timeline/trace.py: Trace.kpis. */
  function kpis({ spans, makespan }) {
    const mmas = spans.filter((span) => span.kind === "mma"),
      loads = spans.filter((span) => span.kind === "load");
    const busy = mmas.reduce((sum, span) => sum + (span.end - span.start), 0);
    const events = loads
      .flatMap((span) => [
        [span.issued, 1],
        [span.end, -1],
      ])
      .sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    let most = 0,
      now = 0;
    for (const [, by] of events) most = Math.max(most, (now += by));
    return {
      makespan,
      idle: makespan ? 1 - busy / makespan : 1,
      loads_in_flight: most,
      back_to_back: mmas.length > 0 && mmas.slice(1).every((span, i) => span.start - mmas[i].end < 1e-6),
    };
  }

  return { of, kpis };
})();
