// xterm.js creates <style> elements and style attributes, which a policy without 'unsafe-inline' forbids. This esbuild
// plugin replaces the four occurrences with constructed style sheets and CSSOM, which every policy allows.

/** Text to find, its replacement and the expected number of occurrences. */
const REPLACEMENTS = [
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
        for (const [from, to, expected] of REPLACEMENTS) {
          const pieces = contents.split(from);
          const found = pieces.length - 1;
          // A new version of xterm.js needs new replacements.
          if (found !== expected) throw new Error(`expected ${from} ${expected} times in xterm.js, found ${found}`);
          contents = pieces.join(to);
        }
        if (/createElement\(.style.\)|setAttribute\(.style./.test(contents)) {
          throw new Error('xterm.js writes further inline styles; add replacements');
        }
        return { contents: constructed + contents, loader: 'js' };
      });
    },
  };
}
