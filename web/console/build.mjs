// Bundles the console: node build.mjs [DIRECTORY]
// The default is dist/, which is committed and embedded in the server. The build is reproducible.

import { copyFile, mkdir, readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { strictStyles } from './strict_styles.mjs';

const here = fileURLToPath(new URL('.', import.meta.url));
const outDir = resolve(process.argv[2] ?? join(here, 'dist'));

await mkdir(outDir, { recursive: true });
await build({
  absWorkingDir: here,
  entryPoints: { app: 'src/main.ts' },
  outdir: outDir,
  bundle: true,
  minify: true,
  format: 'iife',
  target: ['chrome123', 'firefox120', 'safari17.5'],
  charset: 'utf8',
  legalComments: 'eof',
  logLevel: 'warning',
  plugins: [strictStyles(await readFile(new URL('./src/strict_styles/constructed.js', import.meta.url), 'utf8'))],
});
await copyFile(join(here, 'src/page/index.html'), join(outDir, 'index.html'));
