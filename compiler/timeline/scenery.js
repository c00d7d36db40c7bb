"use strict";
/* What stands behind the spans of a drawing: patterns, axis, lanes, and which part of the schedule is where. */
const Scenery = (() => {
  const { make } = Dom;
  const { niceStep, BOTTOM } = Layout;
  const NOTES = { TMA: "loads, a row a stage", "tensor core": "dots: idle", "TMA store": "to the tensor" };

  class Scenery {
    definitions(height) {
      const clip = make(
        "clipPath",
        { id: "plot" },
        make("rect", { x: this.gutter - 1, y: 0, width: this.width + 2, height }),
      );
      const lines = (id, size, path, colour, width) =>
        make(
          "pattern",
          { id, width: size, height: size, patternUnits: "userSpaceOnUse" },
          make("path", { d: path, stroke: colour, "stroke-width": width, fill: "none" }),
        );
      const odd = lines("odd-phase", 7, "M-1 8L8 -1M-1 1L1 -1M6 8L8 6", "var(--hatch)", 1.1);
      const waiting = lines("waiting", 6, "M0 3H6", "var(--line)", 1);
      const dots = make(
        "pattern",
        { id: "idle-dots", width: 7, height: 7, patternUnits: "userSpaceOnUse" },
        make("rect", { width: 7, height: 7, fill: "var(--idle)" }),
        make("circle", { cx: 2, cy: 2, r: 0.9, fill: "var(--idle-ink)", opacity: 0.55 }),
      );
      const arrow = make(
        "marker",
        {
          id: "arrow",
          viewBox: "0 0 8 8",
          refX: 7,
          refY: 4,
          markerWidth: 7,
          markerHeight: 7,
          orient: "auto",
          markerUnits: "userSpaceOnUse",
        },
        make("path", { d: "M0 0.8L8 4L0 7.2Z", fill: "context-stroke" }),
      );
      return make("defs", {}, clip, odd, waiting, dots, arrow);
    }

    axis(height) {
      const parts = [],
        { unit, nanoseconds } = this.format;
      const step = niceStep(this.to - this.from, this.width / 90);
      for (let n = Math.max(0, Math.ceil(this.from / step - 1e-9)); n * step <= this.to + 1e-9; n += 1) {
        const x = this.x(n * step);
        parts.push(make("line", { class: "tick", x1: x, x2: x, y1: 18, y2: height - BOTTOM + 4 }));
        const anchor = x > this.gutter + this.width - 24 ? "end" : "middle";
        parts.push(
          make("text", { class: "tick-label", x, y: 14, "text-anchor": anchor }, this.format.number(n * step)),
        );
        if (nanoseconds)
          parts.push(
            make("text", { class: "tick-label", x, y: height - 7, "text-anchor": anchor }, nanoseconds(n * step)),
          );
      }
      parts.push(make("text", { class: "tick-label", x: 0, y: 14 }, this.gutter < 100 ? this.format.short : unit));
      if (nanoseconds)
        parts.push(
          make("text", { class: "tick-label", x: 0, y: height - 7 }, this.gutter < 100 ? "ns" : "nanoseconds"),
        );
      return parts;
    }

    /** Prologue, steady state and drain, from the first and the last MMA of each output tile. */
    bands() {
      const group = make("g", { "clip-path": "url(#plot)" }),
        tiles = new Map(),
        several = new Set(this.trace.spans.map((span) => span.cta)).size > 1;
      for (const span of this.trace.spans) {
        if (span.kind !== "mma") continue;
        const name = several ? `CTA ${span.cta}` : `tile ${span.tile}`,
          [first, last] = tiles.get(name) ?? [span.start, span.end];
        tiles.set(name, [Math.min(first, span.start), Math.max(last, span.end)]);
      }
      const cuts = [...tiles.entries()].sort((a, b) => a[1][0] - b[1][0]);
      if (cuts.some(([, [first]], i) => i && first < cuts[i - 1][1][1])) return group; // CTAs run side by side
      let at = 0;
      const band = (from, to, words) => {
        if (to - from < 1e-9) return;
        const left = Math.max(this.x(from), this.gutter),
          right = Math.min(this.x(to), this.gutter + this.width),
          width = right - left;
        if (width < 2) return;
        group.append(make("path", { class: "band", d: `M${left + 1} 45V40H${right - 1}V45` }));
        const text = words.find((word) => word.length * 5.8 < width - 8);
        if (text)
          group.append(
            make("text", { class: "band-label", x: (left + right) / 2, y: 35, "text-anchor": "middle" }, text),
          );
      };
      cuts.forEach(([which, [first, last]], i) => {
        const name = cuts.length > 1 ? `${which}: ` : "";
        band(
          at,
          first,
          i ? [`between ${several ? "CTAs" : "tiles"}`] : ["prologue: the ring fills", "prologue", "fill"],
        );
        band(first, last, [`${name}steady state`, `${name}steady`, name.slice(0, -2)].filter(Boolean));
        at = last;
      });
      if (cuts.length) band(at, this.trace.makespan, ["drain: epilogue and stores", "drain"]);
      return group;
    }

    laneParts(lane) {
      const middle = (lane.y + lane.bottom) / 2,
        note = this.gutter < 100 ? "" : (NOTES[lane.name] ?? "");
      const parts = [
        make("rect", {
          class: lane.name === "tensor core" ? "idle" : "lane",
          x: this.gutter,
          y: lane.y - 2,
          width: this.width,
          height: lane.bottom - lane.y + 4,
          rx: 4,
        }),
        make("text", { class: "lane-name", x: 0, y: note ? middle - 1 : middle + 5 }, lane.name),
      ];
      if (note) parts.push(make("text", { class: "lane-note", x: 0, y: middle + 13 }, note));
      return parts;
    }
  }

  return Scenery;
})();
