// Cloudflare's packages are made for Workers and their bundler. This provides the module `cloudflare:workers` that they
// import (the checks call nothing that uses it), and the file extensions that they omit in relative imports.

import { register } from 'node:module';

const source = `
export class DurableObject {}
export class WorkerEntrypoint {}
export class RpcTarget {}
export const env = {};
export const tracing = {};
`;
const shim = `data:text/javascript,${encodeURIComponent(source)}`;
const hook = `
export async function resolve(name, context, next) {
  if (name.startsWith('cloudflare:')) return { url: ${JSON.stringify(shim)}, shortCircuit: true };
  try {
    return await next(name, context);
  } catch (error) {
    if (!name.startsWith('.')) throw error;
    return next(name + '.js', context);
  }
}
`;
register(`data:text/javascript,${encodeURIComponent(hook)}`);
