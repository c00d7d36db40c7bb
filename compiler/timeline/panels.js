"use strict";
/* What stands around the drawing: legend, details, the program, tables. */
const Panels = (() => {
  const { $, element, make } = Dom,
    { title, small } = Words,
    MOST_ROWS = 1000;

  // ---- legend, details, program

  function swatch(kind, stage, odd = false) {
    const svg = make("svg", { viewBox: "0 0 26 14", class: "chart", "aria-hidden": "true" });
    const group = make(
      "g",
      { class: `span ${kind}${stage === null ? "" : ` s${stage % 8}`}` },
      make("rect", { class: "box", x: 0.5, y: 0.5, width: 25, height: 13 }),
    );
    if (odd) group.append(make("rect", { class: "odd", x: 0.5, y: 0.5, width: 25, height: 13 }));
    svg.append(group);
    return svg;
  }

  function legend(trace) {
    const stages = [
      ...new Set(trace.spans.filter((span) => span.kind === "load" && span.stage !== null).map((span) => span.stage)),
    ].sort((a, b) => a - b);
    const kinds = new Set(trace.spans.filter((span) => span.end > span.start).map((span) => span.kind)),
      items = [];
    const item = (mark, words) => items.push(element("li", {}, mark, words));
    stages.forEach((stage) => item(swatch("load", stage), `slot ${stage}`));
    if (trace.spans.some((span) => span.phase === 1 && span.kind !== "wait"))
      item(swatch("load", stages[0] ?? null, true), "hatched: odd phase");
    const words = {
      wait: "threads wait",
      copy: "threads copy",
      epilogue: "epilogue",
      store: "store",
      setup: "set-up and exit",
    };
    for (const [kind, word] of Object.entries(words)) if (kinds.has(kind)) item(swatch(kind, null), word);
    const line = (attributes) =>
      make("svg", { viewBox: "0 0 26 14", class: "chart", "aria-hidden": "true" }, make("path", attributes));
    if (trace.links.length)
      item(line({ class: "link", d: "M13 0V13", "marker-end": "url(#arrow)", style: "opacity:1" }), "lets a wait pass");
    if (trace.spans.some((span) => span.kind === "load" && span.start - span.issued > 1e-9))
      item(line({ class: "queued", d: "M1 7H25" }), "issued, engine busy");
    if (kinds.has("mma")) {
      const dots = make(
        "svg",
        { viewBox: "0 0 26 14", class: "chart", "aria-hidden": "true" },
        make("rect", { class: "idle", x: 0, y: 0, width: 26, height: 14, rx: 3 }),
      );
      item(dots, "tensor core idle");
    }
    $("legend").replaceChildren(...items);
  }

  /** Spans to begin with. */
  function starts(trace) {
    const of = (kind) => [...trace.spans.keys()].filter((i) => trace.spans[i].kind === kind),
      length = (i) => trace.spans[i].end - trace.spans[i].start;
    const [load] = of("load"),
      [mma] = of("mma"),
      wait = of("wait").reduce((most, i) => (most === undefined || length(i) > length(most) ? i : most), undefined);
    return [
      ["the first load", load],
      ["the first MMA", mma],
      ["the longest wait", wait],
    ].filter(([, at]) => at !== undefined);
  }

  function detail(trace, index, format, go) {
    const host = $("detail");
    if (index === null) {
      const ways = starts(trace).map(([words, at]) => {
        const button = element("button", { type: "button" }, words);
        button.addEventListener("click", () => go(at));
        return button;
      });
      host.replaceChildren(
        element(
          "p",
          {},
          "Point at a span, or move to one with the keyboard: what it does, why it started when it did, and its line of the program stand here. Click or Enter pins it.",
        ),
        element("p", { class: "ways" }, ...ways),
      );
      return;
    }
    const span = trace.spans[index],
      list = element("dl");
    const row = (name, ...children) => list.append(element("dt", {}, name), element("dd", {}, ...children));
    row("what", element("span", { class: "what" }, span.what));
    row("why", `${span.why}.`);
    row("time", `${format.number(span.start)} to ${format.number(span.end)}: ${format.long(span.end - span.start)}`);
    if (span.start - span.issued > 1e-9)
      row("queued", `issued at ${format.number(span.issued)}, ${format.long(span.start - span.issued)} earlier`);
    if (span.stage !== null) row("slot", String(span.stage));
    if (span.phase !== null) row("phase", `${span.phase} (${span.phase ? "odd" : "even"} round of its barrier)`);
    if (span.lines.length) row("program", `line ${span.lines.join(", ")}`);
    const near = trace.links.filter((link) => link.source === index || link.wait === index);
    if (near.length) {
      row(
        span.kind === "wait" ? "let pass by" : "lets pass",
        ...near.map((link) => {
          const other = link.source === index ? link.wait : link.source;
          const button = element(
            "button",
            { type: "button" },
            `${link.signal}: ${trace.spans[other].lane}, ${small(title(trace.spans[other]))}`,
          );
          button.addEventListener("click", () => go(other));
          return button;
        }),
      );
    }
    host.replaceChildren(
      element(
        "p",
        { class: "lead" },
        swatch(span.kind, span.kind === "store" ? null : span.stage, span.phase === 1 && span.kind !== "wait"),
        title(span),
        element("span", { class: "keys" }, `on ${span.lane}`),
      ),
      list,
    );
  }

  function tip(trace, index, x, y, format) {
    const host = $("tip");
    host.hidden = index === null;
    if (index === null) return;
    const span = trace.spans[index];
    host.replaceChildren(
      element("b", {}, title(span)),
      element("code", {}, span.what),
      span.why,
      element("br"),
      `${format.number(span.start)} to ${format.number(span.end)}: ${format.long(span.end - span.start)}`,
    );
    const { width, height } = host.getBoundingClientRect();
    host.style.left = `${Math.max(8, Math.min(x + 14, innerWidth - width - 8))}px`;
    host.style.top = `${y + 18 + height > innerHeight ? y - height - 12 : y + 18}px`;
  }

  function program(data) {
    const lines = data.source.replace(/\n$/, "").split("\n");
    $("source").replaceChildren(
      element(
        "ol",
        {},
        ...lines.map((line, i) => element("li", { "data-line": i + 1 }, element("pre", {}, line || " "))),
      ),
    );
    $("source-title").textContent = data.file;
  }

  /** Mark the lines of a span, and bring the first into view inside the panel. */
  function light(lines) {
    const host = $("source");
    for (const item of host.querySelectorAll("li"))
      item.classList.toggle("lit", lines.includes(Number(item.dataset.line)));
    const first = host.querySelector(".lit");
    if (first) host.scrollTop = Math.max(0, first.offsetTop - host.offsetTop - host.clientHeight / 3);
  }

  // ---- tables

  function rows(table, headings, lines, numeric, caption = "") {
    const cell = (tag, text, i) =>
      element(tag, { class: numeric.includes(i) ? "number" : null, scope: tag === "th" ? "col" : null }, text);
    table.replaceChildren(
      ...(caption ? [element("caption", {}, caption)] : []),
      element("thead", {}, element("tr", {}, ...headings.map((text, i) => cell("th", text, i)))),
      element("tbody", {}, ...lines.map((line) => element("tr", {}, ...line.map((text, i) => cell("td", text, i))))),
    );
  }

  function table(trace, format) {
    const text = (value) => (value === null ? "" : String(value)),
      count = (number) => number.toLocaleString("en"),
      all = trace.spans.length;
    const caption =
      all > MOST_ROWS
        ? `The first ${count(MOST_ROWS)} of ${count(all)} spans; ${count(all - MOST_ROWS)} are not shown. A .json for Perfetto has all of the compiled schedule.`
        : "";
    rows(
      $("table"),
      ["lane", "kind", "start", "end", "tile", "K tile", "slot", "phase", "what", "why", "lines"],
      trace.spans.slice(0, MOST_ROWS).map((span) => [
        span.lane,
        span.kind,
        format.number(span.start),
        format.number(span.end),
        String(span.tile),
        text(span.k),
        text(span.stage),
        text(span.phase),
        span.what,
        span.why,
        span.lines.join(", "),
      ]),
      [2, 3, 4, 5, 6, 7],
      caption,
    );
  }

  function costs(data, used) {
    const value = (number) =>
      number === null || number === Infinity ? "no limit" : number.toLocaleString("en", { maximumFractionDigits: 3 });
    rows(
      $("costs-table"),
      ["constant", "here", data.target, "evidence", "from"],
      data.sources.map((one) => [
        one.name,
        value(used[one.name]),
        value(one.value),
        one.evidence ?? "",
        one.where ?? "",
      ]),
      [1, 2],
    );
  }

  return { legend, detail, tip, program, light, table, costs };
})();
