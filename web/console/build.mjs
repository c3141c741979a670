// Bundles the console into dist/, which is checked in and embedded by the server: node build.mjs [FOLDER]
// The same source gives the same bytes.

import { copyFile, mkdir, readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { strictStyles } from './strict_styles.mjs';

const here = fileURLToPath(new URL('.', import.meta.url));
const out = resolve(process.argv[2] ?? join(here, 'dist'));

await mkdir(out, { recursive: true });
await build({
  absWorkingDir: here,
  entryPoints: { app: 'src/main.ts' },
  outdir: out,
  bundle: true,
  minify: true,
  format: 'iife',
  target: ['chrome123', 'firefox120', 'safari17.5'],
  charset: 'utf8',
  legalComments: 'eof',
  logLevel: 'warning',
  plugins: [strictStyles(await readFile(new URL('./src/strict_styles/constructed.js', import.meta.url), 'utf8'))],
});
await copyFile(join(here, 'src/page/index.html'), join(out, 'index.html'));
