// The words of a mark in a drawing, shown beside it to pointer, finger and arrow keys.
"use strict";
(() => {
  const tip = ctx.el("div.tip");
  tip.hidden = true;
  tip.setAttribute("role", "status");
  document.body.append(tip);
  let shown = null;

  const wordsOf = (mark) => mark.querySelector(":scope > title")?.textContent || mark.dataset.words || "";
  const marksOf = (drawing) => [...drawing.querySelectorAll("*")].filter((one) => one.dataset.words || one.querySelector(":scope > title"));

  function show(mark) {
    // the browser's own tooltip would stand over this one
    const title = mark.querySelector(":scope > title");
    if (title) {
      mark.dataset.words = title.textContent;
      mark.setAttribute("aria-label", title.textContent);
      title.remove();
    }
    if (shown) shown.classList.remove("pointed");
    shown = mark;
    mark.classList.add("pointed");
    tip.textContent = mark.dataset.words;
    tip.hidden = false;
    (mark.closest("dialog") || document.body).append(tip);
    const at = mark.getBoundingClientRect();
    const { width, height } = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(innerWidth - width - 8, at.left + at.width / 2 - width / 2))}px`;
    tip.style.top = `${at.top - height - 8 > 8 ? at.top - height - 8 : at.bottom + 8}px`;
  }
  function hide() {
    tip.hidden = true;
    if (shown) shown.classList.remove("pointed");
    shown = null;
  }
  const markAt = (target) => {
    for (let mark = target instanceof SVGElement ? target : null; mark && !(mark instanceof SVGSVGElement && !wordsOf(mark)); mark = mark.parentElement instanceof SVGElement ? mark.parentElement : null) if (wordsOf(mark)) return mark;
    return null;
  };
  for (const kind of ["pointerover", "pointerdown"]) {
    document.addEventListener(kind, (event) => {
      const mark = markAt(event.target);
      if (mark) show(mark);
      else if (shown) hide();
    });
  }
  addEventListener("scroll", hide, { passive: true, capture: true });
  document.addEventListener("focusin", (event) => {
    if (event.target instanceof SVGSVGElement) {
      if (shown && event.target.contains(shown)) return; // a finger or pointer chose it before the drawing got the focus
      const marks = marksOf(event.target);
      if (marks.length) show(marks.at(-1));
    } else if (shown) hide();
  });
  document.addEventListener("keydown", (event) => {
    const drawing = document.activeElement;
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.key === "Escape" && shown) hide();
    if (!step || !(drawing instanceof SVGSVGElement)) return;
    const marks = marksOf(drawing);
    const at = marks.indexOf(shown);
    show(marks[Math.max(0, Math.min(marks.length - 1, (at < 0 ? marks.length : at) + step))]);
    event.preventDefault();
  });
})();
