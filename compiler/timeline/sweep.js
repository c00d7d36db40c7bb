"use strict";
/* The makespan of each mode over the depth of the ring, at the costs and the loop of now. */
const Sweep = (() => {
  const DEPTHS = [1, 2, 3, 4, 5, 6, 7, 8];
  const MODES = [
    ["serial", "var(--soft)", "2 4"],
    ["prefetch", "var(--accent)", ""],
    ["roles", "var(--bad)", "7 3"],
  ];
  const HEIGHT = 200,
    LEFT = 64,
    RIGHT = 96,
    TOP = 14,
    BOTTOM = 30,
    SLICE = 20; // milliseconds

  let latest = 0;

  /** Play all of them, some milliseconds at a time, and draw; a later call takes the place of one that is not over. */
  function draw(host, state, data, format, choose) {
    const mine = (latest += 1),
      given = State.costs(state, data),
      { ktiles } = state;
    const lines = MODES.map(([mode, colour, dash]) => ({ mode, colour, dash, values: [] })),
      todo = lines.flatMap((line) => DEPTHS.map((depth) => [line, depth]));
    const go = () => {
      if (mine !== latest) return;
      for (const begin = performance.now(); todo.length && performance.now() - begin < SLICE;) {
        const [{ mode, values }, depth] = todo.shift();
        const same = mode === "serial" && values.length; // it has one slot
        values.push(same ? values[0] : Schedules.play(State.at(State.slots({ mode, depth }), data), { mode, depth, ktiles }, given).makespan);
      }
      if (todo.length) setTimeout(go);
      else paint(host, lines, state, data, format, choose);
    };
    go();
  }

  function paint(host, lines, state, data, format, choose) {
    const WIDTH = Math.max(host.clientWidth, 280);
    const most = Math.max(...lines.flatMap((line) => line.values)) * 1.06;
    const x = (depth) => LEFT + ((depth - 1) / 7) * (WIDTH - LEFT - RIGHT),
      y = (value) => HEIGHT - BOTTOM - (value / most) * (HEIGHT - TOP - BOTTOM);
    const svg = Dom.make("svg", {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      role: "img",
      class: "chart",
      "aria-label": lines
        .map(
          (line) =>
            `${line.mode}: ${line.values.map((value, i) => `depth ${i + 1}, ${format.number(value)}`).join("; ")}`,
        )
        .join(". "),
    });
    const step = Layout.niceStep(most, 4);
    for (let value = 0; value <= most; value += step) {
      svg.append(
        Dom.make("line", { class: "tick", x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }),
        Dom.make("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, format.number(value)),
      );
    }
    DEPTHS.forEach((depth) =>
      svg.append(Dom.make("text", { x: x(depth), y: HEIGHT - 8, "text-anchor": "middle" }, String(depth))),
    );
    svg.append(Dom.make("text", { x: WIDTH - RIGHT + 12, y: HEIGHT - 8 }, "PIPE_DEPTH"));
    const ends = [];
    for (const { mode, colour, dash, values } of lines) {
      svg.append(
        Dom.make("path", {
          class: "line",
          stroke: colour,
          "stroke-dasharray": dash,
          d: values.map((value, i) => `${i ? "L" : "M"}${x(i + 1)} ${y(value)}`).join(""),
        }),
      );
      values.forEach((value, i) => {
        const here = mode === current(state, data).mode && (i + 1 === current(state, data).depth || mode === "serial");
        if (mode === "serial" && i) return;
        const fits = State.fits(i + 1, data);
        const dot = Dom.make(
          "circle",
          {
            cx: x(i + 1),
            cy: y(value),
            r: here ? 6 : 4,
            class: here ? "here" : "",
            fill: fits ? colour : "var(--card)",
            stroke: colour,
            style: "cursor:pointer",
          },
          Dom.make(
            "title",
            {},
            `${mode}, depth ${i + 1}: ${format.long(value)}${fits ? "" : ", which does not fit into shared memory"}`,
          ),
        );
        dot.addEventListener("click", () => choose(mode, i + 1));
        svg.append(dot);
      });
      let at = y(values.at(-1)) + 4;
      for (const end of ends.sort((a, b) => a - b)) if (Math.abs(end - at) < 14) at = end + 14;
      ends.push(at);
      svg.append(Dom.make("text", { class: "name", x: WIDTH - RIGHT + 12, y: at, style: `fill:${colour}` }, mode));
    }
    host.replaceChildren(
      svg,
      Dom.element(
        "p",
        {},
        `${state.ktiles} K tile${state.ktiles > 1 ? "s" : ""}, load : MMA ${State.ratio(state, data).toFixed(2)}, ${state.costs === "chip" ? `costs of ${data.target}` : "abstract costs"}. The large circle is the schedule shown; a click on a point shows that one.${DEPTHS.every((depth) => State.fits(depth, data)) ? "" : " Empty points do not fit into shared memory."}`,
      ),
    );
  }

  /** The mode and depth that are shown. */
  function current(state, data) {
    return state.mode === "compiled" ? { mode: data.gemm.mode, depth: data.gemm.depth } : state;
  }

  return { draw };
})();
