"use strict";
/* What the compiler would make of a GEMM loop in another mode: the steps of a CTA, from the facts of the kernel at hand.

   serial    passes `tma`: one slot, and everybody waits for each load and for each MMA
   prefetch  passes `tma,pipeline(depth)`: a ring is filled first; a slot is loaded again once the MMA of `lag` turns ago is complete
   roles     as in lesson 10: one role loads, one issues the MMAs, one stores; they hand slots to each other through two barriers a stage */
const Schedules = (() => {
  /** The compiler's own choice: from three stages on one MMA runs while the next is issued. */
  const defaultLag = (depth) => (depth <= 2 ? 0 : 1);

  class Steps {
    constructor(facts) {
      this.facts = facts;
      this.flow = [];
      this.rounds = new Map();
      this.tile = 0;
      this.k = null;
    }

    add(op, line, fields = {}) {
      this.flow.push({ op, line: line ?? null, tile: this.tile, k: this.k, ...fields });
    }

    iterate(k) {
      this.k = k;
      this.add("iterate", null);
    }

    over() {
      this.k = null;
    }

    /** Wait for the round that follows those waited for before; who starts with parity 1 finds the first one complete. */
    wait(name, stage, line, first = 0) {
      const key = `${name} ${stage}`,
        rounds = this.rounds.get(key) ?? 0;
      this.rounds.set(key, rounds + 1);
      this.add("wait", line, { barrier: [name, stage], parity: (rounds + first) & 1 });
    }

    loads(stage, k, tile) {
      const { full, loads, lines } = this.facts,
        bytes = loads.reduce((sum, load) => sum + load.bytes, 0);
      const [tileNow, kNow] = [this.tile, this.k];
      [this.tile, this.k] = [tile, k];
      this.add("expect", lines.expect, { barrier: [full, stage], bytes });
      for (const load of loads)
        this.add("load", load.line, {
          barrier: [full, stage],
          slot: [load.slot, stage],
          bytes: load.bytes,
          place: place(load, k),
        });
      [this.tile, this.k] = [tileNow, kNow];
    }

    mma(stage, signal, slot) {
      const { loads, macs, lines } = this.facts;
      this.add("mma", lines.mma, { macs, reads: loads.map((load) => [load.slot, stage]) });
      this.add("commit", lines.mma, { barrier: [signal, slot] });
    }

    /** Steps of the kernel itself, for this tile. */
    insert(steps) {
      for (const step of steps) this.flow.push({ ...step, tile: this.tile, k: null });
    }
  }

  function place(load, k) {
    if (!load.stride) return `${load.view}, K tile ${k}`;
    return `${load.view}[${load.origin.map((start, i) => start + k * load.stride[i]).join(", ")}]`;
  }

  const counts = (barriers) =>
    Object.fromEntries(
      barriers.flatMap(([name, depth]) => Array.from({ length: depth }, (_, stage) => [`${name}[${stage}]`, 1])),
    );

  function serial(facts, { ktiles, tiles }) {
    const steps = new Steps(facts),
      { full, done, lines } = facts;
    steps.insert(facts.before);
    for (let tile = 0; tile < tiles; tile += 1) {
      steps.tile = tile;
      if (facts.persistent) {
        steps.add("schedule", lines.schedule);
        steps.add("schedule", lines.schedule);
      }
      for (let k = 0; k < ktiles; k += 1) {
        steps.iterate(k);
        steps.loads(0, k, tile);
        steps.wait(full, 0, lines.wait);
        steps.mma(0, done, 0);
        steps.wait(done, 0, lines.done);
      }
      steps.over();
      steps.insert(facts.epilogue);
    }
    if (facts.persistent) steps.add("schedule", lines.schedule);
    steps.insert(facts.after);
    return {
      flows: [steps.flow],
      names: ["threads"],
      counts: counts([
        [full, 1],
        [done, 1],
      ]),
    };
  }

  function prefetch(facts, { depth, lag, ktiles, tiles }) {
    const steps = new Steps(facts),
      { full, done, lines } = facts,
      slots = lag ? depth : 1;
    let loaded = 0,
      multiplied = 0;
    const fill = (tile) => {
      const first = loaded;
      for (let ahead = 0; ahead < depth; ahead += 1) {
        steps.iterate(ahead);
        if (ahead < ktiles) {
          steps.loads((first + ahead) % depth, ahead, tile);
          loaded += 1;
        }
      }
      steps.over();
    };
    /** The MMA of `earlier` turns ago: before any has run its barrier reads as complete. */
    const waitForMma = (earlier, line) => {
      const number = multiplied - 1 - earlier,
        round = Math.floor(number / slots);
      steps.add("wait", line, { barrier: [done, ((number % slots) + slots) % slots], parity: round & 1 });
    };
    steps.insert(facts.before);
    if (facts.persistent) steps.add("schedule", lines.schedule);
    fill(0);
    for (let tile = 0; tile < tiles; tile += 1) {
      steps.tile = tile;
      if (facts.persistent) steps.add("schedule", lines.schedule);
      if (facts.persistent && !lag) steps.add("schedule", lines.schedule);
      for (let k = 0; k < ktiles; k += 1) {
        const stage = multiplied % depth;
        steps.iterate(k);
        steps.wait(full, stage, lines.wait);
        steps.mma(stage, done, multiplied % slots);
        multiplied += 1;
        waitForMma(lag, lines.done);
        const next = k - lag + depth;
        if (k >= lag && next < ktiles) {
          steps.loads(loaded % depth, next, tile);
          loaded += 1;
        }
      }
      steps.over();
      for (let earlier = lag - 1; earlier >= 0; earlier -= 1) {
        if (facts.persistent && earlier === 0) steps.add("schedule", lines.schedule); // during the last wait
        waitForMma(earlier, lines.drain);
      }
      if (facts.persistent && tile + 1 < tiles) fill(tile + 1);
      steps.insert(facts.epilogue);
    }
    if (facts.persistent) steps.add("schedule", lines.schedule);
    steps.insert(facts.after);
    return {
      flows: [steps.flow],
      names: ["threads"],
      counts: counts([
        [full, depth],
        [done, slots],
      ]),
    };
  }

  function roles(facts, { depth, ktiles, tiles }) {
    const { full, lines, loads } = facts,
      [empty, ready, free] = ["empty", "acc_ready", "acc_free"];
    const main = new Steps(facts),
      load = new Steps(facts),
      mma = new Steps(facts),
      store = new Steps(facts);
    const works = (kind) => facts.epilogue.filter((step) => step.op === "work" && step.kind === kind),
      stores = facts.epilogue.filter((step) => step.op === "store");
    main.add("sync", lines.sync);
    main.add("fork", null);
    main.add("sync", lines.sync);
    for (let tile = 0, number = 0; tile < tiles; tile += 1) {
      load.tile = mma.tile = store.tile = tile;
      load.add("schedule", lines.schedule);
      load.add("schedule", lines.schedule);
      mma.add("schedule", lines.schedule);
      if (ktiles) mma.wait(free, 0, lines.mma, 1);
      for (let k = 0; k < ktiles; k += 1, number += 1) {
        const stage = number % depth;
        load.iterate(k);
        load.wait(empty, stage, lines.expect, 1);
        load.loads(stage, k, tile);
        mma.iterate(k);
        mma.wait(full, stage, lines.wait);
        mma.add("sync", lines.wait);
        mma.mma(stage, empty, stage);
      }
      load.over();
      mma.over();
      if (ktiles) mma.add("commit", lines.mma, { barrier: [ready, 0] });
      store.add("schedule", lines.schedule);
      store.add("schedule", lines.schedule);
      store.add("wait_group", lines.store, { pending: 0, read: true });
      store.add("sync", lines.store);
      if (ktiles) {
        store.wait(ready, 0, lines.store);
        store.insert(works("accumulator"));
        store.add("arrive", lines.store, { barrier: [free, 0] });
      }
      store.insert(works("compute"));
      store.insert(works("shared"));
      store.add("sync", lines.store);
      store.insert(stores);
      if (stores.length) store.add("commit_group", lines.store);
    }
    for (const flow of [load, mma, store]) flow.add("schedule", lines.schedule);
    store.add("wait_group", lines.store, { pending: 0, read: false });
    return {
      flows: [main, load, mma, store].map((steps) => steps.flow),
      names: ["threads", "load", "mma", "store"],
      counts: counts([
        [full, depth],
        [empty, depth],
        [ready, 1],
        [free, 1],
      ]),
    };
  }

  /** The costs for a ratio of the load time of a K tile to its MMA time; null leaves the chip's own. */
  function costsFor(kind, ratio, facts, chip) {
    const bytes = facts.loads.reduce((sum, load) => sum + load.bytes, 0);
    if (kind === "abstract") {
      const free = Object.fromEntries(Object.keys(chip).map((name) => [name, name.endsWith("_rate") ? Infinity : 0]));
      return { ...free, mma_rate: facts.macs, load_rate: ratio ? bytes / ratio : Infinity };
    }
    if (ratio === null) return chip;
    return { ...chip, load_rate: ratio ? bytes / (ratio * (facts.macs / chip.mma_rate)) : Infinity };
  }

  /** The load:MMA ratio that costs have of themselves. */
  function ratioOf(costs, facts) {
    return facts.loads.reduce((sum, load) => sum + load.bytes, 0) / costs.load_rate / (facts.macs / costs.mma_rate);
  }

  /** A schedule played in time. CTAs are executed one after another, `resident` at a time; with roles each place has one that goes on,
      and these take turns at the output tiles. */
  function play(facts, { mode, depth, ktiles, lag = defaultLag(depth) }, costs) {
    const { tiles, resident } = facts,
      places = Math.min(tiles.length, resident),
      total = tiles.reduce((sum, count) => sum + count, 0);
    const shares = mode === "roles" ? Array.from({ length: places }, (_, i) => Math.ceil((total - i) / places)) : tiles;
    const make = { serial, prefetch, roles }[mode],
      made = new Map();
    for (const count of shares)
      if (!made.has(count)) made.set(count, make(facts, { depth, lag, ktiles, tiles: count }));
    return Replay.replay(
      shares.map((count) => made.get(count)),
      costs,
      resident,
    );
  }

  return { play, costsFor, ratioOf, defaultLag };
})();
