"use strict";
/* The figures of a schedule, beside those of the compiled one, and what holds its tensor core up. */
const Figures = (() => {
  const { $, element } = Dom;

  function compared(value, other, format, told = (change) => format(change)) {
    if (other === undefined) return ["as compiled"];
    const change = value - other;
    if (Math.abs(change) < 1e-9 * Math.max(1, Math.abs(other))) return ["the same as compiled"];
    const better = change < 0;
    return [
      element("span", { class: better ? "better" : "worse" }, `${change < 0 ? "▼" : "▲"} ${told(Math.abs(change))}`),
      ` against ${other === 0 ? "0" : format(other)} as compiled`,
    ];
  }

  function figures(trace, compiled, format) {
    const now = Trace.kpis(trace),
      was = compiled ? Trace.kpis(compiled) : {};
    const percent = (share) => `${(100 * share).toFixed(1)} %`,
      parts = idleParts(trace);
    const put = (id, ...children) => $(id).replaceChildren(...children);
    put(
      "kpi-makespan",
      format.number(now.makespan),
      " ",
      element("small", {}, format.nanoseconds ? `cycles, ${format.nanoseconds(now.makespan)} ns` : "MMAs"),
    );
    const share = (change) =>
      `${format.number(change)} (${now.makespan < was.makespan ? "−" : "+"}${((100 * change) / was.makespan).toFixed(0)} %)`;
    put("kpi-makespan-note", ...compared(now.makespan, was.makespan, format.number, share));
    put("kpi-idle", percent(now.idle));
    put("kpi-idle-note", ...compared(now.idle, was.idle, percent, (change) => `${(100 * change).toFixed(1)} points`));
    put(
      "kpi-idle-bar",
      ...(trace.makespan
        ? [
            ["edge", parts.before],
            ["busy", parts.busy],
            ["gap", parts.between],
            ["edge", parts.after],
          ]
        : []
      ).map(([name, time]) => element("i", { class: name, style: `width:${(100 * time) / trace.makespan}%` })),
    );
    put("kpi-back", now.back_to_back ? "yes" : "no");
    const gaps = parts.gaps
      ? `${parts.gaps} gap${parts.gaps > 1 ? "s" : ""}, ${format.number(parts.between)} in all`
      : "no gap between MMAs";
    put(
      "kpi-back-note",
      gaps,
      was.makespan === undefined || was.back_to_back === now.back_to_back
        ? ""
        : `; as compiled ${was.back_to_back ? "yes" : "no"}`,
    );
    put("kpi-flight", String(now.loads_in_flight));
    put(
      "kpi-flight-note",
      ...(was.makespan === undefined
        ? ["as compiled"]
        : was.loads_in_flight === now.loads_in_flight
          ? ["the same as compiled"]
          : [`against ${was.loads_in_flight} as compiled`]),
    );
  }

  /** Where the tensor core's time goes: before its first MMA, in MMAs, between them, after the last. */
  function idleParts(trace) {
    const mmas = trace.spans.filter((span) => span.kind === "mma");
    if (!mmas.length) return { before: trace.makespan, busy: 0, between: 0, after: 0, gaps: 0 };
    const before = mmas[0].start,
      after = trace.makespan - mmas.at(-1).end,
      busy = mmas.reduce((sum, span) => sum + span.end - span.start, 0);
    const gaps = mmas.slice(1).filter((span, i) => span.start - mmas[i].end >= 1e-6).length;
    return { before, busy, after, between: Math.max(trace.makespan - before - after - busy, 0), gaps };
  }

  /** What holds the tensor core up, in a sentence or two. */
  function insight(trace, facts, costs, format) {
    const parts = idleParts(trace),
      mmas = trace.spans.filter((span) => span.kind === "mma"),
      words = [];
    if (!mmas.length) return "No MMA runs here.";
    if (facts) {
      const load = facts.loads.reduce((sum, one) => sum + one.bytes, 0) / costs.load_rate,
        mma = facts.macs / costs.mma_rate;
      const wins =
        load > mma * 1.001
          ? "so loads set the pace"
          : load < mma * 0.999
            ? "so MMAs can set the pace"
            : "so they are matched";
      words.push(
        `A K tile keeps the TMA engine busy for ${format.number(load)} and the tensor core for ${format.number(mma)}, ${wins}.`,
      );
    }
    const share = (time) => `${format.number(time)} (${((100 * time) / trace.makespan).toFixed(0)} %)`;
    words.push(
      `The tensor core idles ${share(parts.before)} before its first MMA, ${parts.gaps ? `${share(parts.between)} in ${parts.gaps} gap${parts.gaps > 1 ? "s" : ""} between MMAs` : "nothing between MMAs"}, and ${share(parts.after)} after the last.`,
    );
    const lane = trace.lanes.includes("mma") ? "mma" : trace.lanes.find((name) => name.startsWith("threads"));
    const inLoop = trace.spans.filter(
      (span) => span.kind === "wait" && span.lane === lane && span.start < mmas.at(-1).end && span.end > mmas[0].start,
    );
    const waits = Map.groupBy
      ? Map.groupBy(inLoop, (span) => span.what.replace("wait for ", "").replace(/\[.*/, ""))
      : new Map();
    const told = [...waits]
      .map(([name, list]) => [name, list.length, list.reduce((sum, span) => sum + span.end - span.start, 0)])
      .sort((a, b) => b[2] - a[2])
      .map(([name, count, time]) => `${format.number(time)} for ${name} (${count} wait${count > 1 ? "s" : ""})`);
    if (told.length)
      words.push(
        `From its first MMA to the last, ${lane === "mma" ? "the role that issues them waits" : "the threads that issue them wait"} ${told.join(", ")}.`,
      );
    return words.join(" ");
  }

  return { figures, insight };
})();
