"use strict";
/* Which schedule is shown: what the controls say, and the same in the address behind #. */
const State = (() => {
  const MODES = ["compiled", "serial", "prefetch", "roles"],
    COSTS = ["chip", "abstract"],
    LESSON_RATIO = 1.2;

  /** What the controls offer; and what was compiled, where that is beyond. */
  function limits({ gemm, costs }) {
    const ratios = [0.1, 4, costs.ratio ?? LESSON_RATIO, gemm ? Schedules.ratioOf(costs.chip, gemm) : LESSON_RATIO];
    return {
      depth: [1, Math.max(8, gemm?.depth ?? 1)],
      ktiles: [1, Math.max(64, gemm?.ktiles ?? 1)],
      ratio: [Math.min(...ratios), Math.max(...ratios)],
      span: [0, Infinity],
    };
  }

  /** What was compiled. A `ratio` of null is that of the costs themselves; `span` is the one that is pinned. */
  function base(data) {
    return {
      mode: "compiled",
      depth: data.gemm?.depth ?? 1,
      ktiles: data.gemm?.ktiles ?? 1,
      costs: data.costs.kind,
      ratio: data.costs.ratio,
      span: null,
    };
  }

  /** The state that an address names; what it does not name, or names wrongly, is as compiled. */
  function fromHash(hash, data) {
    const state = base(data),
      given = new URLSearchParams(hash.replace(/^#/, ""));
    const number = (name, whole) => {
      const value = Number(given.get(name)),
        [least, most] = limits(data)[name];
      if (
        given.has(name) &&
        Number.isFinite(value) &&
        value >= least &&
        value <= most &&
        (!whole || Number.isInteger(value))
      )
        state[name] = value;
    };
    if (given.has("costs") && COSTS.includes(given.get("costs")) && given.get("costs") !== state.costs)
      Object.assign(state, { costs: given.get("costs"), ratio: null });
    if (MODES.includes(given.get("mode"))) state.mode = given.get("mode");
    number("depth", true);
    number("ktiles", true);
    number("ratio", false);
    number("span", true);
    return settled(state, data);
  }

  /** Without a GEMM loop there is one schedule; and one that differs from what was compiled is not "as compiled". The costs of the
      compiled schedule have its ratio, unless another is set: an address and the controls lead to the same. */
  function settled(given, data) {
    const first = base(data);
    if (!data.gemm) return { ...first, span: given.span };
    const state = given.costs === first.costs && given.ratio === null ? { ...given, ratio: first.ratio } : given;
    if (state.mode !== "compiled") return state;
    const { mode } = data.gemm,
      changed = (name) => state[name] !== first[name];
    if (changed("depth")) return { ...state, mode: "prefetch" };
    return ["ktiles", "ratio", "costs"].some(changed) ? { ...state, mode } : state;
  }

  function toHash(state, data) {
    const { mode, depth, ktiles, ratio, costs, span } = state;
    const schedule = mode === "compiled" ? {} : { mode, depth, ktiles, ...(ratio === null ? {} : { ratio }), costs };
    const given = { ...schedule, ...(span === null ? {} : { span }) };
    if (!Object.keys(given).length) return "";
    return `#${new URLSearchParams(Object.entries(given).map(([name, value]) => [name, String(value)]))}`;
  }

  /** The ratio that the costs of a state have. */
  function ratio(state, data) {
    if (state.ratio !== null) return state.ratio;
    return state.costs === "abstract" ? LESSON_RATIO : Schedules.ratioOf(data.costs.chip, data.gemm);
  }

  function costs(state, data) {
    return Schedules.costsFor(
      state.costs,
      state.costs === "abstract" ? ratio(state, data) : state.ratio,
      data.gemm,
      data.costs.chip,
    );
  }

  /** Slots of the ring of a schedule. */
  const slots = ({ mode, depth }) => (mode === "serial" ? 1 : depth);

  function fits(depth, { memory }) {
    return memory.other + depth * memory.stage <= memory.limit;
  }

  /** The facts of the kernel with a ring of another depth: as many CTAs share the multiprocessor as compiled, or as its shared memory holds. */
  function at(depth, { gemm, memory }) {
    const bytes = memory.other + depth * memory.stage + memory.reserved,
      room = Math.max(1, Math.floor(memory.of_multiprocessor / bytes));
    return { ...gemm, resident: depth === gemm.depth ? gemm.resident : Math.min(gemm.resident, room) };
  }

  /** The trace of a state, and that of the compiled schedule with the same loop and costs. */
  function play(state, data) {
    if (state.mode === "compiled") return { trace: data.trace, compiled: null };
    const { mode, depth, lag } = data.gemm,
      given = costs(state, data),
      { ktiles } = state;
    return {
      trace: Schedules.play(at(slots(state), data), { mode: state.mode, depth: state.depth, ktiles }, given),
      compiled: Schedules.play(data.gemm, { mode, depth, lag, ktiles }, given),
    };
  }

  return { base, fromHash, toHash, settled, ratio, costs, limits, fits, at, slots, play };
})();
