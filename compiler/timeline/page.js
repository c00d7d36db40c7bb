"use strict";
/* Puts the parts together: what the controls say is the state, and all that is shown follows from it. */
const Page = (() => {
  const { $, element } = Dom;
  const data = JSON.parse($("document").textContent);
  data.costs.chip = Object.fromEntries(
    Object.entries(data.costs.chip).map(([name, value]) => [name, value ?? Infinity]),
  );
  const SWEEP_DELAY = 80; // milliseconds: 24 replays are not made at each step of a slider
  let state, shown, format, chart, waiting;

  /** The schedules of this page are offered only where they give what was compiled. */
  function check() {
    if (!data.gemm) return data.why_not;
    const model = remade();
    const close = (a, b) => Math.abs(a - b) <= 1e-9 * Math.max(1, Math.abs(b));
    const same =
      model !== null &&
      close(model.makespan, data.kpis.makespan) &&
      close(model.idle, data.kpis.idle) &&
      model.loads_in_flight === data.kpis.loads_in_flight;
    return same
      ? null
      : "The tiles of this kernel do more than the plain GEMM loop that this page knows: its other schedules would not be those of this kernel.";
  }

  /** The figures of the compiled schedule as this page makes it; null where that comes to a wait that never ends. */
  function remade() {
    const { mode, depth, lag, ktiles } = data.gemm;
    const given = Schedules.costsFor(data.costs.kind, data.costs.ratio, data.gemm, data.costs.chip);
    try {
      return Trace.kpis(Schedules.play(data.gemm, { mode, depth, lag, ktiles }, given));
    } catch {
      return null;
    }
  }

  function head() {
    $("title").textContent = `${data.kernel}: one multiprocessor in time`;
    const facts = [
      ["target", data.target],
      ["passes", data.pipeline || "as written"],
      [
        "shape",
        Object.entries(data.shape)
          .map(([name, extent]) => `${name} = ${extent}`)
          .join(", ") || "fixed",
      ],
      ["drawn", data.amount],
      ["clock", `${data.clock_ghz} GHz`],
    ];
    $("facts").replaceChildren(...facts.map(([name, text]) => element("li", {}, element("b", {}, name), text)));
    $("story").textContent =
      (data.shape_was_chosen
        ? "The shape is a small one, chosen so that each step can be seen; --shape gives another. "
        : "It is played as if it were alone: the other multiprocessors' part of L2 and memory and the power limit are in tilec predict. ") +
      "Rows are the engines of a multiprocessor and the threads that drive them. Colour and number tell the slot of the ring; an arrow ends where it lets a wait pass.";
    $("costs-chip").textContent = data.target;
    for (const [name, [least, most]] of Object.entries(State.limits(data)).filter(([name]) => $(name)))
      Object.assign($(name), { min: least, max: most });
  }

  function show(next, { write = true } = {}) {
    state = State.settled(next, data);
    shown = State.play(state, data);
    format = Words.formatter(state.costs, data.clock_ghz);
    controls();
    Figures.figures(shown.trace, shown.compiled, format);
    const used = data.gemm ? State.costs(state, data) : data.costs.chip;
    $("insight").textContent = Figures.insight(shown.trace, data.gemm, used, format);
    chart.show(shown.trace, format);
    Panels.legend(shown.trace);
    if ($("table-card").open) Panels.table(shown.trace, format);
    Panels.costs(data, used);
    clearTimeout(waiting);
    if (data.gemm)
      waiting = setTimeout(
        () => Sweep.draw($("sweep"), state, data, format, (mode, depth) => change({ mode, depth })),
        SWEEP_DELAY,
      );
    $("chart-title").textContent = `Timeline: ${words()}`;
    room();
    if (state.span !== null && state.span < shown.trace.spans.length) chart.pin(state.span);
    if (write) remember();
  }

  function remember() {
    history.replaceState(null, "", State.toHash(state, data) || location.pathname + location.search);
  }

  /** Another schedule, in which nothing is pinned. */
  function change(to) {
    show({ ...state, ...to, span: null });
  }

  /** A deeper ring than shared memory holds is drawn all the same, and said not to fit; so is one that leaves room for fewer CTAs. */
  function room() {
    const text = data.gemm && state.mode !== "compiled" ? crowding(State.slots(state)) : "";
    $("no-room").hidden = !text;
    $("no-room").textContent = text;
  }

  function crowding(depth) {
    const { stage, other, limit } = data.memory,
      kib = (bytes) => Math.round(bytes / 1024),
      { resident } = State.at(depth, data),
      compiled = Math.min(data.gemm.resident, data.gemm.tiles.length);
    if (!State.fits(depth, data))
      return `A ring of ${depth} does not fit into shared memory: it takes about ${kib(other + depth * stage)} KiB with the rest, and a CTA of ${data.target} has ${kib(limit)}.`;
    if (resident < compiled)
      return `A ring of ${depth} leaves room for ${resident} CTA${resident > 1 ? "s" : ""} at a time on a multiprocessor; as compiled it holds ${compiled}.`;
    return "";
  }

  function words() {
    const { mode, depth } = state;
    if (mode === "compiled") return "as compiled";
    return {
      serial: "serial, one slot",
      roles: `roles, ring of ${depth}`,
      prefetch: `prefetch, ring of ${depth}, lag ${Schedules.defaultLag(depth)}`,
    }[mode];
  }

  function controls() {
    document.querySelector(`input[name=mode][value=${state.mode}]`).checked = true;
    document.querySelector(`input[name=costs][value=${state.costs}]`).checked = true;
    const serial = state.mode === "serial" || (state.mode === "compiled" && data.gemm?.mode === "serial");
    $("depth").value = serial && state.mode === "compiled" ? 1 : state.depth;
    $("depth-shown").textContent = state.mode === "serial" ? "1" : state.depth;
    $("ktiles").value = state.ktiles;
    $("ktiles-shown").textContent = state.ktiles;
    if (!data.gemm) return;
    const ratio = State.ratio(state, data);
    $("ratio").value = ratio;
    $("ratio-shown").textContent =
      `${ratio.toFixed(2)}${state.ratio === null && state.costs === "chip" ? " (chip)" : ""}`;
    $("depth").disabled = state.mode === "serial";
    $("depth")
      .closest(".slider")
      .classList.toggle("off", state.mode === "serial");
  }

  function disable(why) {
    data.gemm = null;
    for (const input of $("controls").querySelectorAll("input, button")) input.disabled = true;
    for (const slider of $("controls").querySelectorAll(".slider")) slider.hidden = true;
    $("why-not").hidden = false;
    $("sweep-card").hidden = true;
    $("why-not").textContent = why;
  }

  function listen() {
    for (const input of document.querySelectorAll("input[name=mode]"))
      input.addEventListener("change", () =>
        show(input.value === "compiled" ? State.base(data) : { ...state, span: null, mode: input.value }),
      );
    for (const input of document.querySelectorAll("input[name=costs]"))
      input.addEventListener("change", () => change({ costs: input.value, ratio: null }));
    $("depth").addEventListener("input", (event) => change({ depth: event.target.valueAsNumber }));
    $("ktiles").addEventListener("input", (event) => change({ ktiles: event.target.valueAsNumber }));
    $("ratio").addEventListener("input", (event) => change({ ratio: event.target.valueAsNumber }));
    $("reset").addEventListener("click", () => {
      show(State.base(data));
      chart.all();
    });
    $("controls").addEventListener("submit", (event) => event.preventDefault());
    window.addEventListener("hashchange", () => show(State.fromHash(location.hash, data), { write: false }));
    $("zoom-in").addEventListener("click", () => chart.zoom(0.7));
    $("zoom-out").addEventListener("click", () => chart.zoom(1 / 0.7));
    $("zoom-all").addEventListener("click", () => chart.all());
    $("pan-left").addEventListener("click", () => chart.pan(-0.25));
    $("pan-right").addEventListener("click", () => chart.pan(0.25));
    $("table-card").addEventListener("toggle", () => {
      if ($("table-card").open) Panels.table(shown.trace, format);
    });
    $("skip").addEventListener("click", (event) => {
      event.preventDefault();
      $("chart").focus();
    });
  }

  function start() {
    head();
    Panels.program(data);
    const why = check();
    if (why) disable(why);
    chart = new Chart($("chart"), $("overview"), {
      describe: (span) => Words.describe(format)(span),
      labels: Words.labels,
      active: (index) => {
        Panels.detail(shown.trace, index, format, (other) => chart.focus(other));
        Panels.light(index === null ? [] : shown.trace.spans[index].lines);
      },
      pinned: (index) => {
        state.span = index;
        remember();
      },
      tip: (index, x, y) => Panels.tip(shown.trace, index, x, y, format),
    });
    listen();
    show(State.fromHash(location.hash, data), { write: false });
  }

  start();
  return {
    data,
    get state() {
      return state;
    },
    get shown() {
      return shown;
    },
    get chart() {
      return chart;
    },
    show,
  };
})();
