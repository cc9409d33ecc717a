// A headless browser loads a page through previews and tells the page's server what it saw: assets, a
// module, cookies, server-sent events, a WebSocket; by host name and by path.
import { readFileSync } from 'node:fs';
import { browse, call, expect, main, told } from './shared.mjs';

await main(async (url) => {
  await call(url, 'writeFile', '/workspace/page.cjs', readFileSync(new URL('page.cjs', import.meta.url), 'utf8'));
  await call(url, 'startProcess', 'node page.cjs', { processId: 'page' });
  await call(url, 'waitForPort', 'page', 8080, { timeout: 20000, interval: 100 });
  const exposed = await call(url, 'exposePort', 8080, { token: 'tok' });
  await browse(`${exposed.url}?as=host`, async () => {
    const seen = await told(url, 'host');
    expect('a style sheet is applied', 'rgb(1, 2, 3)', seen.colour);
    expect('a picture is shown', 2, seen.width);
    expect('a module runs', 'module', seen.module);
    expect('cookies come back', 'a=1; b=2', seen.cookie);
    expect('a redirect is followed', '/landed', seen.landed);
    expect('events arrive', ['one', 'two'], seen.events);
    expect('a WebSocket echoes', 'hello', seen.echo);
    expect('its Host is that of other requests', seen.plainHost, seen.socketHost);
    expect('a large body comes whole', 3000000, seen.large);
    expect('the control API is out of reach', 'refused', seen.control);
  });
  await browse(`${exposed.pathUrl}?as=path`, async () => {
    const seen = await told(url, 'path');
    expect('by path: a style sheet is applied', 'rgb(1, 2, 3)', seen.colour);
    expect('by path: events arrive', ['one', 'two'], seen.events);
    expect('by path: a WebSocket echoes', 'hello', seen.echo);
    expect('by path: the control API is out of reach', 'refused', seen.control);
  });
});
