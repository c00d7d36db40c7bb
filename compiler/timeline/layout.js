"use strict";
/* Where the lanes and spans of a trace stand, from top to bottom. */
const Layout = (() => {
  const ROW = 24,
    ENGINE_ROW = 28,
    LANE_GAP = 12,
    TOP = 52,
    BOTTOM = 24;

  /** Rows of the drawing: a lane has one for each slot of the ring, or as many as spans of it overlap. */
  function layout(trace) {
    const lanes = [];
    let y = TOP;
    for (const name of trace.lanes) {
      const list = [...trace.spans.keys()].filter((i) => trace.spans[i].lane === name);
      const height = name === "TMA" ? ROW : ENGINE_ROW,
        own = list.map((i) => trace.spans[i]);
      const rows = (name === "TMA" && bySlot(own)) || pack(own),
        count = Math.max(1, ...rows.map((row) => row + 1));
      const spans = list.map((i, at) => ({ index: i, y: y + rows[at] * (height + 2) }));
      lanes.push({ name, y, height, spans, bottom: y + count * (height + 2) - 2 });
      y += count * (height + 2) - 2 + LANE_GAP;
    }
    return { lanes, height: y - LANE_GAP + BOTTOM };
  }

  /** A row for each slot, unless loads of one slot overlap: they are those of several CTAs. */
  function bySlot(spans) {
    const stages = [...new Set(spans.map((span) => span.stage))].sort((a, b) => a - b),
      ends = new Map();
    for (const { stage, start, end } of spans) {
      if (stage === null || (ends.get(stage) ?? 0) > start + 1e-9) return null;
      ends.set(stage, end);
    }
    return spans.map((span) => stages.indexOf(span.stage));
  }

  function pack(spans) {
    const ends = [];
    return spans.map((span) => {
      let row = ends.findIndex((end) => end <= span.start + 1e-9);
      if (row < 0) row = ends.length;
      ends[row] = span.end;
      return row;
    });
  }

  function niceStep(length, most) {
    const rough = length / Math.max(most, 1),
      power = 10 ** Math.floor(Math.log10(rough));
    return power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
  }

  return { layout, niceStep, BOTTOM };
})();
