"use strict";
/* Draws a part of a trace, spans and links before the scenery; zooms and pans. */
const Drawing = (() => {
  const { make } = Dom,
    { layout } = Layout;
  const LEAST_PIXELS = 5,
    FIRST_MMAS = 20,
    MOST_LINKS = 250;

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
      this.near = new Map();
      trace.links.forEach((link) => {
        for (const [a, b] of [
          [link.source, link.wait],
          [link.wait, link.source],
        ])
          this.near.set(a, [...(this.near.get(a) ?? []), b]);
      });
      this.active = this.pinned = null;
      if (whole || this.from >= this.end) this.start();
      this.clamp();
      this.draw();
      this.handlers.active(null);
    }

    /** All of the trace; or its start, where MMAs would be too narrow to be told apart. */
    start() {
      [this.from, this.to] = [0, this.end];
      const mmas = this.trace.spans.filter((span) => span.kind === "mma"),
        length = mmas.length ? mmas[0].end - mmas[0].start : 0;
      if (length && this.host.clientWidth && length / this.end < LEAST_PIXELS / this.width)
        this.to = mmas[Math.min(FIRST_MMAS, mmas.length - 1)].end;
    }

    get gutter() {
      return this.host.clientWidth < 560 ? 88 : 128;
    }
    get width() {
      return Math.max(this.host.clientWidth - this.gutter - 10, 40);
    }
    x(time) {
      return this.gutter + ((time - this.from) / (this.to - this.from)) * this.width;
    }
    time(x) {
      return this.from + ((x - this.gutter) / this.width) * (this.to - this.from);
    }

    clamp() {
      const length = Math.min(Math.max(this.to - this.from, this.end / 400), this.end);
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
      if (!this.trace || !this.host.clientWidth) return;
      const { lanes, height } = this.layout;
      const focused = this.svg.contains(document.activeElement) ? this.active : null;
      this.svg.setAttribute("viewBox", `0 0 ${this.host.clientWidth} ${height}`);
      this.svg.setAttribute("height", height);
      const spans = make("g"),
        links = make("g"),
        labels = make("g"),
        places = new Map();
      for (const lane of lanes) {
        labels.append(...this.laneParts(lane));
        for (const { index, y } of lane.spans) places.set(index, { y, height: lane.height });
        spans.append(...this.spanParts(lane));
      }
      this.trace.links.forEach((link, i) => {
        const path = this.linkPath(link, places);
        if (path) links.append(make("path", { class: "link", d: path, "data-link": i, "marker-end": "url(#arrow)" }));
      });
      this.host.classList.toggle("crowded", links.childElementCount > MOST_LINKS);
      const plot = make("g", { "clip-path": "url(#plot)" }, spans, links);
      this.svg.replaceChildren(this.definitions(height), ...this.axis(height), labels, this.bands(), plot);
      this.drawOverview();
      this.paint();
      if (focused !== null) this.element(focused)?.focus();
    }

    spanParts(lane) {
      const parts = [],
        seen = new Map(),
        right = this.gutter + this.width;
      for (const { index, y } of lane.spans) {
        const span = this.trace.spans[index];
        const x = this.x(span.start),
          end = this.x(span.end),
          width = Math.max(end - x, 1.5);
        if (end < this.gutter - 2 || x > right + 2) continue;
        const hidden = width < 1.6 && x - (seen.get(y) ?? -9) < 1.2; // too near to the one before to be seen
        if (hidden && index !== this.active) continue;
        seen.set(y, x);
        parts.push(this.spanPart(span, index, x, y, width, lane.height));
      }
      return parts;
    }

    spanPart(span, index, x, y, width, height) {
      const stage = span.stage === null || span.kind === "store" ? "" : ` s${span.stage % 8}`;
      const group = make("g", {
        class: `span ${span.kind}${stage}${width < 3 ? " thin" : ""}`,
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
      return group;
    }

    linkPath(link, places) {
      const from = places.get(link.source),
        to = places.get(link.wait);
      const source = this.trace.spans[link.source],
        wait = this.trace.spans[link.wait];
      if (!from || !to || wait.end < this.from || source.end > this.to) return null;
      const down = from.y < to.y,
        x1 = this.x(source.end),
        x2 = this.x(wait.end);
      const y1 = down ? from.y + from.height : from.y,
        y2 = down ? to.y : to.y + to.height,
        middle = (y1 + y2) / 2;
      return `M${x1.toFixed(2)} ${y1}C${x1.toFixed(2)} ${middle} ${x2.toFixed(2)} ${middle} ${x2.toFixed(2)} ${y2}`;
    }

    drawOverview() {
      const width = this.host.clientWidth,
        scale = (time) => this.gutter + (time / this.end) * this.width;
      const svg = make("svg", { viewBox: `0 0 ${width} 16` });
      svg.append(make("rect", { x: this.gutter, y: 5, width: this.width, height: 6, rx: 3, fill: "var(--idle)" }));
      let last = -9;
      for (const span of this.trace.spans) {
        if (span.kind !== "mma" || scale(span.end) - last < 0.4) continue;
        last = scale(span.end);
        svg.append(
          make("rect", {
            x: scale(span.start),
            y: 5,
            width: Math.max(last - scale(span.start), 0.6),
            height: 6,
            fill: "var(--accent)",
          }),
        );
      }
      svg.append(
        make("rect", {
          class: "view",
          x: scale(this.from),
          y: 1,
          width: Math.max(scale(this.to) - scale(this.from), 4),
          height: 14,
          rx: 4,
        }),
      );
      this.overview.replaceChildren(svg);
      this.overview.hidden = this.from <= 0 && this.to >= this.end - 1e-9;
    }

    element(index) {
      return this.svg.querySelector(`[data-index="${index}"]`);
    }

    /** Mark the active span, what it is linked with, and the links between. */
    paint() {
      const near = new Set(this.near?.get(this.active) ?? []);
      this.host.classList.toggle("tracing", this.active !== null);
      for (const element of this.svg.querySelectorAll(".span")) {
        const index = Number(element.dataset.index);
        element.classList.toggle("active", index === this.active);
        element.classList.toggle("near", near.has(index));
        element.setAttribute("aria-pressed", this.pinned === index);
      }
      for (const element of this.svg.querySelectorAll(".link")) {
        const link = this.trace.links[element.dataset.link];
        element.classList.toggle(
          "active",
          this.active !== null && (link.source === this.active || link.wait === this.active),
        );
      }
    }
  }

  return Drawing;
})();
