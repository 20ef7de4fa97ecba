// Text as people write it, made of elements and text nodes: fenced code, headings, lists, bold, inline code, links.
"use strict";
(() => {
  const { el } = ctx;
  const PARTS = /(`[^`]+`|\*\*[^*]+\*\*|!?\[[^[\]]{1,300}\]\([^()\s]{1,2000}\)|\b(?:https?):\/\/[^\s<>"'`\\]{1,2000})/;
  const LINK = /^!?\[(.+)\]\((.+)\)$/;
  const POINT = /^(\s*)([-*+]|(\d{1,9})[.)])\s+(.*)/;

  function prose(text) {
    const box = el("div.prose");
    text.split(/^[ \t]{0,8}```/m).forEach((part, i) => {
      if (i % 2) {
        const code = part.replace(/^[^\n]*\n?/, "").replace(/\n[ \t]*$/, "");
        if (code) box.append(el("pre.code", code));
      } else blocks(box, part.split("\n"));
    });
    return box;
  }

  function blocks(box, lines) {
    let [paragraph, lists, apart] = [null, [], false];
    for (const line of lines) {
      const heading = /^#{1,6}\s+(.*)/.exec(line);
      const point = POINT.exec(line);
      if (!line.trim()) {
        [paragraph, apart] = [null, true];
        continue;
      }
      if (heading) {
        box.append(el("p.heading", inline(heading[1])));
        [paragraph, lists] = [null, []];
      } else if (point) {
        lists = item(box, lists, point);
        paragraph = null;
      } else if (lists.length && (!apart || /^\s/.test(line))) lists.at(-1).node.lastChild.append(el("br"), ...inline(line.trim()));
      else {
        if (paragraph) paragraph.append(el("br"));
        else box.append((paragraph = el("p")));
        paragraph.append(...inline(line));
        lists = [];
      }
      apart = false;
    }
  }

  // Adds a point to the list that it stands in by its indent, or begins one; returns the lists that are open now.
  function item(box, lists, [, space, , number, words]) {
    const open = lists.filter((list) => list.indent <= space.length).slice(0, 8);
    const last = open.at(-1);
    const name = number === undefined ? "ul.points" : "ol.points";
    if (last && (last.indent + 1 >= space.length || open.length === 8) && last.name === name) last.node.append(el("li", inline(words)));
    else {
      const inside = last && last.indent + 1 < space.length;
      const node = el(name, el("li", inline(words)));
      if (number !== undefined) node.start = Number(number);
      const around = (inside ? open : open.slice(0, -1)).at(-1);
      (around ? around.node.lastChild : box).append(node);
      return [...(inside ? open : open.slice(0, -1)), { indent: space.length, name, node }];
    }
    return open;
  }

  function inline(line, links = true) {
    return line.split(PARTS).map((part, i) => {
      if (i % 2 === 0) return part;
      if (part.startsWith("`")) return el("code", part.slice(1, -1));
      if (part.startsWith("**")) return el("b", inline(part.slice(2, -2), links));
      const [, words, target] = LINK.exec(part) || [null, "", part];
      if (words) return links ? link(words, target) : part;
      const [, address, behind] = /^(.*?)([.,;:!?)\]}*_]*)$/.exec(target);
      return links ? [link("", address), behind] : part;
    }).flat();
  }

  // A link to the web, which says where it leads; any other target is no link. Words that are an address themselves give way to it.
  function link(words, target) {
    let url = null;
    try {
      url = new URL(target);
    } catch {
      // a path in the project
    }
    const shown = words ? inline(words, false) : [target];
    if (!url || !/^https?$/.test(url.protocol.slice(0, -1)) || url.username || url.password) {
      const text = el("span", shown);
      if (words && words !== target) text.append(el("span.muted", ` (${target})`));
      return text;
    }
    const node = el("a", /(?:https?):|www\.|^[\w-]+(\.[\w-]+)+(\/|$)/i.test(words) ? [url.href] : shown);
    node.href = url.href;
    node.title = url.href;
    node.rel = "noopener noreferrer nofollow";
    node.target = "_blank";
    node.referrerPolicy = "no-referrer";
    return node;
  }

  Object.assign(ctx, { prose, inline });
})();
