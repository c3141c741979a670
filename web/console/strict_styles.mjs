// xterm.js writes <style> elements and style attributes, which a policy without 'unsafe-inline' forbids. Its four places are
// changed while it is bundled: constructed style sheets and CSSOM do the same, and no policy minds them.

const CHANGES = [
  ['n.mainDocument.createElement("style")', '__constructedStyle(n.mainDocument)', 1],
  ['this._document.createElement("style")', '__constructedStyle(this._document)', 2],
  ['t.setAttribute("style",`${t.getAttribute("style")||""}${e};`)', 't.style.cssText+=e', 1],
];

/** `constructed` is the source of `__constructedStyle`. */
export function strictStyles(constructed) {
  return {
    name: 'strict-styles',
    setup({ onLoad }) {
      onLoad({ filter: /@xterm\/xterm\/lib\/xterm\.mjs$/ }, async ({ path }) => {
        const { readFile } = await import('node:fs/promises');
        let contents = await readFile(path, 'utf8');
        for (const [from, to, times] of CHANGES) {
          const pieces = contents.split(from);
          // Another version of xterm.js: look at what it does now.
          if (pieces.length !== times + 1) throw new Error(`xterm.js has ${pieces.length - 1} times ${from}, not ${times}`);
          contents = pieces.join(to);
        }
        if (/createElement\(.style.\)|setAttribute\(.style./.test(contents)) throw new Error('xterm.js writes further styles inline');
        return { contents: constructed + contents, loader: 'js' };
      });
    },
  };
}
