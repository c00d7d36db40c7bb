"use strict";
/* Who waits: flows for their turn, and rounds of mbarriers for what completes them. */
const Waiting = (() => {
  const later = (a, b) => a[0] - b[0] || a[1] - b[1];

  /** The least of what is in it, by clock and then by turn: a binary heap. */
  class Queue {
    items = [];
    get first() {
      return this.items[0];
    }
    push(item) {
      const items = this.items;
      let at = items.push(item) - 1;
      for (let up; at && later(items[at], items[(up = (at - 1) >> 1)]) < 0; at = up)
        [items[at], items[up]] = [items[up], items[at]];
    }
    pop() {
      const items = this.items,
        top = items[0],
        last = items.pop();
      if (!items.length) return top;
      items[0] = last;
      for (let at = 0; ;) {
        let least = at;
        for (const down of [2 * at + 1, 2 * at + 2])
          if (down < items.length && later(items[down], items[least]) < 0) least = down;
        if (least === at) return top;
        [items[at], items[least]] = [items[least], items[at]];
        at = least;
      }
    }
  }

  class Mbarrier {
    arrived = 0;
    owed = 0;
    latest = 0;
    source = null;
    times = [];
    sources = [];
    waiting = [];
    load = null;
    constructor(count) {
      this.count = count;
    }
    take(time, source, arrivals, bytes) {
      this.arrived += arrivals;
      this.owed += bytes;
      if (time >= this.latest) [this.latest, this.source] = [time, source];
      if (this.arrived < this.count || this.owed) return false;
      this.times.push(this.latest);
      this.sources.push(this.source);
      [this.arrived, this.latest, this.source, this.load] = [0, 0, null, null];
      return true;
    }
    /** Rounds that are complete at `time`. */
    completed(time) {
      let low = 0,
        high = this.times.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (time < this.times[middle]) high = middle;
        else low = middle + 1;
      }
      return low;
    }
  }

  return { Queue, Mbarrier };
})();
