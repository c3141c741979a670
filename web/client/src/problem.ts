/** What the server refused, with its stable code. */
export class OutliveError extends Error {
  override readonly name = 'OutliveError';

  constructor(
    /** Stable, such as `not_found`; `connection_lost` if no answer came. */
    readonly code: string,
    message: string,
    /** Of the HTTP answer; 0 if there was none. */
    readonly status = 0,
    readonly details: unknown = undefined,
    /** Nobody listens there, or there is no such place (as far as can be known: pages are not told). */
    readonly isHopeless = false,
  ) {
    super(message);
  }

  /** Trying again may help: nobody has refused anything. */
  get isPassing(): boolean {
    return this.status === 0 ? this.code === 'connection_lost' : [429, 502, 503, 504].includes(this.status);
  }

  static async of(response: Response): Promise<OutliveError> {
    const text = await response.text().catch(() => '');
    try {
      const { code, detail, details } = JSON.parse(text) as { code?: string; detail?: string; details?: unknown };
      return new OutliveError(code ?? `http_${response.status}`, detail ?? text, response.status, details);
    } catch {
      return new OutliveError(`http_${response.status}`, text.slice(0, 200) || response.statusText, response.status);
    }
  }
}
