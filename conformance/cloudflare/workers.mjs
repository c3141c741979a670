// Cloudflare's packages are made for Workers and their bundler. Here they are given the module `cloudflare:workers`, which they import
// (nothing that the checks call uses what is behind its names), and the endings that they leave out of their own file names.

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
