"use strict";
/* Where the lanes and spans of a trace stand, from top to bottom. */
const Layout = (() => {
  const ROW = 24,
    ENGINE_ROW = 28,
    LANE_GAP = 12,
    TOP = 52,
    BOTTOM = 24;

  /** Rows of the drawing: a lane has one for each slot of the ring, or as many as spans of it overlap. `places` tells of a span where
      it stands: its lane, and the how many-th of it it is. */
  function layout(trace) {
    const lanes = [],
      places = new Map();
    let y = TOP;
    for (const name of trace.lanes) {
      const list = [...trace.spans.keys()].filter((i) => trace.spans[i].lane === name);
      const height = name === "TMA" ? ROW : ENGINE_ROW,
        own = list.map((i) => trace.spans[i]);
      const rows = (name === "TMA" && bySlot(own)) || pack(own),
        count = Math.max(1, ...rows.map((row) => row + 1));
      const spans = list.map((index, at) => {
        const look = looks(trace.spans[index]);
        return { index, y: y + rows[at] * (height + 2), look, row: `${rows[at]} ${look}` };
      });
      spans.forEach((span, at) => places.set(span.index, { y: span.y, height, lane: lanes.length, at }));
      const sight = new Sight(
        spans,
        ({ index }) => trace.spans[index].start,
        ({ index }) => trace.spans[index].end,
      );
      lanes.push({ name, y, height, spans, sight, bottom: y + count * (height + 2) - 2 });
      y += count * (height + 2) - 2 + LANE_GAP;
    }
    return { lanes, places, height: y - LANE_GAP + BOTTOM };
  }

  /** Of a span, as classes. */
  function looks({ kind, stage }) {
    return stage === null || kind === "store" ? kind : `${kind} s${stage % 8}`;
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
