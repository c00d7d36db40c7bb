"use strict";
/* Which of many intervals lie in a window of time. */
const Sight = (() => {
  class Sight {
    /** Of items, and the functions that tell where each begins and ends. */
    constructor(items, start, end) {
      this.items = [...items].sort((a, b) => start(a) - start(b));
      this.starts = this.items.map(start);
      this.end = end;
      this.longest = this.items.reduce((most, item) => Math.max(most, end(item) - start(item)), 0);
    }

    /** In the order of their starts. None that begins earlier than the longest lasts can reach into the window. */
    within(from, to) {
      const found = [];
      for (let i = this.first(from - this.longest); i < this.items.length && this.starts[i] <= to; i += 1)
        if (this.end(this.items[i]) >= from) found.push(this.items[i]);
      return found;
    }

    /** The first item that does not start before `time`. */
    first(time) {
      let low = 0,
        high = this.starts.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (this.starts[middle] < time) low = middle + 1;
        else high = middle;
      }
      return low;
    }
  }

  return Sight;
})();
