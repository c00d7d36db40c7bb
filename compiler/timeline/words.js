"use strict";
/* How times and spans are told. */
const Words = (() => {
  const DIGITS = [0, 1, 2].map((most) => new Intl.NumberFormat("en", { maximumFractionDigits: most }));

  /** How times are written: in the unit of the costs, and in nanoseconds where that is a cycle. */
  function formatter(kind, clock) {
    const whole = kind === "chip";
    const number = (time) => DIGITS[whole && Math.abs(time) >= 100 ? 0 : whole ? 1 : 2].format(time);
    const nanoseconds = whole ? (time) => DIGITS[time / clock >= 100 ? 0 : 1].format(time / clock) : null;
    const long = (time) => `${number(time)} ${whole ? "cycles" : "MMAs"}${whole ? ` (${nanoseconds(time)} ns)` : ""}`;
    return { unit: whole ? "cycles" : "unit: one MMA", short: whole ? "cycles" : "MMAs", number, nanoseconds, long };
  }

  const NAMES = {
    load: "Load",
    mma: "MMA",
    wait: "Wait",
    copy: "Copy by threads",
    epilogue: "Epilogue",
    store: "Store",
    setup: "Set-up",
    teardown: "Exit",
  };

  function title(span) {
    const tile = span.tile ? `, tile ${span.tile}` : "";
    if (span.kind === "load" || span.kind === "mma")
      return span.k === null ? NAMES[span.kind] : `${NAMES[span.kind]} of K tile ${span.k}${tile}`;
    return `${span.kind === "wait" ? span.what[0].toUpperCase() + span.what.slice(1) : NAMES[span.kind]}${tile}`;
  }

  const small = (text) => (text.startsWith("MMA") ? text : text[0].toLowerCase() + text.slice(1));

  function labels(span) {
    const { kind, k, stage, phase } = span;
    if ((kind === "load" || kind === "mma") && k !== null) {
      const word = kind === "load" ? "load" : "MMA";
      return [
        `${word} K ${k} · slot ${stage} · phase ${phase}`,
        `K ${k} · slot ${stage} · ph ${phase}`,
        `K ${k} · s${stage}`,
        `K ${k}`,
        `${k}`,
      ];
    }
    if (kind === "wait") return [span.what, span.what.replace("wait for ", "")];
    return (
      {
        epilogue: ["epilogue", "epi"],
        store: ["TMA store", "store"],
        setup: [span.what, "setup"],
        teardown: ["exit"],
        copy: [span.what, "copy"],
      }[kind] ?? [span.what]
    );
  }

  const describe = (format) => (span) =>
    `${span.lane}: ${title(span)}, from ${format.number(span.start)} to ${format.number(span.end)} ${format.short}. ${span.what}. ${span.why}.` +
    (span.lines.length ? ` Line ${span.lines.join(", ")}.` : "");

  return { formatter, title, small, labels, describe };
})();
