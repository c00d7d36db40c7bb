"use strict";
/* The way through a drawing by pointer and by keyboard. */
const Chart = (() => {
  class Chart extends Drawing {
    constructor(host, overview, handlers) {
      super(host, overview, handlers);
      this.listen();
    }

    activate(index) {
      this.active = index;
      this.paint();
      this.handlers.active(index);
    }

    /** Move the focus to a span, bringing it into view. */
    focus(index) {
      const span = this.trace.spans[index],
        length = this.to - this.from;
      const away = span.start < this.from || span.end > this.to;
      if (away) {
        this.from = (span.start + span.end) / 2 - length / 2;
        this.to = this.from + length;
        this.clamp();
      }
      this.active = index;
      if (away || !this.element(index)) this.draw();
      this.element(index)?.focus({ preventScroll: false });
      this.activate(index);
    }

    pin(index) {
      this.pinned = this.pinned === index ? null : index;
      this.activate(index);
      this.handlers.pinned(this.pinned);
    }

    listen() {
      const host = this.host,
        indexOf = (event) => {
          const element = event.target.closest?.(".span");
          return element ? Number(element.dataset.index) : null;
        };
      host.addEventListener("keydown", (event) => this.key(event, indexOf(event)));
      host.addEventListener("focusin", (event) => {
        const index = indexOf(event);
        if (index !== null && index !== this.active) this.activate(index);
      });
      host.addEventListener("focusout", (event) => {
        if (!host.contains(event.relatedTarget)) {
          this.activate(this.pinned);
          this.handlers.tip(null);
        }
      });
      host.addEventListener(
        "wheel",
        (event) => {
          const mine = event.ctrlKey || event.metaKey || host.contains(document.activeElement);
          const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey;
          if (!mine && !sideways) return; // the page scrolls
          event.preventDefault();
          const x = event.clientX - host.getBoundingClientRect().left;
          if (sideways) this.pan((event.deltaX || event.deltaY) / this.width);
          else
            this.zoom(Math.exp((Math.sign(event.deltaY) * Math.min(Math.abs(event.deltaY), 120)) / 400), this.time(x));
        },
        { passive: false },
      );
      host.addEventListener("pointermove", (event) => this.move(event, indexOf(event)));
      host.addEventListener("pointerleave", () => {
        this.handlers.tip(null);
        if (!host.contains(document.activeElement)) this.activate(this.pinned);
      });
      host.addEventListener("pointerdown", (event) => {
        if (event.button !== 0) return;
        this.drag = { x: event.clientX, from: this.from, to: this.to, moved: false, id: event.pointerId };
      });
      const drop = () => {
        this.drag = null;
        host.classList.remove("dragging");
      };
      host.addEventListener("pointerup", drop);
      host.addEventListener("pointercancel", drop);
      host.addEventListener("click", (event) => {
        const index = indexOf(event);
        if (index !== null && !this.moved) this.pin(index);
      });
      this.overview.addEventListener("pointerdown", (event) => this.jump(event));
      this.overview.addEventListener("pointermove", (event) => {
        if (event.buttons & 1) this.jump(event);
      });
    }

    move(event, index) {
      if (this.drag) {
        const shift = ((this.drag.x - event.clientX) / this.width) * (this.drag.to - this.drag.from);
        this.moved = this.drag.moved ||= Math.abs(this.drag.x - event.clientX) > 4;
        if (!this.drag.moved) return;
        this.host.setPointerCapture(this.drag.id);
        this.host.classList.add("dragging");
        this.handlers.tip(null);
        [this.from, this.to] = [this.drag.from + shift, this.drag.to + shift];
        this.clamp();
        this.draw();
        return;
      }
      this.moved = false;
      if (index !== null && index !== this.active) this.activate(index);
      if (index === null && this.active !== this.pinned && !this.svg.contains(document.activeElement))
        this.activate(this.pinned);
      this.handlers.tip(index, event.clientX, event.clientY);
    }

    jump(event) {
      const x = event.clientX - this.overview.getBoundingClientRect().left,
        length = this.to - this.from;
      this.from = ((x - this.gutter) / this.width) * this.end - length / 2;
      this.to = this.from + length;
      this.clamp();
      this.draw();
    }

    key(event, index) {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const act = {
        "+": () => this.zoom(0.7),
        "=": () => this.zoom(0.7),
        "-": () => this.zoom(1 / 0.7),
        _: () => this.zoom(1 / 0.7),
        0: () => this.all(),
        ArrowLeft: () => (index === null || event.shiftKey ? this.pan(-0.15) : this.step(index, -1)),
        ArrowRight: () => (index === null || event.shiftKey ? this.pan(0.15) : this.step(index, 1)),
        ArrowUp: () => this.across(index, -1),
        ArrowDown: () => this.across(index, 1),
        Home: () => this.toEnd(index, 0),
        End: () => this.toEnd(index, -1),
        Enter: () => (index === null ? this.enter() : this.pin(index)),
        " ": () => (index === null ? this.enter() : this.pin(index)),
        Escape: () => {
          this.pinned = null;
          this.host.focus();
          this.activate(null);
          this.handlers.pinned(null);
        },
      }[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    }

    enter() {
      const first = this.layout.lanes
        .flatMap((lane) => lane.spans)
        .find(({ index }) => this.trace.spans[index].end > this.from);
      if (first) this.focus(this.pinned ?? first.index);
    }

    /** The spans of the lane that a span is in. */
    beside(index) {
      return this.layout.lanes[this.layout.places.get(index).lane].spans;
    }

    step(index, by) {
      const next = this.beside(index)[this.layout.places.get(index).at + by];
      if (next) this.focus(next.index);
    }

    toEnd(index, at) {
      if (index === null) {
        const length = this.to - this.from;
        this.from = at ? this.end - length : 0;
        this.to = this.from + length;
        this.clamp();
        this.draw();
        return;
      }
      this.focus(this.beside(index).at(at).index);
    }

    /** To the span of the next lane that is nearest in time. */
    across(index, by) {
      if (index === null) {
        this.enter();
        return;
      }
      const time = this.trace.spans[index].start;
      for (let at = this.layout.places.get(index).lane + by; this.layout.lanes[at]; at += by) {
        const { spans } = this.layout.lanes[at];
        if (!spans.length) continue;
        const distance = (span) => Math.abs(this.trace.spans[span.index].start - time);
        this.focus(spans.reduce((best, span) => (distance(span) < distance(best) ? span : best)).index);
        return;
      }
    }
  }

  return Chart;
})();
