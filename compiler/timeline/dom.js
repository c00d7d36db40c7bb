"use strict";
/* Elements of the page, and of the drawings in it. */
const Dom = (() => {
  const NS = "http://www.w3.org/2000/svg";
  const $ = (id) => document.getElementById(id);

  function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) if (value !== null) made.setAttribute(key, value);
    made.append(...children.filter((child) => child !== null));
    return made;
  }

  function make(name, attributes = {}, ...children) {
    const element = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  }

  return { $, element, make };
})();
