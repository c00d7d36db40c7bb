"use strict";
/* Plays the steps of CTAs in time: backend/timeline/replay.py, line by line. Both give the same figures, to the last bit.

   A step is { op, line, tile, k, ... }. Barriers and slots are [name, stage]; a recording has `flows` of steps, their `names`, and
   `counts`: by the text of a barrier, the arrivals that complete a round of it. */
const Replay = (() => {
  const { Queue, Mbarrier } = Waiting;
  const AT_FIRST = "the CTA's start",
    GOLDEN = 0.6180339887498949;
  const text = ([name, stage]) => `${name}[${stage}]`;

  class Multiprocessor {
    loadFree = 0;
    mmaFree = 0;
    storeFree = 0;
    makespan = 0;
    pushes = 0;
    loads = 0;
    drafts = [];
    links = [];
    ready = new Queue();
    unfinished = new Set();

    constructor(ctas, resident, costs) {
      this.costs = costs;
      this.queue = ctas.map((recording, number) => [number, recording]);
      const places = Math.min(resident, ctas.length);
      this.several = places > 1;
      for (let place = 0; place < places; place += 1) this.start(place, 0);
    }

    // ---- flows

    start(place, time) {
      if (!this.queue.length) return;
      const [number, recording] = this.queue.shift(),
        barriers = new Map();
      for (const [barrier, count] of Object.entries(recording.counts)) barriers.set(barrier, new Mbarrier(count));
      const cta = {
        recording,
        number,
        place,
        barriers,
        roles: 0,
        filled: new Map(),
      };
      const flow = this.flow(cta, 0, time),
        { start } = this.costs;
      if (start) this.draft(flow, "setup", time, time, time + start, "set up the CTA");
      flow.time += start;
      this.push(flow);
    }

    flow(cta, number, time) {
      const name = cta.recording.names[number];
      const flow = {
        cta,
        lane: this.several ? `${name} ${cta.place}` : name,
        todo: cta.recording.flows[number],
        time,
        at: 0,
        after: AT_FIRST,
        work: null,
        lastMma: null,
        mmaEnd: 0,
        groups: [],
        openGroup: [],
      };
      this.unfinished.add(flow);
      return flow;
    }

    push(flow) {
      this.ready.push([flow.time, (this.pushes += 1), flow]);
    }

    play() {
      while (this.ready.first) {
        const flow = this.ready.pop()[2],
          horizon = () => this.ready.first?.[0] ?? Infinity;
        let goes = true;
        while (goes && flow.time <= horizon()) {
          if (flow.at === flow.todo.length) {
            this.finish(flow);
            goes = false;
            break;
          }
          const step = flow.todo[flow.at];
          flow.at += 1;
          if (step.op !== "work") flow.work = null;
          goes = this[step.op](flow, step) !== false;
        }
        if (goes) this.push(flow);
      }
      for (const flow of this.unfinished) throw new Error(`${flow.lane} wait for ever at ${flow.todo[flow.at - 1].op}`);
    }

    finish(flow) {
      this.unfinished.delete(flow);
      const { cta } = flow,
        [first] = cta.recording.flows;
      if (flow.todo === first) {
        const end = flow.time + this.costs.end;
        if (this.costs.end) this.draft(flow, "teardown", flow.time, flow.time, end, "leave the multiprocessor");
        this.makespan = Math.max(this.makespan, end);
        this.start(cta.place, end);
        return;
      }
      cta.roles -= 1;
      const main = [...this.unfinished].find((one) => one.cta === cta && one.todo === first);
      if (flow.time >= main.time) [main.time, main.after] = [flow.time, `the end of role ${flow.lane}`];
      if (!cta.roles) this.push(main);
    }

    // ---- spans

    draft(
      flow,
      kind,
      issued,
      start,
      end,
      what,
      { step = null, lane = null, barrier = null, round = 0, source = null } = {},
    ) {
      this.drafts.push({
        lane: lane ?? flow.lane,
        kind,
        issued,
        start,
        end,
        cta: flow.cta.number,
        tile: step?.tile ?? 0,
        k: step?.k ?? null,
        stage: barrier ? barrier[1] : null,
        phase: barrier ? round & 1 : null,
        words: [what],
        lines: step?.line ? [step.line] : [],
        after: flow.after,
        busy: start > issued,
        source,
      });
      return this.drafts.length - 1;
    }

    // ---- mbarriers

    arrival(flow, name, time, source, arrivals, bytes) {
      const barrier = flow.cta.barriers.get(text(name));
      if (!barrier.take(time, source, arrivals, bytes)) return;
      for (const waiting of barrier.waiting) {
        waiting.at -= 1;
        this.push(waiting);
      }
      barrier.waiting = [];
    }

    expect(flow, step) {
      flow.time += this.costs.arrive;
      this.arrival(flow, step.barrier, flow.time, null, 1, step.bytes);
    }
    arrive(flow, step) {
      flow.time += this.costs.arrive;
      this.arrival(flow, step.barrier, flow.time, null, 1, 0);
    }

    commit(flow, step) {
      const done = flow.lastMma === null ? flow.time : flow.mmaEnd + this.costs.mma_latency;
      this.arrival(flow, step.barrier, Math.max(done, flow.time), flow.lastMma, 1, 0);
    }

    wait(flow, step) {
      const barrier = flow.cta.barriers.get(text(step.barrier)),
        completed = barrier.completed(flow.time);
      if ((completed & 1) !== step.parity) {
        flow.time += this.costs.wait;
        return true;
      }
      if (barrier.times.length === completed) {
        barrier.waiting.push(flow);
        return false;
      }
      this.waited(flow, step, barrier.times[completed] + this.costs.wait, text(step.barrier), {
        barrier: step.barrier,
        round: completed,
        source: barrier.sources[completed],
      });
      return true;
    }

    waited(flow, step, end, signal, { barrier = null, round = 0, source }) {
      const wait = this.draft(flow, "wait", flow.time, flow.time, end, `wait for ${signal}`, {
        step,
        barrier,
        round,
        source,
      });
      if (source !== null) this.links.push({ source, wait, signal });
      [flow.time, flow.after] = [end, `the wait for ${signal}`];
    }

    // ---- engines

    /** Of the latencies of loads: around 1, evenly, in an order without a pattern. */
    spread() {
      this.loads += 1;
      return 1 + this.costs.load_jitter * (2 * ((this.loads * GOLDEN) % 1) - 1);
    }

    load(flow, step) {
      const { costs } = this,
        barrier = flow.cta.barriers.get(text(step.barrier));
      flow.time += costs.load_issue;
      const start = Math.max(flow.time, this.loadFree);
      this.loadFree = start + step.bytes / costs.load_rate;
      const landed = this.loadFree + costs.load_latency * this.spread(),
        what = `${text(step.slot)} <- ${step.place}`;
      if (barrier.load === null) {
        barrier.load = this.draft(flow, "load", flow.time, start, landed, what, {
          step,
          lane: "TMA",
          barrier: step.barrier,
          round: barrier.times.length,
        });
      } else {
        const draft = this.drafts[barrier.load];
        draft.end = Math.max(draft.end, landed);
        draft.words.push(what);
        if (step.line) draft.lines.push(step.line);
      }
      flow.cta.filled.set(text(step.slot), barrier.load);
      this.arrival(flow, step.barrier, landed, barrier.load, 0, -step.bytes);
    }

    mma(flow, step) {
      const { costs } = this,
        { cta } = flow;
      flow.time += costs.mma_issue;
      const start = Math.max(flow.time, this.mmaFree);
      this.mmaFree = flow.mmaEnd = start + step.macs / costs.mma_rate;
      const loads = [
        ...new Set(
          step.reads
            .map(text)
            .filter((slot) => cta.filled.has(slot))
            .map((slot) => cta.filled.get(slot)),
        ),
      ];
      for (const load of loads) Object.assign(this.drafts[load], { tile: step.tile, k: step.k });
      flow.lastMma = this.draft(
        flow,
        "mma",
        flow.time,
        start,
        this.mmaFree,
        `MMA of ${step.reads.map(text).join(" and ")}`,
        { step, lane: "tensor core" },
      );
      if (new Set(loads.map((load) => this.drafts[load].stage)).size === 1) {
        const { stage, phase } = this.drafts[loads[0]];
        Object.assign(this.drafts[flow.lastMma], { stage, phase });
      }
    }

    store(flow, step) {
      const { costs } = this;
      flow.time += costs.store_issue;
      const start = Math.max(flow.time, this.storeFree);
      this.storeFree = start + step.bytes / costs.store_rate;
      const span = this.draft(flow, "store", flow.time, start, this.storeFree, `${step.place} <- ${text(step.slot)}`, {
        step,
        lane: "TMA store",
      });
      Object.assign(this.drafts[span], { stage: step.slot[1], k: null });
      flow.openGroup.push([this.storeFree, this.storeFree + costs.store_latency, span]);
    }

    commit_group(flow) {
      const { openGroup } = flow;
      if (!openGroup.length) return;
      flow.groups.push([
        Math.max(...openGroup.map((one) => one[0])),
        Math.max(...openGroup.map((one) => one[1])),
        openGroup.at(-1)[2],
      ]);
      flow.openGroup = [];
    }

    wait_group(flow, step) {
      const { groups } = flow,
        over = groups.slice(0, Math.max(groups.length - step.pending, 0)),
        which = step.read ? 0 : 1;
      flow.time += this.costs.wait;
      if (!over.length) return;
      const last = over.reduce((most, group) => (group[which] > most[which] ? group : most));
      if (last[which] > flow.time) this.waited(flow, step, last[which], "the bulk group", { source: last[2] });
      if (!step.read) groups.splice(0, over.length);
    }

    // ---- threads

    sync(flow) {
      flow.time += this.costs.sync;
    }
    iterate(flow) {
      flow.time += this.costs.iterate;
    }
    schedule(flow) {
      flow.time += this.costs.schedule;
    }

    fork(flow) {
      const roles = flow.cta.recording.flows.slice(1).map((_, i) => this.flow(flow.cta, i + 1, flow.time));
      flow.cta.roles = roles.length;
      roles.forEach((role) => this.push(role));
      return !roles.length;
    }

    work(flow, step) {
      const { costs } = this,
        { bytes } = step;
      const time = {
        accumulator: () => costs.work + bytes / costs.accumulator_rate,
        shared: () => costs.work + bytes / costs.shared_rate,
        compute: () => bytes / costs.compute_rate,
        gather: () => costs.work + costs.gather_latency + bytes / costs.gather_rate,
        scatter: () => costs.work + bytes / costs.scatter_rate,
      }[step.kind]();
      const kind = step.kind === "gather" ? "copy" : "epilogue",
        begin = flow.time;
      flow.time = begin + time;
      if (flow.work === null || flow.work.kind !== kind) {
        flow.work = this.drafts[this.draft(flow, kind, begin, begin, flow.time, step.what, { step })];
        if (kind === "epilogue") flow.work.k = null;
        return;
      }
      flow.work.end = flow.time;
      flow.work.words.push(step.what);
      if (step.line) flow.work.lines.push(step.line);
    }
  }

  /** The trace of the CTAs that one multiprocessor executes, `resident` at a time. */
  function replay(ctas, costs, resident = 1) {
    const machine = new Multiprocessor(ctas, resident, costs);
    machine.play();
    return Trace.of(machine);
  }

  return { replay };
})();
