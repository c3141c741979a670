/** An error response of the server, with its stable code, or a failure to get a response. */
export class OutliveError extends Error {
  override readonly name = 'OutliveError';

  constructor(
    /** Stable, such as `not_found`; `connection_lost` if there was no response. */
    readonly code: string,
    message: string,
    /** HTTP status; 0 without a response. */
    readonly status = 0,
    readonly details: unknown = undefined,
    /** The host does not exist or refuses connections. Only known in Node: browsers hide the reason from pages. */
    readonly isHopeless = false,
  ) {
    super(message);
  }

  /** A retry may succeed: the connection was lost or the server was temporarily unavailable. */
  get isPassing(): boolean {
    return this.status === 0 ? this.code === 'connection_lost' : [429, 502, 503, 504].includes(this.status);
  }

  /** Parses an error response. */
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
