"use strict";
/* Draws a part of a trace, spans and links before the scenery; zooms and pans. Only what is in sight is made. */
const Drawing = (() => {
  const { make } = Dom,
    { layout } = Layout;
  const LEAST_PIXELS = 5,
    FIRST_MMAS = 20,
    MOST_LINKS = 250,
    MOST_SPANS = 1200; // beyond, those that are too narrow to be told apart are one shape

  class Drawing extends Scenery {
    constructor(host, overview, handlers) {
      super();
      this.host = host;
      this.overview = overview;
      this.handlers = handlers;
      this.active = null;
      this.pinned = null;
      this.svg = make("svg");
      host.append(this.svg);
      new ResizeObserver(() => this.draw()).observe(host);
    }

    /** Draw another trace; what was seen stays in view if the window still fits. */
    show(trace, format) {
      const whole = !this.trace || (this.from <= 0 && this.to >= this.trace.makespan - 1e-9);
      this.trace = trace;
      this.format = format;
      this.layout = layout(trace);
      this.end = trace.makespan || 1;
      this.closest = closest(trace, this.end);
      this.near = new Map();
      for (const link of trace.links)
        for (const end of [link.source, link.wait]) this.near.set(end, [...(this.near.get(end) ?? []), link]);
      this.links = new Sight(
        trace.links,
        (link) => trace.spans[link.source].end,
        (link) => trace.spans[link.wait].end,
      );
      this.active = this.pinned = null;
      if (whole || this.from >= this.end) this.start();
      this.clamp();
      this.draw();
      this.handlers.active(null);
    }

    /** All of the trace; or its start, where MMAs would be too narrow to be told apart. */
    start() {
      [this.from, this.to] = [0, this.end];
      this.measure();
      const mmas = this.trace.spans.filter((span) => span.kind === "mma"),
        length = mmas.length ? mmas[0].end - mmas[0].start : 0;
      if (length && this.room && length / this.end < LEAST_PIXELS / this.width)
        this.to = mmas[Math.min(FIRST_MMAS, mmas.length - 1)].end;
    }

    /** Asked for once a drawing: it makes the browser lay the page out. */
    measure() {
      this.room = this.host.clientWidth;
    }
    get gutter() {
      return this.room < 560 ? 88 : 128;
    }
    get width() {
      return Math.max(this.room - this.gutter - 10, 40);
    }
    x(time) {
      return this.gutter + ((time - this.from) / (this.to - this.from)) * this.width;
    }
    time(x) {
      return this.from + ((x - this.gutter) / this.width) * (this.to - this.from);
    }

    clamp() {
      const length = Math.min(Math.max(this.to - this.from, this.closest), this.end);
      this.from = Math.min(Math.max(this.from, 0), this.end - length);
      this.to = this.from + length;
    }

    zoom(factor, about = (this.from + this.to) / 2) {
      this.from = about - (about - this.from) * factor;
      this.to = about + (this.to - about) * factor;
      this.clamp();
      this.draw();
    }

    pan(share) {
      const shift = share * (this.to - this.from);
      this.from += shift;
      this.to += shift;
      this.clamp();
      this.draw();
    }

    all() {
      this.from = 0;
      this.to = this.end;
      this.draw();
    }

    draw() {
      this.measure();
      if (!this.trace || !this.room) return;
      const { lanes, height } = this.layout;
      const focused = this.svg.contains(document.activeElement) ? this.active : null;
      this.svg.setAttribute("viewBox", `0 0 ${this.room} ${height}`);
      this.svg.setAttribute("height", height);
      this.elements = new Map();
      this.marked = [];
      const spans = make("g"),
        labels = make("g"),
        seen = lanes.map((lane) => lane.sight.within(this.from, this.to)),
        crowded = seen.reduce((sum, list) => sum + list.length, 0) > MOST_SPANS;
      lanes.forEach((lane, i) => {
        labels.append(...this.laneParts(lane));
        spans.append(...this.spanParts(lane, seen[i], crowded));
      });
      this.linksInSight = this.links.within(this.from, this.to);
      this.linkLayer = make("g");
      const plot = make("g", { "clip-path": "url(#plot)" }, spans, this.linkLayer);
      this.svg.replaceChildren(this.definitions(height), ...this.axis(height), labels, this.bands(), plot);
      this.drawOverview();
      this.paint();
      if (focused !== null) this.element(focused)?.focus();
    }

    /** Of a lane. What is too near to the one before to be seen is left out; where there is very much, what is narrow has no
        part of its own, but for the active one. */
    spanParts(lane, list, crowded) {
      const parts = [],
        crowd = new Map(),
        seen = new Map(); // of a row and a look, where its last part is
      for (const { index, y, look, row } of list) {
        const { start, end } = this.trace.spans[index];
        const x = this.x(start),
          width = this.x(end) - x;
        if (crowded && width < LEAST_PIXELS && index !== this.active) {
          // As wide as it is: less than a pixel of it is a shade of its colour.
          const box = `M${x.toFixed(2)} ${y}h${width.toFixed(2)}v${lane.height}H${x.toFixed(2)}z`;
          crowd.set(look, (crowd.get(look) ?? "") + box);
          continue;
        }
        const hidden = width < 1.6 && x - (seen.get(row) ?? -9) < 1.2;
        if (hidden && index !== this.active) continue;
        seen.set(row, x);
        parts.push(this.spanPart(index, look, x, y, Math.max(width, 1.5), lane.height));
      }
      const shapes = [...crowd].map(([name, d]) =>
        make("g", { class: `span crowd thin ${name}` }, make("path", { class: "box", d })),
      );
      return [...shapes, ...parts];
    }

    spanPart(index, look, x, y, width, height) {
      const span = this.trace.spans[index];
      const group = make("g", {
        class: `span ${look}${width < 3 ? " thin" : ""}`,
        tabindex: -1,
        role: "button",
        "data-index": index,
        "aria-label": this.handlers.describe(span),
        "aria-pressed": this.pinned === index,
      });
      if (span.lane === "TMA" && span.start - span.issued > 1e-9) {
        const middle = y + height / 2;
        group.append(make("line", { class: "queued", x1: this.x(span.issued), x2: x - 1, y1: middle, y2: middle }));
      }
      const box = { x: x + 0.5, y: y + 0.5, width: Math.max(width - 1, 1), height: height - 1 };
      group.append(make("rect", { class: "box", ...box }));
      if (span.phase === 1 && span.kind !== "wait") group.append(make("rect", { class: "odd", ...box }));
      const left = Math.max(x, this.gutter),
        seen = Math.min(x + width, this.gutter + this.width) - left;
      const text = this.handlers.labels(span).find((label) => label.length * 6.9 + 6 < seen);
      if (text)
        group.append(
          make("text", { class: "text", x: left + seen / 2, y: y + height / 2 + 4.3, "text-anchor": "middle" }, text),
        );
      this.elements.set(index, group);
      return group;
    }

    linkPart(link) {
      const { places } = this.layout,
        from = places.get(link.source),
        to = places.get(link.wait);
      const source = this.trace.spans[link.source],
        wait = this.trace.spans[link.wait];
      const down = from.y < to.y,
        x1 = this.x(source.end),
        x2 = this.x(wait.end);
      const y1 = down ? from.y + from.height : from.y,
        y2 = down ? to.y : to.y + to.height,
        middle = (y1 + y2) / 2;
      const d = `M${x1.toFixed(2)} ${y1}C${x1.toFixed(2)} ${middle} ${x2.toFixed(2)} ${middle} ${x2.toFixed(2)} ${y2}`;
      const near = link.source === this.active || link.wait === this.active;
      return make("path", { class: near ? "link active" : "link", d, "marker-end": "url(#arrow)" });
    }

    drawOverview() {
      const scale = (time) => this.gutter + (time / this.end) * this.width;
      if (this.overviewOf !== this.trace || this.overviewWidth !== this.room) this.makeOverview(scale);
      this.view.setAttribute("x", scale(this.from));
      this.view.setAttribute("width", Math.max(scale(this.to) - scale(this.from), 4));
      this.overview.hidden = this.from <= 0 && this.to >= this.end - 1e-9;
    }

    makeOverview(scale) {
      [this.overviewOf, this.overviewWidth] = [this.trace, this.room];
      let last = -9,
        d = "";
      for (const span of this.trace.spans) {
        if (span.kind !== "mma" || scale(span.end) - last < 0.4) continue;
        last = scale(span.end);
        const width = Math.max(last - scale(span.start), 0.6).toFixed(2);
        d += `M${scale(span.start).toFixed(2)} 5h${width}v6h-${width}z`;
      }
      this.view = make("rect", { class: "view", y: 1, height: 14, rx: 4 });
      const whole = make("rect", { x: this.gutter, y: 5, width: this.width, height: 6, rx: 3, fill: "var(--idle)" });
      const box = { viewBox: `0 0 ${this.overviewWidth} 16` };
      this.overview.replaceChildren(make("svg", box, whole, make("path", { d, fill: "var(--accent)" }), this.view));
    }

    element(index) {
      return this.elements.get(index);
    }

    /** Mark the active span, what it is linked with, and the links between. */
    paint() {
      for (const element of this.marked) {
        element.classList.remove("active", "near");
        element.setAttribute("aria-pressed", false);
      }
      this.marked = [];
      const mark = (index, act) => {
        const element = this.element(index);
        if (!element) return;
        act(element);
        this.marked.push(element);
      };
      const links = this.near.get(this.active) ?? [];
      this.host.classList.toggle("tracing", this.active !== null);
      mark(this.active, (element) => element.classList.add("active"));
      mark(this.pinned, (element) => element.setAttribute("aria-pressed", true));
      for (const { source, wait } of links)
        mark(source === this.active ? wait : source, (element) => element.classList.add("near"));
      // Of very many links those of the active span are made: the others would not be seen.
      const shown = this.linksInSight.length > MOST_LINKS ? links : this.linksInSight;
      this.linkLayer.replaceChildren(...shown.map((link) => this.linkPart(link)));
    }
  }

  /** The shortest window: an MMA fills it, or the shortest span where there is none. */
  function closest(trace, whole) {
    const shortest = (spans) =>
      spans.reduce((least, { start, end }) => (end > start ? Math.min(least, end - start) : least), whole / 400);
    const mmas = trace.spans.filter((span) => span.kind === "mma");
    return shortest(mmas.length ? mmas : trace.spans);
  }

  return Drawing;
})();
